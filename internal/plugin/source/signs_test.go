// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

var now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// lease returns the Lease of a leader. Taintkeeper's says that it evicts.
func lease(namespace, name string, renewed time.Time) runtime.Object {
	var labels map[string]string
	if name != "kube-controller-manager" {
		labels = (&v1alpha1.Leader{Controllers: []string{"eviction"}}).Labels("replica-1")
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("replica-1"), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(renewed)),
		},
	}
}

func evictionClock(namespace string, renewed time.Time) runtime.Object {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: v1alpha1.EvictionClock,
		Annotations: map[string]string{v1alpha1.EvictionClockAnnotation: renewed.Format(time.RFC3339), "secret": "hunter2"},
	}}
}

func controllerManager() runtime.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager-control-1", UID: "m", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Command: []string{"kube-controller-manager"}}}},
	}
}

// forbid denies rights: "list leases", for example, or "* events".
func forbid(clients *fake.Clientset, rights ...string) {
	for _, right := range rights {
		verb, resource, _ := strings.Cut(right, " ")
		clients.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
		})
	}
}

func readerOf(clients *fake.Clientset) *Reader {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clocktesting.NewFakePassiveClock(now)}
	return &Reader{
		Clients: clients, Progress: show.NewProgress(env), Cluster: &state.Cluster{Signs: state.Signs{At: now}},
		Clock: &timeline.Clock{Wall: func() time.Time { return now }},
	}
}

// read reads from an API server what a check needs to know about controllers, and the pods.
func read(t *testing.T, clients *fake.Clientset) *state.Cluster {
	t.Helper()
	r := readerOf(clients)
	if err := r.required(t.Context(), Wants{}); err != nil {
		t.Fatal(err)
	}
	if err := r.signs(t.Context(), Wants{Signs: true}); err != nil {
		t.Fatal(err)
	}
	return r.Cluster
}

func whoEvicts(cluster *state.Cluster) cliv1alpha1.CheckedTask {
	return check.Make(cluster, nil, "", now).Controllers[0]
}

func TestTheAPIServerTellsWhoEvicts(t *testing.T) {
	fresh, stale := now.Add(-3*time.Second), now.Add(-time.Hour)
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    cliv1alpha1.Who
	}{
		"ours, in a namespace of its own": {[]runtime.Object{lease("tk", "taintkeeper", fresh), evictionClock("tk", fresh), controllerManager()}, cliv1alpha1.WhoTaintkeeper},
		"a dead clock":                    {[]runtime.Object{lease("kube-system", "taintkeeper", stale), evictionClock("kube-system", stale), controllerManager()}, cliv1alpha1.WhoBuiltIn},
		"both":                            {[]runtime.Object{lease("kube-system", "taintkeeper", fresh), controllerManager()}, cliv1alpha1.WhoBoth},
	} {
		t.Run(name, func(t *testing.T) {
			if task := whoEvicts(read(t, fake.NewClientset(test.objects...))); task.Who != test.want {
				t.Errorf("it is %s, want %s; signs: %q", task.Who, test.want, task.Signs)
			}
		})
	}
}

func TestWithoutRightsACheckGoesOnAndSaysWhatIsMissing(t *testing.T) {
	clients := fake.NewClientset(lease("kube-system", "taintkeeper", now), evictionClock("kube-system", now), controllerManager())
	forbid(clients, "* leases", "* serviceaccounts", "* events")
	cluster := read(t, clients)
	want := []string{
		"You may not list leases, so they cannot show which controllers are running.",
		"You may not list serviceaccounts, so the eviction clock of Taintkeeper is not known.",
		"You may not list events, so they cannot show who evicted.",
	}
	if !slices.Equal(cluster.Notes(), want) {
		t.Errorf("missing is %q, want %q", cluster.Notes(), want)
	}
	if task := whoEvicts(cluster); task.Who != cliv1alpha1.WhoUnknown || !strings.Contains(task.Message, "nothing shows whether Taintkeeper does too") {
		t.Errorf("it is %s: %q", task.Who, task.Message)
	}
}

