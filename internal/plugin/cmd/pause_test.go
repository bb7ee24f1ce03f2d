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

func TestPauseHoldsEverythingUntilResume(t *testing.T) {
	s := newScene(t)
	s.want(s.pause("network", "is", "down"), `evictionpolicy.taintkeeper.dev/pause created
It selects 4 pods, 1 due now and held until you run 'kubectl taintkeeper resume pause'; then 1 pod leaves at once.
`)
	s.wantPolicies("pause")
	s.want(s.resume(), `evictionpolicy.taintkeeper.dev/pause deleted
1 pod leaves at once.
`)
	s.wantPolicies()
}

func TestPauseHoldsWhatIsSelected(t *testing.T) {
	const created = "evictionpolicy.taintkeeper.dev/pause created\n"
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a namespace":              {[]string{"x", "-n", "ml"}, "It selects 1 pod and holds none now; pods that become due stay until you run 'kubectl taintkeeper resume pause'.\n"},
		"labels":                   {[]string{"x", "-l", "app in (web,job)"}, "It selects 2 pods, 1 due now and held until you run 'kubectl taintkeeper resume pause'; then 1 pod leaves at once.\n"},
		"other labels":             {[]string{"x", "-l", "app!=web,app"}, "It selects 3 pods and holds none now; pods that become due stay until you run 'kubectl taintkeeper resume pause'.\n"},
		"nodes":                    {[]string{"x", "--node-selector", "state=calm"}, "It selects 1 pod and holds none now; pods that become due stay until you run 'kubectl taintkeeper resume pause'.\n"},
		"a namespace without pods": {[]string{"x", "-n", "empty"}, "Warning: it selects no pods, so it holds nothing: check --namespace, --selector and --node-selector, and remove it with 'kubectl taintkeeper resume pause'.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.want(s.pause(test.args...), created+test.want)
		})
	}
}

// leaving and status count it as due: the DaemonSet controller deletes it, whatever policies say.
func TestAPauseDoesNotCountPodsThatNoPolicyCanHold(t *testing.T) {
	s := newScene(t)
	agent := pausePod("shop", "agent", "tainted")
	agent.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	if err := s.objects.Tracker().Add(agent); err != nil {
		t.Fatal(err)
	}
	s.want(s.pause("x"), `evictionpolicy.taintkeeper.dev/pause created
It selects 5 pods, 1 due now and held until you run 'kubectl taintkeeper resume pause'; then 1 pod leaves at once.
`)
}

func TestAPauseSaysWhatOtherPoliciesHoldAfterIt(t *testing.T) {
	s := newScene(t, foreign("databases"))
	s.want(s.pause("x"), `evictionpolicy.taintkeeper.dev/pause created
It selects 4 pods, 1 due now and held until you run 'kubectl taintkeeper resume pause'; then no pod leaves: EvictionPolicies still hold 1 pod.
`)
}

func TestAPauseTakesTheFirstNameThatIsFree(t *testing.T) {
	s := newScene(t, foreign("pause"), made("pause-2", "network"))
	if got := s.pause("again", "-o", "name"); !strings.HasPrefix(got, "evictionpolicy.taintkeeper.dev/pause-3\n") {
		t.Errorf("printed\n%s\nwant pause-3", got)
	}
	s.wantPolicies("pause", "pause-2", "pause-3")
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

func TestAPauseOfANamespaceThatDoesNotExistIsRefused(t *testing.T) {
	s := newScene(t)
	s.want(s.pause("network", "-n", "shpo"), "error: nothing is paused: there is no namespace \"shpo\"\n")
	s.wantPolicies()
}

func TestAPauseThatTaintkeeperDoesNotConfirmSaysSo(t *testing.T) {
	s := newScene(t)
	s.policies.PrependReactor("create", "evictionpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		object.SetGeneration(1)
		return false, nil, nil
	})
	if got := s.pause("network"); !strings.Contains(got, "\nWarning: Taintkeeper has not confirmed the pause within 0s, so pods may still leave: ") {
		t.Errorf("printed\n%s\nwant a warning", got)
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

func TestAPauseIsMadeThoughWhatItHoldsCannotBeRead(t *testing.T) {
	s := newScene(t)
	s.objects.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	if got := s.pause("x"); !strings.HasPrefix(got, "evictionpolicy.taintkeeper.dev/pause created\nCannot tell which pods this concerns: list pods: ") {
		t.Errorf("printed\n%s\nwant that it is created, and that the rest is not known", got)
	}
	s.wantPolicies("pause")
}

func TestAPauseSaysThatTheBuiltInGoesOnEvicting(t *testing.T) {
	s := newScene(t)
	if err := s.objects.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Delete(t.Context(), v1alpha1.EvictionClock, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"},
		Reason:     v1alpha1.EventEviction, LastTimestamp: metav1.NewTime(now),
	}
	if _, err := s.objects.CoreV1().Events("shop").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := s.pause("x"); !strings.Contains(got, "\nWarning: the built-in controller evicts too, and only ValidatingAdmissionPolicy taintkeeper-held of ") {
		t.Errorf("printed\n%s\nwant a warning", got)
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

func TestErrorsOfTheAPIServerSayWhatToDo(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "evictionpolicies"}
	s := newScene(t)
	s.fails("create", apierrors.NewNotFound(resource, ""))
	s.want(s.pause("x"), "error: create an EvictionPolicy: the API server test does not have the resource: "+
		"install Taintkeeper's chart, or apply config/crd.yaml\n")
	s.fails("create", apierrors.NewForbidden(resource, "pause", nil))
	if got := s.pause("x"); !strings.HasSuffix(got, ": ask for the right to create evictionpolicies\n") {
		t.Errorf("printed\n%s\nwant which right to ask for", got)
	}
}
