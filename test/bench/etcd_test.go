// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	err := store.fill(t.Context(), pods, func(i int) (string, runtime.Object) {
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