func TestTheReportOfShadowModeIsReadUnlessThatIsNotAllowed(t *testing.T) {
	const denied = "You may not list configmaps, so the report of shadow mode is not known."
	for name, test := range map[string]struct {
		data  string
		rules []string
		note  string
	}{
		"it is read":     {`{"kind": "ShadowReport", "pending": 7}`, nil, ""},
		"it may not be":  {`{"kind": "ShadowReport", "pending": 7}`, []string{"* configmaps"}, denied},
		"it is not ours": {`{"kind": "Other"}`, nil, `ConfigMap tk/taintkeeper-shadow has no report of shadow mode: its kind is "Other".`},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "tk", Name: v1alpha1.ShadowConfigMap}, Data: map[string]string{v1alpha1.ShadowReportKey: test.data},
			})
			forbid(clients, test.rules...)
			r := readerOf(clients)
			if err := r.health(t.Context(), Wants{Health: true}); err != nil {
				t.Fatal(err)
			}
			report := r.Cluster.Signs.Shadow
			if read := report != nil && report.Pending == 7; read != (test.note == "") || strings.Join(r.Cluster.Notes(), " ") != test.note {
				t.Errorf("it reads %+v and notes %q, want %q", report, r.Cluster.Notes(), test.note)
			}
		})
	}
}

// A team may often read its own namespace, and nothing else.
func TestAUserOfOneNamespaceGetsAnswersAboutThatNamespace(t *testing.T) {
	pod := func(namespace string) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: types.UID(namespace)}, Spec: corev1.PodSpec{NodeName: "n"}}
	}
	clients := fake.NewClientset(pod("shop"), pod("kube-system"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	clients.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetNamespace() != "shop", nil, apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "", nil)
	})
	r := readerOf(clients)
	r.Home = "shop"
	err := r.required(t.Context(), Wants{})
	if denied, ok := errors.AsType[DeniedError](err); !ok || denied.Kind != "nodes" {
		t.Errorf("without nodes, which a plan requires, the error is %v", err)
	}
	for _, read := range []func(context.Context, Wants) error{r.required, r.scheduling, r.signs} {
		if err := read(t.Context(), Wants{WithoutNodes: "it is not known which pods are due", Successors: true, Signs: true}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.Cluster.Pods) != 1 || r.Cluster.Pods[0].Namespace != "shop" {
		t.Errorf("the pods are %v, want those of shop", r.Cluster.Pods)
	}
	for _, note := range []string{
		"You may list pods only in namespace shop, so the answer is about that namespace.",
		"You may not list nodes, so it is not known which pods are due.",
		"You may not list volumeattachments, so the command assumes that a volume of a CSI driver is attached to the node of the pod that uses it.",
		"You may not list leases, so they cannot show which controllers are running.",
	} {
		if !slices.Contains(r.Cluster.Notes(), note) {
			t.Errorf("the notes lack %q: %q", note, r.Cluster.Notes())
		}
	}
}

func TestARightToGetInKubeSystemIsEnough(t *testing.T) {
	clients := fake.NewClientset(lease("kube-system", "taintkeeper", now), lease("kube-system", "kube-controller-manager", now), evictionClock("kube-system", now))
	forbid(clients, "list leases", "list serviceaccounts")
	cluster := read(t, clients)
	if task := whoEvicts(cluster); task.Who != cliv1alpha1.WhoTaintkeeper || len(cluster.Notes()) > 0 {
		t.Errorf("it is %s, and missing is %q", task.Who, cluster.Notes())
	}
}

func TestObjectsThatAreNotInKubeSystemMayBeInAnotherNamespace(t *testing.T) {
	clients := fake.NewClientset(lease("tk", "taintkeeper", now), lease("kube-system", "kube-controller-manager", now), controllerManager())
	forbid(clients, "list leases", "list serviceaccounts")
	cluster := read(t, clients)
	if task := whoEvicts(cluster); task.Who != cliv1alpha1.WhoUnknown || len(cluster.Notes()) != 2 {
		t.Errorf("it is %s, and missing is %q", task.Who, cluster.Notes())
	}
}

// bindingOf returns the binding of the admission policy of a release.
func bindingOf(name, namespace string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			ParamRef: &admissionregistrationv1.ParamRef{Name: v1alpha1.EvictionClock, Namespace: namespace},
		},
	}
}

func TestTheBindingsOfThePolicyNameTheNamespacesToGetFrom(t *testing.T) {
	for name, test := range map[string]struct {
		bindings []runtime.Object
		denied   string // the namespace in which no ServiceAccount may be read
		missing  int
	}{
		"a release in a namespace of its own": {
			[]runtime.Object{bindingOf("taintkeeper-coexistence.tk", "tk")}, "kube-system", 0,
		},
		"an earlier release has left its binding": {
			[]runtime.Object{bindingOf("taintkeeper-coexistence", "kube-system"), bindingOf("taintkeeper-coexistence.tk", "tk")}, "", 0,
		},
		"one of two clocks may not be read": {
			[]runtime.Object{bindingOf("taintkeeper-coexistence", "kube-system"), bindingOf("taintkeeper-coexistence.tk", "tk")},
			"kube-system", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(append(test.bindings,
				lease("tk", "taintkeeper", now), lease("kube-system", "kube-controller-manager", now), evictionClock("tk", now))...)
			forbid(clients, "list leases", "list serviceaccounts")
			clients.PrependReactor("get", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
				denied := apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "", nil)
				return action.GetNamespace() == test.denied, nil, denied
			})
			cluster := read(t, clients)
			if task := whoEvicts(cluster); task.Who != cliv1alpha1.WhoTaintkeeper || len(cluster.Notes()) != test.missing {
				t.Errorf("it is %s, and missing is %q", task.Who, cluster.Notes())
			}
		})
	}
}

