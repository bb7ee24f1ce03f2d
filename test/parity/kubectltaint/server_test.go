// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// server is an API server that holds nodes and nothing else. Both commands talk to it: kubectl's in this process, ours
// over the loopback interface.
type server struct {
	nodes []*corev1.Node
}

// listen serves over the loopback interface.
func (s *server) listen(t *testing.T) *httptest.Server {
	t.Helper()
	listening := httptest.NewServer(s)
	listening.Config.SetKeepAlivesEnabled(false) // each command makes a client of its own
	t.Cleanup(listening.Close)
	return listening
}

// serve answers a request of this process.
func (s *server) serve(request *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, request)
	return recorder.Result(), nil
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	status, answer := s.answer(request)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller finds that it is broken
}

func (s *server) answer(request *http.Request) (int, any) {
	_, rest, found := strings.Cut(request.URL.Path, "/nodes")
	switch {
	case !found:
		return http.StatusOK, nothing(request.URL.Path)
	case rest == "":
		return http.StatusOK, s.list(request.URL.Query().Get("labelSelector"))
	}
	i := slices.IndexFunc(s.nodes, func(node *corev1.Node) bool { return "/"+node.Name == rest })
	if i < 0 {
		return http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound, "nodes "+rest+" not found")
	}
	if request.Method == http.MethodPatch {
		patched, err := patched(s.nodes[i], request)
		if err != nil {
			return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
		s.nodes[i] = patched
	}
	return http.StatusOK, s.nodes[i]
}

// nothing is an empty list of what is not served here.
func nothing(path string) any {
	kind := map[string]string{
		"pods": "PodList", "poddisruptionbudgets": "PodDisruptionBudgetList", "replicasets": "PartialObjectMetadataList", "jobs": "PartialObjectMetadataList",
		"evictionpolicies": "EvictionPolicyList",
	}[path[strings.LastIndex(path, "/")+1:]]
	version := map[string]string{"PodList": "v1", "PodDisruptionBudgetList": "policy/v1", "EvictionPolicyList": "taintkeeper.dev/v1alpha1"}[kind]
	if version == "" {
		version = "meta.k8s.io/v1"
	}
	return map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": []any{}}
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

func (s *server) list(selector string) *corev1.NodeList {
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	wanted, err := labels.Parse(selector)
	if err != nil {
		return list
	}
	for _, node := range s.nodes {
		if wanted.Matches(labels.Set(node.Labels)) {
			list.Items = append(list.Items, *node)
		}
	}
	return list
}

// patched is what a patch of either command makes of a node.
func patched(node *corev1.Node, request *http.Request) (*corev1.Node, error) {
	patch, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	old, err := json.Marshal(node)
	if err != nil {
		return nil, fmt.Errorf("encode the node: %w", err)
	}
	merge := jsonpatch.MergePatch
	if request.Header.Get("Content-Type") == string(types.StrategicMergePatchType) {
		merge = func(old, patch []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(old, patch, &corev1.Node{})
		}
	}
	merged, err := merge(old, patch)
	if err != nil {
		return nil, fmt.Errorf("merge the patch: %w", err)
	}
	changed := &corev1.Node{}
	return changed, json.Unmarshal(merged, changed)
}
