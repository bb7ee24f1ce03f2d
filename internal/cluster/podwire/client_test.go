// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/framer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fullPod has what is needed of a pod and more.
func fullPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "db-0", UID: "1234", ResourceVersion: "42", Generation: 3,
			Labels:      map[string]string{"app": "db"},
			Annotations: map[string]string{"note": "long", corev1.MirrorPodAnnotationKey: "hash"},
		},
		Spec: corev1.PodSpec{
			NodeName:    "n1",
			Containers:  []corev1.Container{{Name: "db", Image: "db:1"}},
			Tolerations: []corev1.Toleration{{Key: "disk", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))}},
			Priority:    new(int32(7)),
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			PodIP:      "10.1.2.3",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "because"}},
		},
	}
}

// apiServer answers every request with an object of its own, in protobuf or in JSON.
type apiServer struct {
	contentType string
	encode      func(t *testing.T, object runtime.Object, kind string) []byte
}

var inProtobuf = apiServer{runtime.ContentTypeProtobuf, func(t *testing.T, object runtime.Object, kind string) []byte {
	t.Helper()
	return encoded(t, object, kind)
}}

var inJSON = apiServer{runtime.ContentTypeJSON, func(t *testing.T, object runtime.Object, kind string) []byte {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	wire, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}}

func (s apiServer) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(s.handler(t))
	t.Cleanup(server.Close)
	client, err := NewForConfig(&rest.Config{
		Host: server.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"},
	}, kept)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s apiServer) handler(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, object runtime.Object, kind string) {
		wire := s.encode(t, object, kind)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", s.contentType)
			_, _ = w.Write(wire)
		})
	}
	answer("/api/v1/namespaces/default/pods/db-0", fullPod(), "Pod")
	answer("/api/v1/namespaces/default/pods/db-0/status", fullPod(), "Pod")
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, _ *http.Request) { s.serveWatch(t, w) })
	return mux
}

// serveWatch sends a pod, the bookmark that ends a streamed list, and an error.
func (s apiServer) serveWatch(t *testing.T, w http.ResponseWriter) {
	end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "51", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	w.Header().Set("Content-Type", s.contentType+";stream=watch")
	s.send(t, w, watch.Modified, fullPod(), "Pod")
	s.send(t, w, watch.Bookmark, end, "Pod")
	s.send(t, w, watch.Error, &apierrors.NewResourceExpired("too old").ErrStatus, "Status")
}

func (s apiServer) send(t *testing.T, w http.ResponseWriter, event watch.EventType, object runtime.Object, kind string) {
	wire := s.encode(t, object, kind)
	if s.contentType == runtime.ContentTypeJSON {
		_, _ = fmt.Fprintf(w, `{"type":%q,"object":%s}`, event, wire)
		return
	}
	_, _ = framer.NewLengthDelimitedFrameWriter(w).Write(encodedEvent(t, string(event), wire))
}

// untyped leaves out the kind, which clients remove from what they decode.
var untyped = cmpopts.IgnoreTypes(metav1.TypeMeta{})

func TestPodsAreReadWithoutWhatIsNotNeeded(t *testing.T) {
	tests := []struct {
		name   string
		server apiServer
		want   *corev1.Pod
	}{
		{"in protobuf", inProtobuf, slim(fullPod())},
		{"in JSON, which is decoded as ever", inJSON, fullPod()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pods := test.server.client(t).CoreV1().Pods("default")
			got, err := pods.Get(t.Context(), "db-0", metav1.GetOptions{})
			checkPod(t, "read", got, err, test.want)
			got, err = pods.Patch(t.Context(), "db-0", types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
			checkPod(t, "patched", got, err, test.want)
		})
	}
}

func checkPod(t *testing.T, how string, got *corev1.Pod, err error, want *corev1.Pod) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	if diff := cmp.Diff(want, got, untyped, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s another pod (-want +got):\n%s", how, diff)
	}
}

func TestAWatchBringsPodsBookmarksAndErrors(t *testing.T) {
	for _, server := range []apiServer{inProtobuf, inJSON} {
		t.Run(server.contentType, func(t *testing.T) {
			w, err := server.client(t).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			modified, bookmark, failure := <-w.ResultChan(), <-w.ResultChan(), <-w.ResultChan()
			pod, ok := modified.Object.(*corev1.Pod)
			if modified.Type != watch.Modified || !ok || pod.Spec.NodeName != "n1" {
				t.Fatalf("first %v, want the pod", modified)
			}
			if slimmed := server.contentType == runtime.ContentTypeProtobuf; slimmed != (pod.Spec.Containers == nil) {
				t.Errorf("containers %v", pod.Spec.Containers)
			}
			end, ok := bookmark.Object.(*corev1.Pod)
			if bookmark.Type != watch.Bookmark || !ok || end.ResourceVersion != "51" || end.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("then %v, want the end of the list", bookmark)
			}
			if err := apierrors.FromObject(failure.Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("then %v, want that the version is too old", err)
			}
		})
	}
}

func TestAPodThatMayLackFieldsIsNotWrittenBack(t *testing.T) {
	pods := inProtobuf.client(t).CoreV1().Pods("default")
	_, created := pods.Create(t.Context(), fullPod(), metav1.CreateOptions{})
	_, updated := pods.Update(t.Context(), fullPod(), metav1.UpdateOptions{})
	for _, err := range []error{created, updated} {
		if err == nil || !strings.Contains(err.Error(), "patch it instead") {
			t.Errorf("error %v, want that only patches are possible", err)
		}
	}
}

func TestWhatIsCutShortIsAnErrorWhereItIsOneToKubernetes(t *testing.T) {
	wire := encoded(t, fullPod(), "Pod")
	fully, _ := serializers(t, ordinary())
	trimming, _ := serializers(t, ours())
	failures := 0
	for length := range len(wire) {
		_, _, want := fully.Decode(wire[:length], nil, nil)
		if want != nil {
			failures++
		}
		if _, _, err := trimming.Decode(wire[:length], nil, nil); (err == nil) != (want == nil) {
			t.Errorf("%d of %d bytes: error %v, want %v", length, len(wire), err, want)
		}
	}
	if failures < len(wire)-10 {
		t.Errorf("%d of %d lengths are errors", failures, len(wire))
	}
}

func TestWhatWasReadStaysWhenTheNextIsRead(t *testing.T) {
	object, event := serializers(t, ours())
	var events []metav1.WatchEvent
	var pods []runtime.Object
	for i := range 10 {
		pod := fullPod()
		pod.Name = fmt.Sprint("pod-", i)
		wire := encoded(t, pod, "Pod")
		var got metav1.WatchEvent
		if _, _, err := event.Decode(encodedEvent(t, "ADDED", wire), nil, &got); err != nil {
			t.Fatal(err)
		}
		read, _, err := object.Decode(wire, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		events, pods = append(events, got), append(pods, read)
	}
	for i, pod := range pods {
		want := fmt.Sprint("pod-", i)
		if got := pod.(*corev1.Pod).Name; got != want {
			t.Errorf("%s became %s", want, got)
		}
		read, _, err := object.Decode(events[i].Object.Raw, nil, nil)
		if err != nil || read.(*corev1.Pod).Name != want {
			t.Errorf("%s became %v, %v", want, read, err)
		}
	}
}
