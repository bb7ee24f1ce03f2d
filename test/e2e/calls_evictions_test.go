// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// callByCall are stories about what only a real API server decides: how it answers a call for a pod that another has
// replaced, for a node that has changed, or for which a right is missing, and what it makes of what we write. What
// Taintkeeper makes of each answer, and of none, is proved in virtual time (internal/controller/eviction).
var callByCall = []Scenario{
	{
		// Alone: the first policy of a cluster, which another story may create, cancels all evictions until the labels of
		// their namespaces are known.
		Name:     "an eviction is one patch and one delete, and says what upstream says",
		Given:    []Step{Alone("pod", gracePeriod(17))},
		When:     []Step{Taint("pod", "gone"), Gone("pod")},
		Promised: []Check{ByRule, takesTwoCalls("pod"), conditionIsSet("pod"), endsWithin("pod", 17), saysItIsMarked("pod")},
		Alone:    true,
	},
	{
		Name:     "a missing timeAdded is written, and nothing that others write at that moment is lost",
		Given:    []Step{Alone("counts", scene.Tolerating("", 3600))}, // timeAdded is written where such a countdown runs
		When:     []Step{intrude("counts", 3), AddTaints("counts", append(slices.Clone(ofOthers), scene.NoExecute("bare"))...), awaitStamp("counts")},
		Promised: []Check{isStamped("counts", 3), conflicted("counts", 3)},
	},
	{
		Name:  "what happens again is counted in its event",
		Given: []Step{Alone("pod", scene.Tolerating("gone", 3600))},
		When: []Step{
			Taint("pod", "gone"), awaitStamp("pod"), Untaint("pod", "gone"), saidToStay("pod", 1),
			Taint("pod", "gone"), awaitStamp("pod"), Untaint("pod", "gone"), saidToStay("pod", 2),
		},
		Promised: []Check{ByRule, SaysCancelled("pod", 1)},
	},
	{
		Name: "what the watch of pods has not brought, the answers of the API server say",
		Given: []Step{
			Node("tainted"), Node("healthy"), toReplace("tainted", replacements), On("tainted", "patient", scene.Tolerating("gone", 1)),
			Alone("witness"), Taint("witness", "gone"), Gone("witness"), // which came last: all pods have been seen
		},
		When: []Step{
			whilePodsAreNotSeen(Tolerate("patient", scenarios.LongTime), replaceAllAfter(Taint("tainted", "gone")), allRefused, After(2*time.Second)),
		},
		Promised: []Check{refusedOnce, isMarked("patient"), isNotDeleted("patient"), Stays("patient")},
		Watched:  3 * time.Second,
		Alone:    true,
		Long:     true,
	},
	{
		Name:     "an untaint in the middle of a storm stops it",
		Given:    []Step{Node("tainted"), Crowd("tainted", stormPods)},
		When:     []Step{meetCalls(proxy.PodDeletes, proxy.Delay(100*time.Millisecond)), Taint("tainted", "gone"), awaitLeft(10), Untaint("tainted", "gone")},
		Promised: []Check{NoneAfterUntaint("tainted"), someStay},
		Alone:    true, // in a storm, events of other stories are left out
		Long:     true,
	},
	{
		Name:     "SIGTERM finishes the calls in flight and starts no other",
		Given:    []Step{Node("tainted"), Crowd("tainted", 3), Alone("later")},
		When:     []Step{whileDeletesHang(Taint("tainted", "gone"), 3, Taint("later", "gone"))},
		Promised: []Check{leftBy(3, "delete pods"), markedOnly(3)},
		Alone:    true,
		Long:     true,
	},
	{
		Name:     "a right that is revoked is named, and evictions continue when it is back",
		Given:    []Step{Alone("pod")},
		When:     []Step{withoutRightToDelete(Taint("pod", "gone"), keeperSays("cannot delete resource"))},
		Promised: []Check{ByRule},
		Watched:  20 * time.Second,
		Alone:    true,
		Long:     true,
	},
}

