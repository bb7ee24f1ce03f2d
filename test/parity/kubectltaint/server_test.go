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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// server is an API server that holds nodes and nothing else, and validates their taints. Both commands talk to it:
// kubectl's in this process, ours over the loopback interface.
type server struct{ nodes []*corev1.Node }

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
		return http.StatusOK, nothing(request)
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

// nothing is an empty list of what is not served here: of the kind that the path names, or of metadata.
func nothing(request *http.Request) any {
	path := strings.Split(request.URL.Path, "/")
	version := schema.GroupVersion{Version: path[2]}
	if path[1] == "apis" {
		version = schema.GroupVersion{Group: path[2], Version: path[3]}
	}
	list := version.WithKind("")
	for kind := range kinds.KnownTypes(version) {
		if plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); plural.Resource == path[len(path)-1] {
			list.Kind = kind + "List"
		}
	}
	if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		list = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	apiVersion, kind := list.ToAPIVersionAndKind()
	return map[string]any{"kind": kind, "apiVersion": apiVersion, "metadata": map[string]any{}, "items": []any{}}
}

// kinds has every kind of Kubernetes and of Taintkeeper.
var kinds = func() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(all))
	utilruntime.Must(v1alpha1.AddToScheme(all))
	return all
}()

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

// patched is what a patch of either command makes of a node. It is an error if the API server would refuse that.
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
	if err := json.Unmarshal(merged, changed); err != nil {
		return nil, fmt.Errorf("decode the node: %w", err)
	}
	return changed, validate(changed.Spec.Taints)
}

// validate is what the API server says about a node that is given these taints.
func validate(list []corev1.Taint) error {
	old := &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}}
	changed := old.DeepCopy()
	for _, taint := range list {
		changed.Spec.Taints = append(changed.Spec.Taints, core.Taint{
			Key: taint.Key, Value: taint.Value, Effect: core.TaintEffect(taint.Effect), TimeAdded: taint.TimeAdded,
		})
	}
	return validation.ValidateNodeUpdate(changed, old).ToAggregate()
}
