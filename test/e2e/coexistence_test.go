// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestNextToTheBuiltIn plays two replicas of Taintkeeper next to a kube-controller-manager whose flags nobody changed.
func TestNextToTheBuiltIn(t *testing.T) {
	play(t, besideBuiltIn, slices.Concat(nextToTheBuiltIn, policiesOfTheNextLeader, clocks)...)
}

var besideBuiltIn = cast{replicas: 2, coexist: true}

// TestNextToTheBuiltInAsItself plays that the policy holds whatever credentials the built-in has.
func TestNextToTheBuiltInAsItself(t *testing.T) {
	asItself := besideBuiltIn
	asItself.asItself = true
	stories := append(slices.Clone(clocks), nextToTheBuiltIn[0])
	for i := range stories {
		stories[i].Long = true
	}
	play(t, asItself, stories...)
}

// The stories that are alone are played in this order: while the built-in may still work on evictions of a story, it may
// not evict in the next one either.
var nextToTheBuiltIn = []Scenario{
	{
		Name: "every eviction is ours, and the built-in marks no pod",
		Given: []Step{
			Node("tainted"), countdowns("tainted", 5), Crowd("tainted", 20), On("tainted", "stays", scene.Indefinitely("")),
		},
		When:     []Step{Taint("tainted", "gone")},
		Promised: []Check{ByRule, ByContestant, untouchedByBuiltIn},
	},
	{
		Name:     "Taintkeeper dies, and the built-in evicts again",
		Given:    []Step{Alone("pod")},
		When:     []Step{killKeeper, letGo, Taint("pod", "gone"), Gone("pod")},
		Promised: []Check{leftByBuiltIn("pod")},
		Alone:    true,
	},
	{
		Name:     "the leader is killed in mid-countdown, and its standby keeps the deadlines",
		Given:    []Step{Node("tainted"), countdowns("tainted", 30)},
		When:     []Step{Taint("tainted", "gone"), After(3 * time.Second), killLeader()},
		Promised: []Check{ByRule, ByContestant, untouchedByBuiltIn, leaderSaysWhatItRuns},
		Alone:    true,
	},
	{
		Name:  "an untaint and a clean stop in a storm: the built-in deletes nothing that stays",
		Given: []Step{Node("tainted"), Crowd("tainted", 40)},
		When: []Step{
			WhileRefused(Taint("tainted", "gone"), After(3*time.Second), Untaint("tainted", "gone")),
			stopKeeper, After(clockValid + 15*time.Second),
		},
		Promised: []Check{untouchedByBuiltIn, allStay},
		Alone:    true,
	},
	{
		// A pod that is younger than the storm, to the second, would be held: it could have the name of an older pod.
		Name:  "a clean stop hands overdue pods back at once",
		Given: []Step{withoutBacklog, Alone("kept"), After(5 * time.Second)},
		When: []Step{WhileRefused(
			Taint("kept", "gone"), refused("kept", 1, ours), refused("kept", builtInTries, theBuiltIns), stopKeeper, marked("kept"), noClock,
		)},
		Promised: []Check{}, // the steps check it
		Alone:    true,
		Long:     true,
	},
	{
		Name:  "a clean stop does not touch nodes whose pods are held",
		Given: []Step{Alone("held"), Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, IfDown: v1alpha1.IfDownEvict})},
		When: []Step{
			Taint("held", "gone"), Held(1), refused("held", builtInTries, theBuiltIns),
			untouchedNode("held", stopKeeper, noClock, After(5*time.Second)), // the built-in would already have tried again
		},
		Promised: []Check{Stays("held"), untouchedByBuiltIn},
		Alone:    true,
		Long:     true,
	},
	{
		// For more than a minute, as a process that cannot keep its eviction clock ends then.
		Name: "held pods stay next to the built-in and, once Taintkeeper has died, as ifDown says",
		Given: []Step{
			withoutBacklog, Alone("leaves", labeled("leaves")), Alone("stays", labeled("stays")),
			Follow(heldAs("stays", v1alpha1.IfDownHold)), followToo(heldAs("leaves", v1alpha1.IfDownEvict)), After(3 * time.Second),
		},
		When: []Step{
			Taint("leaves", "gone"), Taint("stays", "gone"), Held(1), After(70 * time.Second), clockRenewed, Then(allStay),
			killKeeper, After(clockValid + 5*time.Second), Taint("leaves", "again"), Taint("stays", "again"),
		},
		Promised: []Check{leftByBuiltIn("leaves"), refusedFor("stays", 1, theBuiltIns), Stays("stays")},
		Alone:    true,
		Long:     true,
	},
	{
		// The policy is in force from the first request that an API server takes after it has started. checkCalls checks all
		// marks of the built-in. An API server that takes long to start makes the clock stale, and then the built-in may.
		Name:  "no restart of the API server lets the built-in evict while the clock is fresh",
		Given: []Step{Node("n"), countdowns("n", 45)}, // one is due at every moment of the restarts
		When: []Step{
			Taint("n", "gone"), restartAPIServer, clockRenewedAgain,
			outageDuring(killAPIServer, After(2*time.Second), startAPIServer), clockRenewedAgain,
		},
		Promised: []Check{ByRule},
		Alone:    true,
		Long:     true,
	},
	{
		// Node health is left out, as it is on every managed control plane.
		Name: "rules work next to the built-in node-lifecycle-controller",
		Given: []Step{
			Kubelet("n", "zone"), Cordon("n", true), AwaitNoSchedule("n", corev1.TaintNodeUnschedulable, true),
			keeperWith("--controllers=*"), On("n", "pod"),
		},
		When:     []Step{playExampleRules("n", "pod")},
		Promised: []Check{ByContestant, healthLeftOut},
		Alone:    true,
		Long:     true,
	},
	{
		Name:     "a client that deletes the resource EvictionPolicy is warned",
		Promised: []Check{warned("evictionpolicies", true), warned("nodetaintrules", false)},
		Long:     true,
	},
}