// finding is what was seen, and whether it is right.
func finding(right bool, format string, of ...any) Finding {
	return Finding{Seen: fmt.Sprintf(format, of...), Right: right}
}

func gracePeriod(seconds int64) Edit {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// meetCalls answers calls of Taintkeeper's about the pods of the scene until the story is over.
func meetCalls(calls func(namespace string) proxy.Calls, answer proxy.Answer) Step {
	return func(_ context.Context, p *Play) error {
		remove := stageOf(p).faults.Add(calls(p.Namespace), answer)
		p.Finally(func(context.Context) error { remove(); return nil })
		return nil
	}
}

// callsAbout are the calls of Taintkeeper's that change a pod or its status.
func callsAbout(p *Play, pod *corev1.Pod, wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return p.Calls(append(wanted, auditlog.Of(pod.UID), func(c auditlog.Event) bool {
		return auditlog.Deletes(c) || auditlog.StatusPatches(c)
	})...)
}

// takesTwoCalls wants an eviction to be a patch and a delete.
func takesTwoCalls(name string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := callsAbout(p, p.Named(name).Pod, auditlog.Accepted)
		right := len(calls) == 2 && auditlog.StatusPatches(calls[0]) && auditlog.Deletes(calls[1])
		refused, failed := callsAbout(p, p.Named(name).Pod, auditlog.Refused)
		return finding(right && len(refused) == 0, "its calls are %v, refused %v", calls, refused), errors.Join(err, failed)
	}
}

// conditionIsSet wants the last version of a pod that was not terminating to have the condition.
func conditionIsSet(name string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		before, _ := lastBefore(p, p.Named(name).Pod)
		for _, is := range before.Status.Conditions {
			if is.Type != corev1.DisruptionTarget {
				continue
			}
			recent := time.Since(is.LastTransitionTime.Time) < await.Limit
			is.LastTransitionTime = metav1.Time{}
			return finding(recent && before.Generation > 0 && is == corev1.PodCondition{
				Type: "DisruptionTarget", Status: "True", Reason: "DeletionByTaintManager",
				Message: "Taintkeeper: deleting due to NoExecute taint", ObservedGeneration: before.Generation,
			}, "its condition is %+v", is), nil
		}
		return Finding{Seen: "it was terminating before it had the condition"}, nil
	}
}

// endsWithin wants a pod that was deleted to have its own grace period.
func endsWithin(name string, grace int64) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		_, after := lastBefore(p, p.Named(name).Pod)
		return finding(*after.DeletionGracePeriodSeconds == grace, "it has %d s to end", *after.DeletionGracePeriodSeconds), nil
	}
}

// saysItIsMarked wants upstream's event, once, about this pod.
func saysItIsMarked(name string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		var said []corev1.Event
		err := await.Poll(ctx, func(ctx context.Context) (err error) {
			if said, err = p.Events(ctx, name, "Marking for deletion Pod "+p.Namespace+"/"+name); err == nil && len(said) == 0 {
				err = errors.New("no event says that the pod is deleted")
			}
			return err
		})
		if err != nil {
			return Finding{}, err
		}
		event := said[0]
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: name, UID: p.Named(name).UID}
		return finding(len(said) == 1 && event.Count == 1 && event.Type == "Normal" && event.Reason == "TaintManagerEviction" &&
			event.Source.Component == "taint-eviction-controller" && event.InvolvedObject == about, "its events are %+v", said), nil
	}
}

// lastBefore returns the last version of a pod before it was terminating, and the first one after that.
func lastBefore(p *Play, pod *corev1.Pod) (before, after *corev1.Pod) {
	for _, sighting := range p.Seen().Of(pod.UID).Sightings {
		if sighting.Pod.DeletionTimestamp != nil {
			return before, sighting.Pod
		}
		before = sighting.Pod
	}
	return before, before
}

