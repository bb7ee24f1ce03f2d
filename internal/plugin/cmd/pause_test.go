// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

var now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// pauseScene is a cluster with policies. Pod shop/web on node tainted must leave now. Pods shop/db and shop/cache there
// tolerate the taint. Pod ml/job is on node calm.
type pauseScene struct {
	*testing.T

	policies *dynamicfake.FakeDynamicClient
	objects  *fake.Clientset
}

func newScene(t *testing.T, policies ...runtime.Object) *pauseScene {
	t.Helper()
	scheme, err := v1alpha1.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	forever := corev1.Toleration{Operator: corev1.TolerationOpExists}
	return &pauseScene{
		T: t, policies: dynamicfake.NewSimpleDynamicClient(scheme, policies...),
		objects: fake.NewClientset(
			node("tainted", corev1.Taint{Key: "m", Effect: corev1.TaintEffectNoExecute}), node("calm"),
			pausePod("shop", "web", "tainted"), pausePod("shop", "db", "tainted", forever), pausePod("shop", "cache", "tainted", forever),
			pausePod("ml", "job", "calm"), lease("taintkeeper"), evictionClock(),
			namespace("shop"), namespace("ml"), namespace("empty"),
		),
	}
}

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"state": name}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelMetadataName: name},
	}}
}

// lease returns the Lease of a controller that leads. Taintkeeper's says that it evicts.
func lease(name string) *coordinationv1.Lease {
	var labels map[string]string
	if name == v1alpha1.ElectionLease {
		labels = (&v1alpha1.Leader{Controllers: []string{"eviction"}}).Labels(name)
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: labels},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(name), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now)),
		},
	}
}

// evictionClock returns an eviction clock that keeps the built-in from evicting.
func evictionClock() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: v1alpha1.EvictionClock,
		Annotations: map[string]string{v1alpha1.EvictionClockAnnotation: now.Format(time.RFC3339)},
	}}
}

func pausePod(namespace, name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations},
	}
}

// made returns a policy as pause creates it.
func made(name, reason string) *v1alpha1.EvictionPolicy {
	policy := foreign(name)
	policy.Labels = map[string]string{policies.MadeLabel: policies.MadeBy}
	policy.Spec.Paused = &reason
	return policy
}

// foreign returns a policy that someone else created.
func foreign(name string) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec:       v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold},
	}
}

func (s *pauseScene) pause(args ...string) string  { return s.run((*pauseOptions).pauseCommand, args) }
func (s *pauseScene) resume(args ...string) string { return s.run((*pauseOptions).resumeCommand, args) }

// run returns the stdout, the stderr and the error of a command.
func (s *pauseScene) run(newCommand func(*pauseOptions) *cobra.Command, args []string) string {
	s.Helper()
	var out bytes.Buffer
	env := command.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out},
		Clock:     clocktesting.NewFakePassiveClock(now),
	}
	config := genericclioptions.NewConfigFlags(true)
	o := pauseNewOptions(env, config)
	o.patience = 0
	o.connect = func(command.Env, *genericclioptions.ConfigFlags) (*source.Reader, error) {
		reader := source.NewReader("test", s.objects, s.policies, nil, show.NewProgress(env))
		reader.Clock = &timeline.Clock{Wall: env.Clock.Now}
		return reader, nil
	}
	cmd := newCommand(o)
	config.AddFlags(cmd.Flags())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // for nil, cobra takes the arguments of the test binary
	if err := cmd.ExecuteContext(s.Context()); err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
	}
	return out.String()
}