// clocks are stories without Taintkeeper: they set the eviction clock themselves.
var clocks = []Scenario{
	{
		Name:  "while the clock is fresh the built-in deletes no pod, however it is marked",
		Given: []Step{stopKeeper, setClock(nil), Node("tainted"), markedPods("tainted"), setClock(time.Now)},
		When: []Step{
			Taint("tainted", "gone"), refused("unmarked", builtInTries, theBuiltIns), refused("by-us", builtInTries, theBuiltIns),
			refused("by-preemption", builtInTries, theBuiltIns), refused("by-the-eviction-api", builtInTries, theBuiltIns),
		},
		// It finds its own mark, and deletes without setting it: that is why we rewrite such a mark.
		Promised: []Check{leftByBuiltIn(markedByTest), onlyLeft(markedByTest)},
		Alone:    true,
		Long:     true,
	},
	evictsWithClock("without a clock", nil),
	evictsWithClock("once the clock is stale", func() time.Time { return time.Now().Add(-time.Minute) }),
	evictsWithClock("if the clock says a time far ahead", func() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }),
	{
		Name:     "a mark of the built-in's is rewritten when we take over",
		Given:    []Step{stopKeeper, setClock(nil), Alone("stays"), mark("stays", builtInsMark)},
		When:     []Step{startKeeper},
		Promised: []Check{markIsTakenBack("stays")},
		Alone:    true,
		Long:     true,
	},
}

func evictsWithClock(name string, clock func() time.Time) Scenario {
	return Scenario{
		Name:     name + " the built-in evicts every pod, however it is marked",
		Given:    []Step{stopKeeper, setClock(clock), Node("tainted"), markedPods("tainted")},
		When:     []Step{Taint("tainted", "gone")},
		Promised: []Check{leftByBuiltIn("unmarked", "by-us", markedByTest, "by-preemption", "by-the-eviction-api")},
		Alone:    true,
		Long:     true,
	}
}

// The steps about who runs.

const lease = "taintkeeper"

func holder(ctx context.Context, p *Play) (string, error) {
	found, err := p.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || found.Spec.HolderIdentity == nil {
		return "", err
	}
	return *found.Spec.HolderIdentity, nil
}

// leaderSaysWhatItRuns wants the replica that leads to say so on its Lease.
func leaderSaysWhatItRuns(ctx context.Context, p *Play) (Finding, error) {
	found, err := p.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return Finding{}, err
	}
	leader := v1alpha1.LeaderOf(found)
	if leader == nil || !leader.Runs("eviction") || !leader.Coexists {
		return Finding{Seen: fmt.Sprintf("the Lease has the labels %v", found.Labels)}, nil
	}
	return Finding{Right: true}, nil
}