// ofOthers are taints that are nothing to us.
var ofOthers = []corev1.Taint{
	{Key: "not-ours", Value: "x", Effect: corev1.TaintEffectNoSchedule},
	{Key: "preferred", Effect: corev1.TaintEffectPreferNoSchedule},
	{Key: "dated", Value: "y", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Now().Add(-time.Hour).Truncate(time.Second)}},
}

// intrude lets another client add a taint to a node just before each of our first patches of it arrives.
func intrude(node string, times int) Step {
	return func(_ context.Context, p *Play) error {
		var mu sync.Mutex
		done, name := 0, p.NodeName(node)
		remove := stageOf(p).faults.Add(proxy.PatchesOfNode(name), func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if done < times {
				done++
				other := corev1.Taint{Key: fmt.Sprint("other-", done), Effect: corev1.TaintEffectNoSchedule}
				if _, err := scene.ChangeTaints(request.Context(), p.Admin, name, func(all []corev1.Taint) []corev1.Taint { return append(all, other) }); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(request)
		})
		p.Finally(func(context.Context) error { remove(); return nil })
		return nil
	}
}

// awaitStamp waits until every NoExecute taint of a node has its timeAdded.
func awaitStamp(node string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
			if err == nil && slices.ContainsFunc(taints.NoExecute(found.Spec.Taints), func(taint corev1.Taint) bool { return taint.TimeAdded == nil }) {
				err = fmt.Errorf("the taints are %v", found.Spec.Taints)
			}
			return err
		})
	}
}

// saidToStay returns when an event has said this many times that a pod stays.
func saidToStay(name string, times int32) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			said, err := p.Events(ctx, name, Cancelling)
			if err == nil && !slices.ContainsFunc(said, func(event corev1.Event) bool { return event.Count == times }) {
				err = fmt.Errorf("the events are %+v", said)
			}
			return err
		})
	}
}

// isStamped wants the taint "bare" to have its timeAdded, and all else to be as others wrote it.
func isStamped(node string, intrusions int) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		is, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
		if err != nil {
			return Finding{}, err
		}
		same := func(a, b corev1.Taint) bool {
			return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
		}
		was, all := p.History(node)[0], is.Spec.Taints
		bare := len(was.Taints) - 1
		right := len(all) == bare+1+intrusions && slices.EqualFunc(all[:bare], was.Taints[:bare], same) && all[bare].Key == "bare"
		if right { // what is written is the latest time that the API server's clock could show, to the second
			at := all[bare].TimeAdded.Time
			right = !at.Before(was.At.From.Truncate(time.Second)) && !at.After(time.Now().Add(time.Second))
		}
		return finding(right, "the taints are %v", all), nil
	}
}

// conflicted wants at least this many patches of a node to have met another version of it. One more can be made before
// the watch has brought the last version.
func conflicted(node string, times int) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := p.Calls(auditlog.Refused, auditlog.Named(p.NodeName(node)), func(c auditlog.Event) bool {
			return c.Verb == "patch" && c.Resource == "nodes" && c.Code == http.StatusConflict
		})
		return finding(len(calls) >= times, "%d patches conflicted", len(calls)), err
	}
}

// replacement is what happens to a pod just before one of the calls of its eviction arrives.
type replacement struct {
	pod string
	// before is the call.
	before func(namespace string) proxy.Calls
	// onto is the node of the pod that then has the name, or empty if none has.
	onto string
	// code is how the API server answers the call, and calls how many were made with it.
	code, calls int
}

var replacements = []replacement{
	{"patched-then-healthy", proxy.PodStatusPatches, "healthy", http.StatusUnprocessableEntity, 1},
	{"patched-then-tainted", proxy.PodStatusPatches, "tainted", http.StatusUnprocessableEntity, 1},
	{"patched-then-none", proxy.PodStatusPatches, "", http.StatusNotFound, 1},
	{"deleted-then-healthy", proxy.PodDeletes, "healthy", http.StatusConflict, 2},
	{"deleted-then-tainted", proxy.PodDeletes, "tainted", http.StatusConflict, 2},
	{"deleted-then-none", proxy.PodDeletes, "", http.StatusNotFound, 2},
}