func TestAnErrorOtherThanForbiddenIsReturned(t *testing.T) {
	clients := fake.NewClientset()
	clients.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(io.ErrUnexpectedEOF)
	})
	r := &Reader{Clients: clients, Cluster: &state.Cluster{}, Clock: &timeline.Clock{}}
	if err := r.signs(t.Context(), Wants{Signs: true}); err == nil || !strings.Contains(err.Error(), "list events: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestOnlyTheTimeOfAnEvictionClockIsKept(t *testing.T) {
	cluster := read(t, fake.NewClientset(evictionClock("kube-system", now)))
	if got := cluster.Signs.EvictionClocks[0].Annotations; len(got) != 1 {
		t.Errorf("kept %q", got)
	}
}

func TestANoteSaysThatTaintkeeperDoesNotEvictOnlyIfNothingShowsThatItDoes(t *testing.T) {
	const (
		exception = "EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."
		builtIn   = " Due pods leave only if the built-in controller evicts them."
	)
	policies := []*v1alpha1.EvictionPolicy{{}}
	keeper := func(mode string) runtime.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tk", Name: "keeper", Labels: map[string]string{
			"app.kubernetes.io/name": "taintkeeper", "taintkeeper.dev/mode": mode,
		}}}
	}
	marked := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "marked"}, Reason: v1alpha1.EventEviction,
		Message: v1alpha1.MarkingText + "shop/web", LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	}
	fresh, stale := now.Add(-3*time.Second), now.Add(-time.Hour)
	for name, test := range map[string]struct {
		objects  []runtime.Object
		denied   []string
		policies []*v1alpha1.EvictionPolicy
		want     string
		calls    int
	}{
		"a leader is asked for once": {
			objects: []runtime.Object{lease("tk", "taintkeeper", fresh)}, calls: 1,
		},
		"the Lease is stale": {
			objects: []runtime.Object{lease("tk", "taintkeeper", stale)}, calls: 7,
			policies: policies, want: "Taintkeeper is not running (Lease tk/taintkeeper was last renewed 60m ago), so " + exception + builtIn,
		},
		"there is no Lease, and there are no policies":        {calls: 7, want: "Taintkeeper is not running, or runs without leader election." + builtIn},
		"leases may not be listed, and there are no policies": {denied: []string{"list leases", "get leases"}, calls: 9},
		"leases may not be listed": {
			denied: []string{"list leases", "get leases"}, calls: 9, policies: policies,
			want: "It is not known whether Taintkeeper is running. If it is not, " + exception,
		},
		"the Lease has another name": {
			objects: []runtime.Object{lease("tk", "mine", fresh), keeper("enforce")}, calls: 2,
		},
		"shadow mode": {
			objects: []runtime.Object{keeper("shadow")}, calls: 7,
			policies: policies, want: "Taintkeeper runs in shadow mode, so " + exception + builtIn,
		},
		"a process with a clock and without a Lease": {
			objects: []runtime.Object{evictionClock("tk", fresh)}, calls: 4,
		},
		"kube-controller-manager has just evicted": {
			objects: []runtime.Object{lease("kube-system", "kube-controller-manager", fresh), marked}, calls: 7,
			want: "Taintkeeper is not running, or runs without leader election. kube-controller-manager evicts due pods, by its own rule.",
		},
		"pods may not be listed": {
			objects: []runtime.Object{lease("tk", "taintkeeper", stale)}, denied: []string{"list pods"}, calls: 7,
			policies: policies, want: "It is not known whether Taintkeeper is running. If it is not, " + exception,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset(test.objects...)
			forbid(clients, test.denied...)
			env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clocktesting.NewFakePassiveClock(now)}
			r := NewReader("", clients, nil, nil, show.NewProgress(env))
			r.Clock = &timeline.Clock{Wall: func() time.Time { return now }}
			r.Cluster = &state.Cluster{Policies: test.policies}
			if err := r.FindEvictor(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.Cluster.Idle != test.want {
				t.Errorf("it says %q, want %q", r.Cluster.Idle, test.want)
			}
			if calls := len(clients.Actions()); calls != test.calls {
				t.Errorf("there were %d calls, want %d", calls, test.calls)
			}
		})
	}
}