// killLeader kills the replica that leads, waits until the standby does, and brings another standby at the end. Steps
// are taken while none leads.
func killLeader(meanwhile ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		s := stageOf(p)
		before, err := holder(ctx, p)
		if err := errors.Join(err, s.kill(1), Steps(meanwhile...)(ctx, p)); err != nil {
			return err
		}
		p.Finally(func(ctx context.Context) error { return s.startReplica(ctx) })
		return nextLeads(ctx, p, before)
	}
}

// nextLeads waits until another replica leads than before.
func nextLeads(ctx context.Context, p *Play, before string) error {
	err := await.Poll(ctx, func(ctx context.Context) error {
		now, err := holder(ctx, p)
		if err == nil && (now == before || now == "") {
			err = fmt.Errorf("%q leads", now)
		}
		return err
	})
	p.Excuse(time.Now())
	return err
}

// stopKeeper and killKeeper end all replicas until startKeeper or the end of the story.
func stopKeeper(_ context.Context, p *Play) error { return withoutKeeper(p, stageOf(p).stop) }

func killKeeper(_ context.Context, p *Play) error {
	return withoutKeeper(p, func() error { return stageOf(p).kill(stageOf(p).cast.replicas) })
}

func withoutKeeper(p *Play, end func() error) error {
	p.Finally(func(ctx context.Context) error { return startKeeper(ctx, p) })
	return end()
}

func startKeeper(ctx context.Context, p *Play) error {
	if len(stageOf(p).replicas) > 0 {
		return nil
	}
	return stageOf(p).start(ctx)
}

// letGo waits until the built-in may evict again. It would forget a pod that is refused before.
func letGo(ctx context.Context, _ *Play) error { return cluster.WaitLetGo(ctx) }

// clockValid is for how long a renewal of the eviction clock keeps the built-in from evicting.
const clockValid = 30 * time.Second

// The users who evict.

func ours(c auditlog.Event) bool        { return c.User == localcluster.TaintkeeperUser }
func theBuiltIns(c auditlog.Event) bool { return c.ByBuiltIn() }

// evictionCalls are the marks and deletes of the pods of the scene by all clients.
func evictionCalls(p *Play, wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return stageOf(p).CallsByAll(append(wanted, auditlog.In(p.Namespace), func(c auditlog.Event) bool {
		return auditlog.StatusPatches(c) || auditlog.Deletes(c)
	})...)
}

// untouchedByBuiltIn wants the built-in to have marked and deleted no pod.
func untouchedByBuiltIn(_ context.Context, p *Play) (Finding, error) {
	calls, err := evictionCalls(p, theBuiltIns, auditlog.Accepted)
	if len(calls) > 0 {
		return Finding{Seen: fmt.Sprintf("the built-in called %v", calls)}, err
	}
	return Finding{Right: true}, err
}

// leftByBuiltIn wants the built-in to have deleted some pods.
func leftByBuiltIn(pods ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		err := await.Poll(ctx, func(context.Context) error {
			for _, pod := range pods {
				calls, err := evictionCalls(p, theBuiltIns, auditlog.Accepted, auditlog.Deletes, auditlog.Named(pod))
				if err != nil {
					return err
				}
				if len(calls) == 0 {
					return fmt.Errorf("it has not deleted pod %s", pod)
				}
			}
			return nil
		})
		return Finding{Seen: fmt.Sprint("the built-in: ", err), Right: err == nil}, nil
	}
}

// onlyLeft wants nobody to have deleted another pod than this one.
func onlyLeft(pod string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := evictionCalls(p, auditlog.Accepted, auditlog.Deletes, localcluster.NotByKwok, func(c auditlog.Event) bool {
			return c.Name != pod
		})
		return Finding{Seen: fmt.Sprintf("others were deleted by %v", calls), Right: len(calls) == 0}, err
	}
}

// builtInTries is how often the built-in tries an eviction (pkg/controller/tainteviction/taint_eviction.go).
const builtInTries = 5

// refused waits until a pod's eviction by somebody was refused so often.
func refused(pod string, tries int, by auditlog.Filter) Step { return Then(refusedFor(pod, tries, by)) }