func (s *pauseScene) want(got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// names returns the names of all policies.
func (s *pauseScene) wantPolicies(want ...string) {
	s.Helper()
	list, err := s.policies.Resource(source.EvictionPolicies).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	if !slices.Equal(names, want) {
		s.Errorf("there are the policies %q, want %q", names, want)
	}
}

// policy returns a policy as it is now.
func (s *pauseScene) policy(name string) *v1alpha1.EvictionPolicy {
	s.Helper()
	object, err := s.policies.Resource(source.EvictionPolicies).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	policy, err := source.PolicyOf(object)
	if err != nil {
		s.Fatal(err)
	}
	return policy
}

// fails makes calls about policies fail.
func (s *pauseScene) fails(verb string, err error) {
	s.policies.PrependReactor(verb, "evictionpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

func TestPauseSaysWhatItHoldsAndWhatLeavesAfterIt(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "evictionpolicies"}
	const (
		created = "evictionpolicy.taintkeeper.dev/pause created\n"
		none    = " and holds none now; pods that become due stay until you run 'kubectl taintkeeper resume pause'.\n"
		one     = ", 1 due now and held until you run 'kubectl taintkeeper resume pause'; then 1 pod leaves at once.\n"
	)
	for name, test := range map[string]struct {
		policies []runtime.Object
		before   func(*pauseScene)
		args     []string
		want     string // a part of what is printed
		left     []string
	}{
		"everything":               {args: []string{"network", "is", "down"}, want: created + "It selects 4 pods" + one, left: []string{"pause"}},
		"a namespace":              {args: []string{"x", "-n", "ml"}, want: created + "It selects 1 pod" + none, left: []string{"pause"}},
		"labels":                   {args: []string{"x", "-l", "app in (web,job)"}, want: "It selects 2 pods" + one, left: []string{"pause"}},
		"other labels":             {args: []string{"x", "-l", "app!=web,app"}, want: "It selects 3 pods" + none, left: []string{"pause"}},
		"nodes":                    {args: []string{"x", "--node-selector", "state=calm"}, want: "It selects 1 pod" + none, left: []string{"pause"}},
		"a namespace without pods": {args: []string{"x", "-n", "empty"}, want: "Warning: it selects no pods, so it holds nothing: check --namespace, --selector and --node-selector, and remove it with 'kubectl taintkeeper resume pause'.\n", left: []string{"pause"}},
		"no such namespace":        {args: []string{"network", "-n", "shpo"}, want: "error: nothing is paused: there is no namespace \"shpo\"\n"},
		// leaving and status count it as due: the DaemonSet controller deletes it, whatever policies say.
		"a pod that no policy can hold does not count": {
			before: func(s *pauseScene) {
				agent := pausePod("shop", "agent", "tainted")
				agent.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
				await.Must(s.T, s.objects.Tracker().Add(agent))
			},
			args: []string{"x"}, want: "It selects 5 pods" + one, left: []string{"pause"},
		},
		"other policies go on holding": {
			policies: []runtime.Object{foreign("databases")}, args: []string{"x"}, left: []string{"databases", "pause"},
			want: "'kubectl taintkeeper resume pause'; then no pod leaves: EvictionPolicies still hold 1 pod.\n",
		},
		"it takes the first name that is free": {
			policies: []runtime.Object{foreign("pause"), made("pause-2", "network")}, args: []string{"again", "-o", "name"},
			want: "evictionpolicy.taintkeeper.dev/pause-3\n", left: []string{"pause", "pause-2", "pause-3"},
		},
		"Taintkeeper does not confirm it": {
			before: func(s *pauseScene) {
				s.policies.PrependReactor("create", "evictionpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
					action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).SetGeneration(1)
					return false, nil, nil
				})
			},
			args: []string{"x"}, left: []string{"pause"},
			want: "\nWarning: Taintkeeper has not confirmed the pause within 0s, so pods may still leave: ",
		},
		"what it holds cannot be read": {
			before: func(s *pauseScene) {
				s.objects.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
				})
			},
			args: []string{"x"}, want: created + "Cannot tell which pods this concerns: list pods: ", left: []string{"pause"},
		},
		"the built-in goes on evicting": {
			before: func(s *pauseScene) {
				clock := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
				await.Must(s.T, s.objects.Tracker().Delete(clock, metav1.NamespaceSystem, v1alpha1.EvictionClock))
				await.Must(s.T, s.objects.Tracker().Add(&corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"},
					Reason:     v1alpha1.EventEviction, LastTimestamp: metav1.NewTime(now),
				}))
			},
			args: []string{"x"}, left: []string{"pause"},
			want: "\nWarning: the built-in controller evicts too, and only ValidatingAdmissionPolicy taintkeeper-held of ",
		},
		"policies are not installed": {
			before: func(s *pauseScene) { s.fails("create", apierrors.NewNotFound(resource, "")) }, args: []string{"x"},
			want: "error: create an EvictionPolicy: the API server test does not have the resource: install Taintkeeper's chart, or apply config/crd.yaml\n",
		},
		"a right is missing": {
			before: func(s *pauseScene) { s.fails("create", apierrors.NewForbidden(resource, "pause", nil)) }, args: []string{"x"},
			want: ": ask for permission to create evictionpolicies\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.policies...)
			if test.before != nil {
				test.before(s)
			}
			if got := s.pause(test.args...); !strings.Contains(got, test.want) {
				t.Errorf("printed\n%s\nwant\n%s", got, test.want)
			}
			s.wantPolicies(test.left...)
		})
	}
}