// toReplace makes the pods that are replaced.
func toReplace(node string, all []replacement) Step {
	var steps []Step
	for _, r := range all {
		steps = append(steps, On(node, r.pod))
	}
	return Steps(steps...)
}

// replaceAllAfter takes a step, and replaces each pod when the call about it arrives. Other such calls wait for that.
func replaceAllAfter(begin Step) Step {
	return func(ctx context.Context, p *Play) error {
		var mu sync.Mutex
		happened := make(chan error, len(replacements))
		for _, r := range replacements {
			happens, replaced, concerned := Delete(r.pod), false, r.before(p.Namespace)
			if r.onto != "" {
				happens = Steps(happens, On(r.onto, r.pod))
			}
			about := func(request *http.Request) bool {
				return concerned(request) && slices.Contains(strings.Split(request.URL.Path, "/"), r.pod)
			}
			remove := stageOf(p).faults.Add(about, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if !replaced {
					replaced = true
					happened <- happens(ctx, p)
				}
				return next.RoundTrip(request)
			})
			p.Finally(func(context.Context) error { remove(); return nil })
		}
		err := begin(ctx, p)
		atMost, cancel := context.WithTimeout(ctx, await.Limit)
		defer cancel()
		for range replacements {
			select {
			case failed := <-happened:
				err = errors.Join(err, failed)
			case <-atMost.Done():
				return errors.Join(err, atMost.Err())
			}
		}
		return err
	}
}

// firstNamed returns the pod that had a name first.
func firstNamed(p *Play, name string) *corev1.Pod {
	all := p.Everyone()
	return all[slices.IndexFunc(all, func(pod *corev1.Pod) bool { return pod.Name == name })]
}

// allRefused waits until a call about each of the pods was refused, and one about the pod "patient" was made.
func allRefused(ctx context.Context, p *Play) error {
	return await.Poll(ctx, func(context.Context) error {
		refused, err := p.Calls(auditlog.In(p.Namespace), auditlog.Refused)
		patient, failed := p.Calls(auditlog.In(p.Namespace), auditlog.Named("patient"), auditlog.StatusPatches)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if len(refused) < len(replacements) || len(patient) == 0 {
			return fmt.Errorf("refused: %v; calls about pod patient: %v", refused, patient)
		}
		return nil
	})
}

// refusedOnce wants no further call about a pod after the answer that it is another one or gone, although the watch of
// pods did not say so; and those that have the names to leave or stay by the rule.
func refusedOnce(ctx context.Context, p *Play) (Finding, error) {
	all := Finding{Right: true}
	for _, r := range replacements {
		calls, err := callsAbout(p, firstNamed(p, r.pod))
		if err != nil {
			return all, err
		}
		last := calls[len(calls)-1]
		all = all.And(finding(len(calls) == r.calls && last.Code == r.code, "%s: %v", r.pod, calls))
		if r.onto == "" {
			continue
		}
		found, err := ByRuleFor(r.pod)(ctx, p)
		if all = all.And(found); err != nil {
			return all, err
		}
	}
	return all, nil
}

// whilePodsAreNotSeen takes steps while the watch of pods brings nothing.
func whilePodsAreNotSeen(steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		pods := stageOf(p).podWatches
		pods.Hold()
		defer pods.Release()
		err := Steps(steps...)(ctx, p)
		p.Excuse(time.Now())
		return err
	}
}

func isMarked(name string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		marks, err := callsAbout(p, p.Named(name).Pod, auditlog.StatusPatches, auditlog.Accepted)
		return finding(len(marks) > 0, "%s was marked by %v", name, marks), err
	}
}