func refusedFor(pod string, tries int, by auditlog.Filter) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		err := await.Poll(ctx, func(context.Context) error {
			calls, err := evictionCalls(p, by, auditlog.Refused, auditlog.Named(pod))
			if err == nil && len(calls) < tries {
				err = fmt.Errorf("it was refused %d times", len(calls))
			}
			return err
		})
		return Finding{Seen: fmt.Sprintf("pod %s: %v", pod, err), Right: err == nil}, nil
	}
}

// marked waits until the built-in has marked a pod.
func marked(pod string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(context.Context) error {
			calls, err := evictionCalls(p, theBuiltIns, auditlog.StatusPatches, auditlog.Accepted, auditlog.Named(pod))
			if err == nil && len(calls) == 0 {
				err = errors.New("the built-in has not marked it")
			}
			return err
		})
	}
}

// untouchedNode wants us not to change a node during some steps.
func untouchedNode(node string, steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		began := time.Now()
		err := Steps(steps...)(ctx, p)
		calls, failed := p.Calls(auditlog.Since(began), auditlog.Named(p.NodeName(node)), func(c auditlog.Event) bool { return c.Verb != "get" })
		if len(calls) > 0 {
			failed = fmt.Errorf("the node was changed: %v", calls)
		}
		return errors.Join(err, failed)
	}
}

// The steps about the eviction clock.

// clockOf returns when the eviction clock was renewed, according to itself; zero if it is not set.
func clockOf(ctx context.Context, p *Play) (renewed time.Time, err error) {
	accounts := p.Admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	account, err := accounts.Get(ctx, auditlog.EvictionClockName, metav1.GetOptions{})
	if err != nil {
		return renewed, err
	}
	if text, ok := account.Annotations[auditlog.EvictionClockAnnotation]; ok {
		renewed, err = time.Parse(time.RFC3339, text)
	}
	return renewed, err
}

// clockRenewed waits until the eviction clock is as fresh as Taintkeeper keeps it.
func clockRenewed(ctx context.Context, p *Play) error {
	return awaitClock(ctx, p, time.Now().Add(-clockValid/2))
}

// clockRenewedAgain waits until Taintkeeper renews it after this instant. It has whole seconds.
func clockRenewedAgain(ctx context.Context, p *Play) error { return awaitClock(ctx, p, time.Now()) }

func awaitClock(ctx context.Context, p *Play, after time.Time) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		renewed, err := clockOf(ctx, p)
		if err == nil && !renewed.After(after) {
			err = fmt.Errorf("the eviction clock says %s", renewed)
		}
		return err
	})
}

// noClock wants the eviction clock to have been taken away.
func noClock(ctx context.Context, p *Play) error {
	renewed, err := clockOf(ctx, p)
	if err == nil && !renewed.IsZero() {
		err = fmt.Errorf("the eviction clock says %s", renewed)
	}
	return err
}