func TestAPauseThatIsRepeatedOnlyChangesItsReason(t *testing.T) {
	s := newScene(t, foreign("pause-2"))
	s.pause("network")
	s.pause("the backup", "-n", "shop")
	for _, args := range [][]string{{"network"}, {"network", "is", "down"}, {"the backup", "-n", "shop"}} {
		s.pause(args...)
	}
	if got := s.pause("network is down"); !strings.HasPrefix(got, "evictionpolicy.taintkeeper.dev/pause unchanged\nIt selects 4 pods, 1 due now") {
		t.Errorf("printed\n%s\nwant that nothing has changed", got)
	}
	if got := s.pause("all is down"); !strings.HasPrefix(got, "evictionpolicy.taintkeeper.dev/pause configured\n") {
		t.Errorf("printed\n%s\nwant that it is configured", got)
	}
	s.wantPolicies("pause", "pause-2", "pause-3")
	if got := s.policy("pause").Spec.Paused; got == nil || *got != "all is down" {
		t.Errorf("paused: %v, want the last reason", got)
	}
}

func TestResumeEndsWhateverHoldsPods(t *testing.T) {
	stop := foreign("stop")
	stop.UID, stop.Spec.Action, stop.Spec.Paused, stop.Spec.IfDown = "1", v1alpha1.ActionDelete, new("zone b"), v1alpha1.IfDownHold
	brake := foreign("brake")
	brake.UID, brake.Spec.Action, brake.Spec.Breaker = "2", v1alpha1.ActionDelete, &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(1)}
	brake.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionTripped, Status: metav1.ConditionTrue, Message: "3 of 4 pods were due.",
	}}
	closed := foreign("closed")
	closed.Spec.Breaker = brake.Spec.Breaker
	const lists = "error: name what to resume, or use --all: brake (its breaker is open, 60m), stop (zone b, 60m)\n"
	for name, test := range map[string]struct {
		policies []runtime.Object
		args     []string
		want     string
	}{
		"a policy that is paused": {
			[]runtime.Object{stop},
			[]string{"stop"}, "evictionpolicy.taintkeeper.dev/stop resumed\n1 pod leaves at once.\n",
		},
		"an open breaker": {
			[]runtime.Object{brake},
			[]string{"brake"}, "evictionpolicy.taintkeeper.dev/brake resumed\n1 pod leaves at once.\n",
		},
		"without a name, only what pause created": {[]runtime.Object{brake, stop, closed}, nil, lists},
		"all": {
			[]runtime.Object{brake, stop, closed, made("pause", "network")}, []string{"--all"},
			"evictionpolicy.taintkeeper.dev/brake resumed\nNo pod leaves: EvictionPolicies still hold 1 pod.\n" +
				"evictionpolicy.taintkeeper.dev/pause deleted\nNo pod leaves: EvictionPolicies still hold 1 pod.\n" +
				"evictionpolicy.taintkeeper.dev/stop resumed\nNo pod leaves: EvictionPolicies still hold 1 pod.\n",
		},
		"a closed breaker": {
			[]runtime.Object{closed},
			[]string{"closed"},
			"error: EvictionPolicy closed is not paused and its breaker is not open, so there is nothing to resume: to let its pods leave, change its action or its selectors\n",
		},
		"all and a name": {[]runtime.Object{stop}, []string{"stop", "--all"}, "error: --all resumes everything: remove --all, or the names\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.policies...)
			s.want(s.resume(test.args...), test.want)
			if strings.HasPrefix(test.want, "error") {
				return
			}
			for _, object := range test.policies {
				was := object.(*v1alpha1.EvictionPolicy)
				if was.Name == "pause" {
					continue
				}
				is := s.policy(was.Name)
				resumed := was.Name != "brake" || is.Spec.Breaker.ResumedAt != nil && is.Spec.Breaker.ResumedAt.After(now)
				if is.Spec.Paused != nil || !resumed {
					t.Errorf("EvictionPolicy %s is not resumed: %+v", was.Name, is.Spec)
				}
			}
		})
	}
}

