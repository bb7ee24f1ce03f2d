// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// gateway stands for etcd's: it keeps what is put, and takes a transaction of at most 128 operations.
type gateway struct {
	mu     sync.Mutex
	stored map[string][]byte
	order  []string
}

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var question struct {
		Key     []byte
		Success []struct {
			RequestPut struct{ Key, Value []byte }
		}
		RangeEnd []byte `json:"range_end"`
	}
	if err := json.NewDecoder(request.Body).Decode(&question); err != nil || len(question.Success) > 128 {
		http.Error(out, fmt.Sprintf("%d operations, %v", len(question.Success), err), http.StatusBadRequest)
		return
	}
	if strings.HasSuffix(request.URL.Path, "/range") {
		kvs := []keyValue{}
		if value, ok := g.stored[string(question.Key)]; ok {
			kvs = append(kvs, keyValue{question.Key, value})
		}
		_ = json.NewEncoder(out).Encode(map[string]any{"kvs": kvs})
		return
	}
	if strings.HasSuffix(request.URL.Path, "/deleterange") {
		maps.DeleteFunc(g.stored, func(key string, _ []byte) bool {
			return key >= string(question.Key) && key < string(question.RangeEnd)
		})
	}
	for _, operation := range question.Success {
		g.stored[string(operation.RequestPut.Key)] = operation.RequestPut.Value
		g.order = append(g.order, string(operation.RequestPut.Key))
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"succeeded": true})
}

func TestTheCrowdIsWrittenAsTheTemplateIsStored(t *testing.T) {
	const pods, nodes = 321, 7
	g := &gateway{stored: map[string][]byte{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	template := smallPod(nodes)
	template.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	template.Status = runningStatus(template)
	store := etcd{server.URL}
	err := store.fill(t.Context(), 0, pods, func(i int) (string, runtime.Object) {
		return fmt.Sprint("/pods/", i), anotherPod(template, i, nodes)
	})
	if err != nil {
		t.Fatal(err)
	}
	names, ips, onNodes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for key := range g.stored {
		content, err := store.get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		if err := decodeStored(content, &pod); err != nil {
			t.Fatal(err)
		}
		names[pod.Namespace+"/"+pod.Name], ips[pod.Status.PodIP], onNodes[pod.Spec.NodeName] = true, true, true
	}
	if len(names) != pods || len(ips) != pods || len(onNodes) != nodes {
		t.Errorf("%d names and %d addresses of %d pods, on %d nodes; want %d nodes", len(names), len(ips), pods, len(onNodes), nodes)
	}
	if last := g.order[len(g.order)-1]; last != fmt.Sprint("/pods/", pods-1) || slices.Index(g.order, last) != pods-1 {
		t.Errorf("%s was written last, want the last pod", last)
	}
}

func TestSlimPodsAreTheSameWheneverTheyAreMadeAndCanBeRemovedWithoutOthers(t *testing.T) {
	const pods, nodes = 321, 7
	g := &gateway{stored: map[string][]byte{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	template := slimPod(nodes)
	template.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	template.Status = runningStatus(template)
	store, uids := etcd{server.URL}, map[types.UID]bool{}
	slim := func(i int) *corev1.Pod {
		pod := anotherSlimPod(template, i, nodes)
		uids[pod.UID] = true
		return pod
	}
	for _, is := range []bool{true, false} {
		for i := range pods {
			key, pod := keyed(func(i int) *corev1.Pod { return ready(slim(i), is) })(i)
			if err := store.put(t.Context(), []keyValue{{Key: []byte(key), Value: []byte(readiness(pod))}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(uids) != pods || len(g.stored) != pods {
		t.Errorf("%d UIDs and %d keys of %d pods", len(uids), len(g.stored), pods)
	}
	if got := string(g.stored["/registry/pods/slim/slim-0000000"]); got != "False" {
		t.Errorf("the first pod is ready: %q, want False", got)
	}
	g.stored["/registry/pods/slimmer/other"] = nil
	if err := store.remove(t.Context(), "/registry/pods/slim/"); err != nil || len(g.stored) != 1 {
		t.Errorf("%d keys are left, want the other's: %v", len(g.stored), err)
	}
}

// readiness is what a pod says of itself.
func readiness(object runtime.Object) corev1.ConditionStatus {
	for _, c := range object.(*corev1.Pod).Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}

func TestAnEtcdThatRefusesIsAnError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	store := etcd{server.URL}
	if _, err := store.get(t.Context(), "/pods/1"); err == nil {
		t.Error("there is nothing to read")
	}
	if err := store.put(t.Context(), []keyValue{{}}); err == nil {
		t.Error("nothing was written")
	}
}
