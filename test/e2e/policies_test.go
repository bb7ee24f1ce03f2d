// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// policies are played in TestEvictions, and the stories about a change of the leader in TestNextToTheBuiltIn.
var policies = []Scenario{
	{
		Name:  "a policy holds pods until it is deleted",
		Given: []Step{Alone("pod"), Alone("spared")},
		When: []Step{
			whileFollowed(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold},
				Taint("pod", "gone"), Taint("spared", "gone"), Held(2), keptAlive("pod"), Untaint("spared", "gone"), Held(1), After(2*time.Second)),
		},
		Promised: []Check{ByRuleFor("pod"), Stays("spared")},
	},
	{
		Name:  "a deadline counts from the end of a pause",
		Long:  true,
		Given: []Step{Alone("pod"), Follow(pausedUntilDeadline(10 * time.Second))},
		When: []Step{
			Taint("pod", "gone"), halted(1), After(15 * time.Second), Then(allStay), leavesAfter("pod", 10*time.Second, resume),
		},
		Promised: []Check{leftBy(1, "delete pods")},
	},
	{
		Name:  "a pause stops evictions until it is over",
		Given: []Step{Alone("pod")},
		When:  []Step{whilePaused(Taint("pod", "gone"), After(3*time.Second))},
	},
	{
		Name:  "a policy asks a PodDisruptionBudget",
		Given: []Step{Simulated("node"), ready("node", "web", 3), Budget("web", 2)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}), Taint("node", "gone"), Held(2), After(3 * time.Second),
		},
		Promised: []Check{leftBy(1, "create pods/eviction")},
	},
	{
		Name: "a Deployment leaves a node within its budget",
		Long: true,
		Given: []Step{
			Simulated("node"), deployment("web", 3), Budget("web", 2), Simulated("other"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}),
		},
		When:     []Step{Taint("node", "gone")},
		Promised: []Check{movesWithin("web", 3, 2, "node"), leftBy(3, "create pods/eviction")},
	},
	{
		Name: "while a budget allows nothing it is asked about a few times, and all pods leave once it allows them",
		Long: true,
		Given: []Step{
			Simulated("node"), ready("node", "web", 50), Budget("web", 50),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}),
		},
		When: []Step{
			Taint("node", "gone"), heldByBudget(50), After(30 * time.Second), Then(askedAtMost(3), allStay),
			leavesAfter(anyPod, 0, allowAll("web")), goneWithin(time.Minute), After(time.Second),
		},
		Promised: []Check{leftBy(50, "create pods/eviction")},
	},
	{
		Name:  "a policy sets a pace",
		Given: []Step{Node("node"), Crowd("node", 3)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: metav1.Duration{Duration: 10 * time.Second}},
			}),
			Taint("node", "gone"),
		},
		Promised: []Check{paced(1, 10*time.Second, "node")},
	},
	{
		Name:  "a breaker stops evictions when too many pods are due, until they are not",
		Given: []Step{Node("node"), Crowd("node", 4)},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{
					MaxDue: intstr.FromString("50%"), Settle: &metav1.Duration{Duration: 5 * time.Second},
				},
			}),
			Taint("node", "gone"), tripped(true), After(3 * time.Second), Untaint("node", "gone"), tripped(false),
		},
		Promised: []Check{leftBy(0, "delete pods")},
	},
}

// policiesOfTheNextLeader are played in TestNextToTheBuiltIn, which has a standby.
var policiesOfTheNextLeader = []Scenario{
	{
		Name:  "a new leader knows when a pause ended",
		Alone: true,
		Long:  true,
		Given: []Step{Alone("pod"), Follow(pausedUntilDeadline(40 * time.Second))},
		When: []Step{
			Taint("pod", "gone"), halted(1), After(5 * time.Second),
			leavesAfter("pod", 40*time.Second, resume, halted(0), killLeader()),
		},
		Promised: []Check{leftBy(1, "delete pods"), untouchedByBuiltIn},
	},
	{
		Name:  "a pace survives the leader",
		Alone: true,
		Long:  true,
		Given: []Step{
			Simulated("east-a", "east-b", "west-a"), pods("east-a", 3), pods("east-b", 3), pods("west-a", 5),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{
				Pods: 2, Per: metav1.Duration{Duration: 15 * time.Second}, Scope: v1alpha1.ScopeZone,
			}}),
		},
		When: []Step{
			Taint("east-a", "gone"), Taint("east-b", "gone"), Taint("west-a", "gone"), someLeft, killLeader(),
		},
		Promised: []Check{paced(2, 15*time.Second, "east-a east-b", "west-a"), untouchedByBuiltIn},
	},
	{
		Name:  "a breaker stays open under the next leader, even if its status was wiped",
		Alone: true,
		Long:  true,
		Given: []Step{
			Node("node"), Crowd("node", 3),
			Follow(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2)},
			}),
		},
		When:     []Step{Taint("node", "gone"), tripped(true), killLeader(wipeStatus), tripped(true), After(5 * time.Second)},
		Promised: []Check{leftBy(0, "delete pods"), untouchedByBuiltIn},
	},
}