// respecting returns a policy that asks about the pods with a label until a deadline.
func respecting(name, app string, deadline time.Duration) *v1alpha1.EvictionPolicy {
	policy := foreign(name)
	policy.Spec = v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionEvict, Deadline: &metav1.Duration{Duration: deadline}, Unready: v1alpha1.UnreadyAsk,
		PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(app)}},
	}
	return policy
}

// The deadlines of these policies were over long ago, but count from the resume.
func TestPauseAndResumeSayWhatIsDeletedWithoutAsking(t *testing.T) {
	for name, test := range map[string]struct {
		policies []runtime.Object
		pods     []runtime.Object
		pause    string
		resume   string
	}{
		"the only pod": {
			[]runtime.Object{respecting("respect", "web", 15*time.Minute)}, nil,
			"1 due now and held until you run 'kubectl taintkeeper resume pause'; then 1 pod leaves at once. " +
				"The Eviction API is asked first. 1 is deleted without asking if still there 15m later.\n",
			"1 pod leaves at once. The Eviction API is asked first. 1 is deleted without asking if still there 15m later.\n",
		},
		"some of them, at different deadlines": {
			[]runtime.Object{respecting("respect", "web", 15*time.Minute), respecting("long", "api", time.Hour)},
			[]runtime.Object{pausePod("shop", "api", "tainted"), pausePod("shop", "mail", "tainted")},
			"3 due now and held until you run 'kubectl taintkeeper resume pause'; then 3 pods leave at once. " +
				"The Eviction API is asked about 2 of them first. 2 are deleted without asking if still there 15m to 1h later.\n",
			"3 pods leave at once. The Eviction API is asked about 2 of them first. " +
				"2 are deleted without asking if still there 15m to 1h later.\n",
		},
		"one whose budget allows no disruption": {
			[]runtime.Object{respecting("respect", "web", 15*time.Minute)},
			[]runtime.Object{&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			}},
			"1 due now and held until you run 'kubectl taintkeeper resume pause'; then no pod leaves: EvictionPolicies still hold 1 pod. " +
				"1 is deleted without asking if still there 15m later.\n",
			"No pod leaves: EvictionPolicies still hold 1 pod. 1 is deleted without asking if still there 15m later.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.policies...)
			for _, object := range test.pods {
				if err := s.objects.Tracker().Add(object); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.pause("network"); !strings.HasSuffix(got, test.pause) {
				t.Errorf("pause printed\n%s\nwant at the end\n%s", got, test.pause)
			}
			if got, want := s.resume("--dry-run"), "Without --dry-run: "+test.resume; !strings.HasSuffix(got, want) {
				t.Errorf("the dry run printed\n%s\nwant at the end\n%s", got, want)
			}
			if got := s.resume(); !strings.HasSuffix(got, test.resume) {
				t.Errorf("resume printed\n%s\nwant at the end\n%s", got, test.resume)
			}
		})
	}
}

func TestAServerDryRunIsSentAsOne(t *testing.T) {
	s := newScene(t, made("pause", "network"))
	s.want(s.resume("--dry-run=server"), `evictionpolicy.taintkeeper.dev/pause deleted (server dry run)
Without --dry-run: 1 pod leaves at once.
`)
	for _, action := range s.policies.Actions() {
		deleted, ok := action.(clienttesting.DeleteAction)
		if ok && !slices.Equal(deleted.GetDeleteOptions().DryRun, []string{metav1.DryRunAll}) {
			t.Error("the policy is deleted in earnest")
		}
	}
}