// writeClock writes the eviction clock, or takes it away, and says that the built-in has no backlog.
func writeClock(ctx context.Context, value any) error {
	annotations := map[string]any{
		auditlog.EvictionClockAnnotation: value, coexist.BacklogSince: nil, coexist.BacklogUntil: nil, coexist.BacklogSpared: nil,
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = onStage.Client().CoreV1().ServiceAccounts(metav1.NamespaceSystem).
		Patch(ctx, auditlog.EvictionClockName, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// forgetBacklog ends what an earlier cast has left: for minutes after a storm, the built-in may not mark younger pods.
func forgetBacklog(ctx context.Context) error {
	err := writeClock(ctx, nil)
	if apierrors.IsNotFound(err) { // none has run next to the built-in
		return nil
	}
	return errors.Join(err, cluster.WaitLetGo(ctx))
}

// setClock writes the eviction clock as if Taintkeeper had, or takes it away, and says that the built-in has no backlog.
// It returns when the API server has seen that: the built-in forgets a pod whose eviction is refused, even if only for a
// moment.
func setClock(at func() time.Time) Step {
	return func(ctx context.Context, p *Play) error {
		p.Finally(func(ctx context.Context) error {
			if len(stageOf(p).replicas) > 0 { // it is theirs again
				return nil
			}
			return writeClock(ctx, nil)
		})
		if at == nil {
			return errors.Join(writeClock(ctx, nil), cluster.WaitLetGo(ctx))
		}
		now := at()
		if err := writeClock(ctx, now.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		if time.Since(now).Abs() < clockValid {
			return cluster.WaitHeldOff(ctx)
		}
		return cluster.WaitLetGo(ctx)
	}
}

// withoutBacklog lets Taintkeeper start as if there had been no storm before: for minutes after one, the built-in may not
// mark younger pods.
var withoutBacklog = Steps(stopKeeper, setClock(nil), startKeeper)

// keeperWith runs Taintkeeper with more arguments until the end of the story.
func keeperWith(args ...string) Step {
	return func(ctx context.Context, p *Play) error {
		s, usual := stageOf(p), stageOf(p).args
		p.Finally(func(ctx context.Context) error { s.args = usual; return s.Restart(ctx) })
		s.args = slices.Concat(usual, args)
		return s.Restart(ctx)
	}
}

// The marks that a pod can have when the built-in reaches it.

var (
	builtInsMark = corev1.PodCondition{Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"}
	marksOfPods  = map[string]corev1.PodCondition{
		"by-us":               {Reason: "DeletionByTaintManager", Message: "Taintkeeper: deleting due to NoExecute taint"},
		markedByTest:          builtInsMark,
		"by-preemption":       {Reason: "PreemptionByScheduler", Message: "default-scheduler: preempting to accommodate a higher priority pod"},
		"by-the-eviction-api": {Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"},
	}
)

// markedByTest has the built-in's mark, which it has not set.
const markedByTest = "by-the-built-in"

// markedPods makes a pod that is not marked on a node, and one for each mark.
func markedPods(node string) Step {
	steps := []Step{On(node, "unmarked")}
	for name, condition := range marksOfPods {
		steps = append(steps, On(node, name), mark(name, condition))
	}
	return Steps(steps...)
}

// mark marks a pod long before the clock was renewed, and not yet so long that kube-controller-manager's disruption
// controller takes the mark for stale, after two minutes.
func mark(name string, condition corev1.PodCondition) Step {
	condition.Type, condition.Status = corev1.DisruptionTarget, corev1.ConditionTrue
	return func(ctx context.Context, p *Play) error {
		condition.LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Minute))
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{condition}}})
		if err != nil {
			return err
		}
		_, err = p.Admin.CoreV1().Pods(p.Namespace).
			Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}
}

// markIsTakenBack wants us to have written into a mark that the pod stays.
func markIsTakenBack(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		err := await.Poll(ctx, func(ctx context.Context) error {
			found, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, pod, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionFalse && strings.HasPrefix(c.Message, "Taintkeeper:")
			}) {
				err = fmt.Errorf("its conditions are %v", found.Status.Conditions)
			}
			return err
		})
		return Finding{Seen: fmt.Sprint("the mark: ", err), Right: err == nil}, nil
	}
}

// The steps about policies.

func labeled(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
}

// heldAs holds the pods of an app, also if Taintkeeper is down, or not.
func heldAs(app string, ifDown v1alpha1.IfDown) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionHold, IfDown: ifDown,
		PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": v1alpha1.LabelValue(app)}},
	}
}

// followToo creates a second policy for pods of the scene.
func followToo(spec v1alpha1.EvictionPolicySpec) Step {
	return func(ctx context.Context, p *Play) error {
		object := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace + "-too"}, Spec: spec}
		object.Spec.NamespaceSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
			corev1.LabelMetadataName: v1alpha1.LabelValue(p.Namespace),
		}}
		p.Finally(func(ctx context.Context) error { return objects.Delete(ctx, object) })
		return objects.Create(ctx, object)
	}
}

// warned wants a dry run of a delete of a resource to be answered with a warning, or not.
func warned(resource string, wanted bool) Check {
	return func(ctx context.Context, _ *Play) (Finding, error) {
		var said warnings
		config := cluster.AdminConfig()
		config.WarningHandler = &said
		writer, err := client.New(config, client.Options{Scheme: objects.Scheme()})
		if err != nil {
			return Finding{}, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: resource + "." + v1alpha1.GroupVersion.Group}}
		err = writer.Delete(ctx, crd, client.DryRunAll)
		right := strings.Contains(string(said), "the pods that they hold leave at once") == wanted
		return Finding{Seen: fmt.Sprintf("a delete of %s is answered with %q", resource, said), Right: right}, err
	}
}

// warnings is what the API server warns of.
type warnings string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w += warnings(text) }