// pausedUntilDeadline holds pods for a while, but is paused.
func pausedUntilDeadline(deadline time.Duration) v1alpha1.EvictionPolicySpec {
	return v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: deadline}, Paused: new("a test"),
	}
}

// resume ends the pause of the policy of the scene.
func resume(ctx context.Context, p *Play) error {
	policy := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	return objects.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":null}}`)))
}

// halted waits until the status says that the pause keeps this many pods and, if there are none, when it ended.
func halted(pods int32) Step {
	return func(ctx context.Context, p *Play) error {
		return AwaitPolicy(ctx, p, fmt.Sprintf("it has not halted %d pods", pods), func(is *v1alpha1.EvictionPolicyStatus) bool {
			return is.Halted == pods && (pods > 0 || is.HaltedUntil != nil)
		})
	}
}

// wipeStatus removes what is known about the policy of the scene from its status.
func wipeStatus(ctx context.Context, p *Play) error {
	var policy v1alpha1.EvictionPolicy
	if err := objects.Get(ctx, client.ObjectKey{Name: p.Namespace}, &policy); err != nil {
		return err
	}
	policy.Status = v1alpha1.EvictionPolicyStatus{}
	return objects.Status().Update(ctx, &policy)
}

// anyPod stands for the first pod of the scene that leaves.
const anyPod = ""

// leavesAfter wants a pod to begin to leave this long after a change, and on time. If there are steps between the two,
// the next leader knows the instant only to the second.
func leavesAfter(pod string, wait time.Duration, change Step, meanwhile ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		earliest := time.Now().Add(wait)
		err := change(ctx, p)
		latest := time.Now().Add(wait)
		if len(meanwhile) > 0 {
			latest = latest.Add(2 * time.Second)
		}
		if err := errors.Join(err, Steps(meanwhile...)(ctx, p)); err != nil {
			return err
		}
		var left []auditlog.Event
		err = await.Poll(ctx, func(context.Context) (err error) {
			left, err = evicted(p, func(c auditlog.Event) bool { return pod == anyPod || c.Name == pod })
			if err == nil && len(left) == 0 {
				err = fmt.Errorf("pod %s has not left", pod)
			}
			return err
		})
		if err != nil {
			return err
		}
		at := left[0].Received
		if at.Before(earliest) || at.Sub(latest) > cluster.Stalls().Allowed(latest, at) {
			return fmt.Errorf("pod %s left at %s, want it to between %s and %s", left[0].Name, at, earliest, latest)
		}
		return nil
	}
}

// evicted are the accepted deletes and evictions of the scene's pods by the contestant, in order.
func evicted(p *Play, wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	calls, err := p.Calls(append(wanted, auditlog.In(p.Namespace), auditlog.Accepted, leaves)...)
	slices.SortFunc(calls, auditlog.Event.Compare)
	return calls, err
}

// leaves wants the calls that make a pod leave.
func leaves(c auditlog.Event) bool { return auditlog.Deletes(c) || c.Resource == "pods/eviction" }

// heldByBudget waits until the policy of the scene holds this many pods because of a budget.
func heldByBudget(pods int32) Step {
	return func(ctx context.Context, p *Play) error {
		return AwaitPolicy(ctx, p, "it does not name the budget", func(is *v1alpha1.EvictionPolicyStatus) bool {
			c := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionHolding)
			return is.Held == pods && c != nil && c.Reason == "Budget"
		})
	}
}

// askedAtMost wants few calls of the Eviction API, whatever the answers were.
func askedAtMost(count int) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := p.Calls(auditlog.In(p.Namespace), leaves)
		return Finding{Seen: fmt.Sprintf("%d calls", len(calls)), Right: len(calls) <= count}, err
	}
}

// allowAll lets the budget of an app allow everything.
func allowAll(app string) Step {
	return func(ctx context.Context, p *Play) error {
		_, err := p.Admin.PolicyV1().PodDisruptionBudgets(p.Namespace).
			Patch(ctx, app, types.MergePatchType, []byte(`{"spec":{"minAvailable":0}}`), metav1.PatchOptions{})
		return err
	}
}