func TestResumeRemovesOnlyPoliciesOfPause(t *testing.T) {
	network, backup := made("pause", "network is down"), made("pause-2", "restoring the backup")
	slow, elsewhere := foreign("slow"), foreign("elsewhere")
	slow.Spec.Action = v1alpha1.ActionDelete
	slow.Spec.Pace = &v1alpha1.EvictionPace{Pods: 1, Per: metav1.Duration{Duration: time.Minute}}
	slower := slow.DeepCopy()
	slower.Name = "slower"
	briefly := foreign("briefly")
	briefly.Spec.Deadline = &metav1.Duration{Duration: 5 * time.Minute}
	elsewhere.Spec.PodSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "db"}}
	for name, test := range map[string]struct {
		policies []runtime.Object
		args     []string
		want     string
		left     []string
	}{
		"none": {
			[]runtime.Object{foreign("databases")}, nil,
			"error: nothing to resume: no EvictionPolicy is paused, and no breaker is open; 'kubectl get evictionpolicies' shows all policies\n",
			[]string{"databases"},
		},
		"several": {
			[]runtime.Object{network, backup}, nil,
			"error: name what to resume, or use --all: pause (network is down, 60m), pause-2 (restoring the backup, 60m)\n",
			[]string{"pause", "pause-2"},
		},
		"one of several, as pause has printed it": {
			[]runtime.Object{network, backup},
			[]string{"evictionpolicy.taintkeeper.dev/pause-2"},
			"evictionpolicy.taintkeeper.dev/pause-2 deleted\nNo pod leaves: EvictionPolicies still hold 1 pod.\n",
			[]string{"pause"},
		},
		"both": {
			[]runtime.Object{network, backup},
			[]string{"pause", "pause-2"},
			"evictionpolicy.taintkeeper.dev/pause deleted\nNo pod leaves: EvictionPolicies still hold 1 pod.\n" +
				"evictionpolicy.taintkeeper.dev/pause-2 deleted\n1 pod leaves at once.\n",
			nil,
		},
		"one next to a pace": {
			[]runtime.Object{network, slow},
			nil, "evictionpolicy.taintkeeper.dev/pause deleted\n1 pod leaves at the pace of EvictionPolicy slow.\n",
			[]string{"slow"},
		},
		"one next to two paces": {
			[]runtime.Object{network, slow, slower},
			nil, "evictionpolicy.taintkeeper.dev/pause deleted\n1 pod leaves at the pace of EvictionPolicies slow, slower.\n",
			[]string{"slow", "slower"},
		},
		"a Hold with a deadline, which counts from now": {
			[]runtime.Object{network, briefly}, nil,
			"evictionpolicy.taintkeeper.dev/pause deleted\nNo pod leaves: EvictionPolicies still hold 1 pod. " +
				"1 is deleted without asking if still there 5m later.\n",
			[]string{"briefly"},
		},
		"one next to a Hold of other pods": {
			[]runtime.Object{network, elsewhere},
			nil, "evictionpolicy.taintkeeper.dev/pause deleted\n1 pod leaves at once.\n",
			[]string{"elsewhere"},
		},
		"one that does not exist": {
			[]runtime.Object{network},
			[]string{"pausd"}, "error: there is no EvictionPolicy \"pausd\"\n",
			[]string{"pause"},
		},
		"one of somebody else": {
			[]runtime.Object{foreign("databases")},
			[]string{"databases"},
			"error: EvictionPolicy databases is not paused and its breaker is not open, so there is nothing to resume: to let its pods leave, change its action or its selectors\n",
			[]string{"databases"},
		},
		"a dry run": {
			[]runtime.Object{network},
			[]string{"--dry-run"},
			"evictionpolicy.taintkeeper.dev/pause deleted (dry run)\nWithout --dry-run: 1 pod leaves at once.\n",
			[]string{"pause"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.policies...)
			s.want(s.resume(test.args...), test.want)
			s.wantPolicies(test.left...)
		})
	}
}
