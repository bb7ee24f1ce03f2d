// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

func managerPod(command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kcm", Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: command}}},
	}
}

func writtenNode(manager, fields string, at time.Time) *corev1.Node {
	written := metav1.NewTime(at)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: manager, Time: &written, FieldsV1: metav1.NewFieldsV1(fields),
	}}}}
}

// rivalsAmong returns a rivals that looks for other controllers among objects.
func rivalsAmong(t *testing.T, objects ...runtime.Object) rivals {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	found := rivals{fake.NewClientset(objects...), metadatafake.NewSimpleMetadataClient(scheme)}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			writeNode(t, found, node)
		}
	}
	return found
}

// writeNode creates a node that has only metadata.
func writeNode(t *testing.T, among rivals, node *corev1.Node) {
	t.Helper()
	nodes := among.nodes.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).(metadatafake.MetadataClient)
	_, err := nodes.CreateFake(&metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: node.ObjectMeta,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheBuiltInNodeLifecycleControllerIsSeen(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	const taints, conditions, annotations = `{"f:spec":{"f:taints":{}}}`, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`, `{"f:metadata":{"f:annotations":{}}}`
	for name, test := range map[string]struct {
		object runtime.Object
		want   string // in the sentence; "" if it is not seen
	}{
		"its pod has the defaults":                 {managerPod("kube-controller-manager", "--leader-elect=true"), "pod kube-system/kcm"},
		"its pod names other controllers":          {managerPod("/usr/local/bin/kube-controller-manager", "--controllers=*,bootstrapsigner"), "pod kube-system/kcm"},
		"its pod has switched it off":              {managerPod("kube-controller-manager", "--controllers=*,-node-lifecycle-controller"), ""},
		"its pod has switched the old name off":    {managerPod("kube-controller-manager", "--controllers=*,-nodelifecycle"), ""},
		"its pod has switched it off in two words": {managerPod("kube-controller-manager", "--controllers", "*,-node-lifecycle-controller"), ""},
		"its pod runs it by the old name alone":    {managerPod("kube-controller-manager", "--controllers=nodelifecycle"), "pod kube-system/kcm"},
		"its pod runs only another controller":     {managerPod("kube-controller-manager", "--controllers=deployment"), ""},
		"it wrote taints a minute ago":             {writtenNode("kube-controller-manager", taints, now.Add(-time.Minute)), "node n at 2026-03-01T11:59:00Z"},
		"it wrote conditions a minute ago":         {writtenNode("kube-controller-manager", conditions, now.Add(-time.Minute)), "node n"},
		"it wrote taints an hour ago":              {writtenNode("kube-controller-manager", taints, now.Add(-time.Hour)), ""},
		"another of its controllers wrote":         {writtenNode("kube-controller-manager", annotations, now.Add(-time.Minute)), ""},
		"another client wrote taints":              {writtenNode("kubectl-taint", taints, now.Add(-time.Minute)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rivalsAmong(t, test.object).find(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			if (got != "") != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q in it", got, test.want)
			}
		})
	}
}

func TestAPodThatDoesNotRunTheBuiltInDoesNotHideWhatItWrites(t *testing.T) {
	now := time.Now()
	over := managerPod("kube-controller-manager", "--controllers=*,-node-lifecycle-controller")
	over.Status.Phase = corev1.PodFailed
	for name, pod := range map[string]*corev1.Pod{"another program": managerPod("sleep"), "a pod that has finished": over} {
		wrote := writtenNode("kube-controller-manager", `{"f:spec":{"f:taints":{}}}`, now.Add(-time.Minute))
		if got, err := rivalsAmong(t, pod, wrote).find(t.Context(), now); err != nil || !strings.Contains(got, "node n at ") {
			t.Errorf("%s: it says %q, %v", name, got, err)
		}
	}
}

// The API server answers in protobuf, and the client of the controllers decodes no containers in it.
func TestTheLeaderReadsTheCommandLineOfTheBuiltIn(t *testing.T) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		if err := encoder.Encode(&corev1.PodList{Items: []corev1.Pod{*managerPod("kube-controller-manager")}}, w); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	clients, err := newClients(&rest.Config{Host: server.URL}, &timeline.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "pod kube-system/kcm runs kube-controller-manager"
	if got, err := clients.rivals.find(t.Context(), time.Now()); err != nil || !strings.Contains(got, want) {
		t.Errorf("it sees %q, %v, want %q", got, err, want)
	}
}

func TestNextToTheBuiltInOnlyNodeHealthIsLeftOut(t *testing.T) {
	for list, want := range map[string][]string{
		"*":                           {"eviction", "node-taint-rule"},
		"*,-eviction":                 {"node-taint-rule"},
		"eviction,node-health":        {"eviction"},
		"node-health,node-taint-rule": {"node-taint-rule"},
		"node-taint-rule":             {"node-taint-rule"},
		"node-health":                 nil, // it ends
	} {
		o := parse(t, "--controllers="+list)
		err := o.avoidRival(t.Context(), rivalsAmong(t, managerPod("kube-controller-manager")), logr.Discard())
		if ends := want == nil; (err != nil) != ends {
			t.Errorf("--controllers=%s: it says %v", list, err)
		}
		if got := o.running(); err == nil && !slices.Equal(got, want) {
			t.Errorf("--controllers=%s runs %q, want %q", list, got, want)
		}
		if asked := parse(t, "--controllers="+list).enabled(controllerNodeHealth); err == nil && o.nodeHealthLeftOut != asked {
			t.Errorf("--controllers=%s: it says that node-health is left out: %t", list, o.nodeHealthLeftOut)
		}
	}
}

func TestOnlyNodeHealthIsWatchedForTheBuiltIn(t *testing.T) {
	for list, want := range map[string]bool{"*": true, "node-health": true, "eviction,node-taint-rule": false, "node-taint-rule": false} {
		parts, err := fakeClients(t, fake.NewClientset()).parts(logr.Discard(), prometheus.NewRegistry(), parse(t, "--controllers="+list))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(parts, func(p part) bool { _, watches := p.runs.(rivalWatch); return watches })
		if got != want {
			t.Errorf("--controllers=%s: the built-in node-lifecycle-controller is watched for: %t, want %t", list, got, want)
		}
	}
}

func TestABuiltInNodeLifecycleControllerThatShowsItselfLaterEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		among := rivalsAmong(t)
		ended := make(chan error, 1)
		go func() { ended <- rivalWatch{among, logr.Discard()}.Run(t.Context()) }()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time in a synctest bubble
		select {
		case err := <-ended:
			t.Fatalf("it ends although no built-in runs: %v", err)
		default:
		}
		wrote := time.Now()
		writeNode(t, among, writtenNode("kube-controller-manager", `{"f:spec":{"f:taints":{}}}`, wrote))
		err := <-ended
		if err == nil || !strings.Contains(err.Error(), "node n at ") || !strings.Contains(err.Error(), "-node-lifecycle-controller") {
			t.Errorf("it says %v", err)
		}
		if took := time.Since(wrote); took > rivalLookEvery {
			t.Errorf("it took %v", took)
		}
	})
}

func TestANewLeaderSeesAtOnceABuiltInThatAppearedWhileItWasAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		among := rivalsAmong(t)
		writeNode(t, among, writtenNode("kube-controller-manager", `{"f:spec":{"f:taints":{}}}`, time.Now()))
		ended := make(chan error, 1)
		go func() { ended <- rivalWatch{among, logr.Discard()}.Run(t.Context()) }()
		began := time.Now()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "node n at ") {
			t.Errorf("it says %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAFailedLookForTheBuiltInIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var asked atomic.Int32
		client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked.Add(1)
			return true, nil, errors.New("not now")
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- rivalWatch{rivals{client, nil}, logr.Discard()}.Run(ctx) }()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time in a synctest bubble
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ends with %v", err)
		}
		if looked := asked.Load(); looked < 2 {
			t.Errorf("it looked %d times", looked)
		}
	})
}