// movesWithin wants the pods of an app to be replaced on other nodes, while at least so many are ready all the time.
func movesWithin(app string, replicas, least int, from string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		fewest := replicas
		err := await.Poll(ctx, func(ctx context.Context) error {
			pods, err := p.Admin.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
			if err != nil {
				return err
			}
			is, moved := 0, 0
			for i := range pods.Items {
				if pod := &pods.Items[i]; scene.IsReady(pod) && pod.DeletionTimestamp == nil {
					is++
					if pod.Spec.NodeName != p.NodeName(from) {
						moved++
					}
				}
			}
			if fewest = min(fewest, is); moved < replicas {
				err = fmt.Errorf("%d of %d pods run elsewhere", moved, replicas)
			}
			return err
		})
		return Finding{Seen: fmt.Sprintf("%d pods were ready at least, %v", fewest, err), Right: err == nil && fewest >= least}, nil
	}
}

// pods makes pods on a node that differ in their names from those of other nodes.
func pods(node string, count int) Step {
	var all []Step
	for i := range count {
		all = append(all, On(node, fmt.Sprintf("%s-%d", node, i)))
	}
	return Steps(all...)
}

// someLeft waits until a pod has left.
func someLeft(ctx context.Context, p *Play) error {
	return await.Poll(ctx, func(context.Context) error {
		left, err := evicted(p)
		if err == nil && len(left) == 0 {
			err = errors.New("no pod has left")
		}
		return err
	})
}

// carriedOut are the calls that made pods leave, in order. The API server carries out, and answers with 504, a call of a
// leader that is killed meanwhile.
func carriedOut(p *Play) ([]auditlog.Event, error) {
	calls, err := p.Calls(auditlog.In(p.Namespace), leaves)
	byPod := map[string]auditlog.Event{}
	for _, c := range calls {
		if _, known := byPod[c.Name]; c.Accepted() || c.Code >= http.StatusInternalServerError && !known {
			byPod[c.Name] = c
		}
	}
	return slices.SortedFunc(maps.Values(byPod), auditlog.Event.Compare), err
}

// paced wants all pods to leave, and of each scope, which are the names of nodes, no more than so many in any window.
func paced(count int, window time.Duration, scopes ...string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		found := Finding{Right: true}
		if err := goneWithin(await.Limit)(ctx, p); err != nil {
			found = Finding{Seen: err.Error()}
		}
		left, err := carriedOut(p)
		if err != nil {
			return Finding{}, err
		}
		for _, scope := range scopes {
			its := slices.DeleteFunc(slices.Clone(left), func(c auditlog.Event) bool {
				return !slices.ContainsFunc(strings.Fields(scope), func(node string) bool {
					return p.Named(c.Name).Spec.NodeName == p.NodeName(node)
				})
			})
			for i := count; i < len(its); i++ {
				took := its[i].Received.Sub(its[i-count].Received)
				found = found.And(Finding{Seen: fmt.Sprintf("%d on %s in %s", count+1, scope, Seconds(took)), Right: took >= window})
			}
		}
		return found, nil
	}
}

// whileFollowed lets a policy be followed during some steps. Pods that were due meanwhile are due when it is deleted.
func whileFollowed(spec v1alpha1.EvictionPolicySpec, steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		err := Steps(append([]Step{Follow(spec)}, steps...)...)(ctx, p)
		return errors.Join(err, requireAllPresent(ctx, p), Unfollow(ctx, p))
	}
}

// whilePaused pauses evictions in the namespace of the scene during some steps, as a user does.
func whilePaused(steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		out, err := run(ctx, "pause", "an end-to-end test", "--namespace="+p.Namespace, "--output=name")
		if err != nil {
			return err
		}
		err = errors.Join(Steps(steps...)(ctx, p), requireAllPresent(ctx, p))
		_, name, _ := strings.Cut(strings.TrimSpace(string(out)), "/")
		_, failed := run(ctx, "resume", name)
		p.Excuse(time.Now())
		return errors.Join(err, failed)
	}
}

// requireAllPresent fails if a pod of the scene has left.
func requireAllPresent(ctx context.Context, p *Play) error {
	found, err := allStay(ctx, p)
	if err == nil && !found.Right {
		err = errors.New(found.Seen)
	}
	return err
}

// tripped waits until the breaker of the policy of the scene is open, or closed.
func tripped(is bool) Step {
	return func(ctx context.Context, p *Play) error {
		return AwaitPolicy(ctx, p, fmt.Sprintf("its breaker is open: %t", !is), func(status *v1alpha1.EvictionPolicyStatus) bool {
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionTripped)
			return c != nil && (c.Status == metav1.ConditionTrue) == is
		})
	}
}

// ready makes pods of an app that are ready, on a node that kwok simulates.
func ready(node, app string, count int) Step {
	return Steps(Crowd(node, count, labeled(app)), func(ctx context.Context, p *Play) error {
		_, err := awaitReady(ctx, p, app, count)
		return err
	})
}