// isNotDeleted wants no delete of a pod to have been tried.
func isNotDeleted(name string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		deletes, err := callsAbout(p, p.Named(name).Pod, auditlog.Deletes)
		return finding(len(deletes) == 0, "deletes of %s: %v", name, deletes), err
	}
}

func awaitLeft(count int) Step {
	return func(ctx context.Context, p *Play) error {
		_, _, missing := awaitDeletes(ctx, p, count)
		if missing != "" {
			return errors.New(missing)
		}
		return nil
	}
}

// someStay wants the storm to have been stopped before its end.
func someStay(ctx context.Context, p *Play) (Finding, error) {
	left, err := p.Seen().Await(ctx, time.Now(), p.Everyone()...)
	return finding(left >= len(p.Everyone())/3, "%d pods stay", left), err
}

// whileDeletesHang takes a step after which deletes hang, sends SIGTERM, and takes a step that has more evictions due
// before it lets the deletes arrive.
func whileDeletesHang(begin Step, deletes int, meanwhile Step) Step {
	return func(ctx context.Context, p *Play) error {
		s, hang, arrive, stopped := stageOf(p), &proxy.Instants{}, make(chan struct{}), make(chan error, 1)
		p.Finally(func(ctx context.Context) error { return startKeeper(ctx, p) })
		err := Steps(
			meetCalls(proxy.PodDeletes, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
				hang.Note()
				<-arrive
				return next.RoundTrip(request)
			}),
			begin,
			func(ctx context.Context, _ *Play) error {
				return await.Poll(ctx, func(context.Context) error {
					if n := len(hang.All()); n < deletes {
						return fmt.Errorf("%d deletes are on their way", n)
					}
					return nil
				})
			},
			func(context.Context, *Play) error { go func() { stopped <- s.stop() }(); return nil },
			After(time.Second), meanwhile, After(time.Second),
		)(ctx, p)
		if len(stopped) > 0 {
			err = errors.Join(err, errors.New("it did not wait for the calls in flight"))
		}
		close(arrive)
		if err != nil {
			return err
		}
		return <-stopped
	}
}

// markedOnly wants exactly this many pods to have been marked.
func markedOnly(count int) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		marks, err := p.Calls(auditlog.In(p.Namespace), auditlog.StatusPatches)
		return finding(len(marks) == count, "%d pods were marked", len(marks)), err
	}
}

// withoutRightToDelete takes the right to delete pods from Taintkeeper during some steps.
func withoutRightToDelete(steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		from, s, roles, after := time.Now(), stageOf(p), p.Admin.RbacV1().ClusterRoles(), context.WithoutCancel(ctx)
		role, err := roles.Get(ctx, "taintkeeper", metav1.GetOptions{})
		if err != nil {
			return err
		}
		given := role.DeepCopy().Rules
		for i := range role.Rules {
			role.Rules[i].Verbs = slices.DeleteFunc(role.Rules[i].Verbs, func(verb string) bool { return verb == "delete" })
		}
		if role, err = roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
			return err
		}
		deletes := authorizationv1.SubjectAccessReviewSpec{
			User: s.User, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"},
		}
		err = errors.Join(localcluster.AwaitRight(ctx, p.Admin, deletes, false), Steps(steps...)(ctx, p))
		role.Rules = given
		_, failed := roles.Update(after, role, metav1.UpdateOptions{})
		err = errors.Join(err, failed, localcluster.AwaitRight(after, p.Admin, deletes, true))
		s.mu.Lock()
		s.outages = append(s.outages, outage{from, time.Now()})
		s.mu.Unlock()
		p.Excuse(time.Now().Add(time.Since(from))) // a backoff that doubles ends after as long again
		return err
	}
}

// keeperSays waits until the log of the first replica has some words.
func keeperSays(words string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(context.Context) error {
			log, err := os.ReadFile(stageOf(p).replicas[0].LogPath())
			if err == nil && !strings.Contains(string(log), words) {
				err = fmt.Errorf("it does not say %q", words)
			}
			return err
		})
	}
}
