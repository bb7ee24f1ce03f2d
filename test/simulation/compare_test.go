// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

const (
	// within is how far from its instant a taint or an eviction may come on a machine that does nothing else: which of
	// the nodes of a zone is tainted first is luck, and node health looks at them once a second.
	within = 2 * time.Second
	// turn is how often node health looks at the nodes.
	turn = time.Second
	// late is how much later than its instant it may come here, plus the stalls.
	late = within + stall.Bound
	// still is how long Taintkeeper may go without renewing its Lease. After a longer pause it gives all nodes more
	// time.
	still = 4 * time.Second
	// backoff is how long a Job waits after its first failed pod before it makes another. It doubles with each failure.
	backoff = 10 * time.Second
)

// tally is what was compared.
type tally struct {
	skipped, taints, left, successors, places, ties, budgets, held, preempted, unclear, punctual int

	worst time.Duration
}

func (t *tally) add(other tally) {
	t.skipped, t.taints, t.left = t.skipped+other.skipped, t.taints+other.taints, t.left+other.left
	t.unclear, t.punctual, t.worst = t.unclear+other.unclear, t.punctual+other.punctual, max(t.worst, other.worst)
	t.successors, t.places, t.ties = t.successors+other.successors, t.places+other.places, t.ties+other.ties
	t.budgets, t.held, t.preempted = t.budgets+other.budgets, t.held+other.held, t.preempted+other.preempted
}

func (t tally) String() string {
	return fmt.Sprintf("%d changes of taints and %d evictions as simulated, %d of them within %s and the last %s after its instant; "+
		"%d pods of StatefulSets have a successor or none, as simulated; "+
		"%d workloads are in the simulated zones, and %d in as many of others; "+
		"%d budgets were overrun and policies held %d pods at the end, as simulated; "+
		"in %d rounds the first pod was preempted when it was to be; "+
		"%d evictions were left out because a taint was removed or a breaker closed at that time, and %d rounds because "+
		"Taintkeeper stood still",
		t.taints, t.left, t.punctual, within, t.worst.Round(time.Millisecond), t.successors, t.places, t.ties,
		t.budgets, t.held, t.preempted, t.unclear, t.skipped)
}

// comparison compares a round with its simulation. Times count from the start.
type comparison struct {
	*round
	tally

	ends    map[string][]time.Duration // when NoExecute taints of nodes end, in either
	luck    map[string]bool            // workloads for which it is luck which pods leave, or where successors go
	either  map[types.UID]bool         // pods for which it is luck whether a breaker stops them
	differs bool
}

// errorf says what differs.
func (c *comparison) errorf(format string, args ...any) {
	c.T.Helper()
	c.T.Errorf(c.Name+": "+format, args...)
	c.differs = true
}

// compare compares what happened with a simulation.
func (r *round) compare(report *cliv1alpha1.SimulationReport) tally {
	if pause := r.longestPause(); pause > still {
		r.T.Logf("%s is left out: Taintkeeper stood still for %s", r.Name, pause)
		return tally{skipped: 1}
	}
	c := &comparison{round: r, ends: map[string][]time.Duration{}, luck: map[string]bool{}, either: map[types.UID]bool{}}
	if r.policy != nil && r.policy.Spec.Breaker != nil {
		c.findEither(simulated(report), simulated(r.simulate(turn)))
	}
	c.compareTaints(r.changesIn(report), r.changes())
	c.comparePods(report)
	c.compareSuccessors(report)
	c.compareBudgets(report)
	c.compareHeld(report)
	if c.differs {
		r.explain(report)
	}
	return c.tally
}

// findEither finds the pods that a breaker stops or not, depending on when in its second node health looks at the nodes:
// with a turn more of patience, they leave in one simulation and not in the other.
func (c *comparison) findEither(now, later departures) {
	for _, pod := range c.before.Pods {
		n, leaves := now[pod.UID]
		l, left := later[pod.UID]
		if leaves != left || l-n > late {
			c.either[pod.UID], c.luck[pod.Labels["app"]] = true, true
		}
	}
}

// explain logs what a round was.
func (r *round) explain(report *cliv1alpha1.SimulationReport) {
	steps, err := json.Marshal(r.played)
	r.must(err)
	r.T.Logf("%s of seed %d, from %s: the steps were %s", r.Name, *seed, r.at.Format(time.StampMilli), steps)
	if r.policy != nil {
		spec, err := json.Marshal(r.policy.Spec)
		r.must(err)
		r.T.Logf("the policy is %s", spec)
	}
	for _, event := range report.Story {
		r.T.Logf("+%s %s", event.At.Round(time.Millisecond), event.Message)
	}
	for _, pod := range report.Pods {
		text, err := json.Marshal(pod)
		r.must(err)
		r.T.Logf("simulated: %s", text)
	}
	for _, e := range r.departed() {
		r.T.Logf("+%s %s by %s", e.Answered.Sub(r.at).Round(time.Millisecond), e, e.User)
	}
}

// longestPause is the longest time in which Taintkeeper renewed no Lease though the API server ran.
func (r *round) longestPause() (longest time.Duration) {
	last := r.at
	for _, e := range audit.All(r.T, auditlog.By(localcluster.TaintkeeperUser), auditlog.Accepted, auditlog.Since(r.at), func(e auditlog.Event) bool {
		return e.Resource == "leases" && e.Verb == "patch"
	}) {
		pause := e.Answered.Sub(last)
		if from := last.Sub(r.at); from < r.outage.to && e.Answered.Sub(r.at) > r.outage.to {
			pause -= r.outage.to - max(from, r.outage.from)
		}
		longest, last = max(longest, pause), e.Answered
	}
	return max(longest, time.Since(last))
}

// nodeTaint is a taint of a node.
type nodeTaint struct{ node, taint string }

func (t nodeTaint) String() string { return t.taint + " on node " + t.node }

// changes is when taints are set and removed, in turns.
type changes map[nodeTaint][]time.Duration

// changesFrom are the changes that nodes with taints at the start bring.
func changesFrom(nodes []*corev1.Node) changes {
	all := changes{}
	for _, node := range nodes {
		all.become(0, node.Name, formatAll(node.Spec.Taints))
	}
	return all
}

// become takes in the taints of a node from an instant on.
func (c changes) become(at time.Duration, node string, has []string) {
	for _, taint := range has {
		key := nodeTaint{node, taint}
		if len(c[key])%2 == 0 {
			c[key] = append(c[key], at)
		}
	}
	for key, at0 := range c {
		if key.node == node && len(at0)%2 == 1 && !slices.Contains(has, key.taint) {
			c[key] = append(at0, at)
		}
	}
}

// changesIn is when taints change in a simulation.
func (r *round) changesIn(report *cliv1alpha1.SimulationReport) changes {
	all := changesFrom(r.before.Nodes)
	for _, node := range report.Nodes {
		for _, step := range node.Steps {
			all.become(step.At.Duration, node.Name, step.Taints)
		}
	}
	return all
}

// changes is when taints changed in the cluster until the simulation was over.
func (r *round) changes() changes {
	type version struct {
		at   time.Duration
		node corev1.Node
	}
	var versions []version
	for _, e := range audit.All(r.T, auditlog.Since(r.at), auditlog.Accepted, r.ofNodes) {
		is := version{at: e.Answered.Sub(r.at)}
		r.must(json.Unmarshal(e.Response, &is.node))
		versions = append(versions, is)
	}
	slices.SortStableFunc(versions, func(a, b version) int { return r.number(&a.node) - r.number(&b.node) })
	all := changesFrom(r.before.Nodes)
	for _, is := range versions {
		all.become(is.at, is.node.Name, formatAll(is.node.Spec.Taints))
	}
	return all
}

// ofNodes picks the calls that changed nodes of the round.
func (r *round) ofNodes(e auditlog.Event) bool {
	return e.Resource == "nodes" && (e.Verb == "patch" || e.Verb == "update") && r.known(e.Name)
}

func (r *round) number(node *corev1.Node) int {
	n, err := strconv.Atoi(node.ResourceVersion)
	r.must(err)
	return n
}

func formatAll(all []corev1.Taint) (texts []string) {
	for _, taint := range all {
		texts = append(texts, taints.Format(taint))
	}
	return texts
}

// compareTaints compares when taints are set and removed.
func (c *comparison) compareTaints(want, got changes) {
	keys := map[nodeTaint]bool{}
	for _, all := range []changes{want, got} {
		for key, changes := range all {
			keys[key] = true
			c.note(key, changes)
		}
	}
	for key := range keys {
		if !c.sameChanges(want[key], got[key]) {
			c.errorf("%s was set and removed at %s, and in the simulation at %s", key, got[key], want[key])
		}
	}
}

// sameChanges reports whether a taint changed when it was to, and if so, counts that. A busy machine may miss changes
// that are undone soon.
func (c *comparison) sameChanges(want, got []time.Duration) bool {
	for _, soon := range []time.Duration{0, within, late} {
		w, g := lasting(want, soon), lasting(got, soon)
		if !slices.EqualFunc(w, g, c.near) {
			continue
		}
		for i := range w {
			if w[i] > 0 || g[i] > 0 { // otherwise it was there at the start
				c.agree(w[i], g[i])
				c.taints++
			}
		}
		return true
	}
	return false
}

// note notes when a taint that evicts ends.
func (c *comparison) note(key nodeTaint, changes []time.Duration) {
	for i, at := range changes {
		if i%2 == 1 && strings.HasSuffix(key.taint, ":"+string(corev1.TaintEffectNoExecute)) {
			c.ends[key.node] = append(c.ends[key.node], at)
		}
	}
}

// lasting returns the changes without those that are undone within a given time.
func lasting(changes []time.Duration, soon time.Duration) (all []time.Duration) {
	for i := 0; i < len(changes); i++ {
		if i+1 < len(changes) && changes[i+1]-changes[i] < soon {
			i++
			continue
		}
		all = append(all, changes[i])
	}
	return all
}

// near reports whether something happened when it was to.
func (c *comparison) near(want, got time.Duration) bool {
	return got-want >= -within && got-want <= late+cluster.Stalls().In(c.at.Add(want), c.at.Add(got))
}

// agree reports whether near is true, and if so, counts that.
func (c *comparison) agree(want, got time.Duration) bool {
	if !c.near(want, got) {
		return false
	}
	off := got - want
	c.worst = max(c.worst, off)
	if off <= within {
		c.punctual++
	}
	return true
}

// departed are the calls by which pods of the round left. Controllers of pods name no UID, and no pod has the name of
// one that they delete.
func (r *round) departed() []auditlog.Event {
	uids := map[string]types.UID{}
	for _, pod := range r.before.Pods {
		uids[pod.Name] = pod.UID
	}
	all := audit.All(r.T, auditlog.Since(r.at), auditlog.Accepted, auditlog.In(r.Name), workloads.Leaves)
	for i := range all {
		all[i].UID = cmp.Or(all[i].UID, uids[all[i].Name])
	}
	return all
}

// departures is when the pods that were there at the start leave.
type departures map[types.UID]time.Duration

func simulated(report *cliv1alpha1.SimulationReport) departures {
	leave := departures{}
	for _, pod := range report.Pods {
		if pod.UID != "" && pod.LeavesAt != nil {
			leave[pod.UID] = pod.LeavesAt.Duration
		}
	}
	return leave
}

func (c *comparison) observed() departures {
	left := departures{}
	for _, e := range c.departed() {
		if _, known := left[e.UID]; !known {
			left[e.UID] = e.Answered.Sub(c.at)
		}
	}
	return left
}

// comparePods compares which pods leave, and when.
func (c *comparison) comparePods(report *cliv1alpha1.SimulationReport) {
	want, got := simulated(report), c.observed()
	if c.inTurn() { // which pods go first is luck
		c.compareInTurn(want, got)
		return
	}
	for _, pod := range c.before.Pods {
		w, leaves := want[pod.UID]
		g, left := got[pod.UID]
		if (leaves != left || !c.near(w, g)) && (c.unclearAt(pod, w, leaves) || c.unclearAt(pod, g, left)) {
			c.luck[pod.Labels["app"]] = true
		}
	}
	for _, pod := range c.before.Pods {
		if !strings.HasPrefix(pod.Name, filling) {
			c.comparePod(pod, want, got)
		}
	}
	if c.filled {
		c.comparePreempted(report)
	}
}

// comparePreempted compares when the pod of high priority preempts another for the first time. Which one, and with that
// who is preempted later and where all others go, is luck: the scheduler chooses at random among nodes where it is as
// good.
func (c *comparison) comparePreempted(report *cliv1alpha1.SimulationReport) {
	var want, got []time.Duration
	for _, pod := range report.Pods {
		if pod.PreemptedBy != "" {
			want = append(want, pod.LeavesAt.Duration)
		}
	}
	for _, e := range c.departed() {
		if e.User == localcluster.SchedulerUser {
			got = append(got, e.Answered.Sub(c.at))
		}
	}
	unclear := c.luck[filling+"0"]
	for _, pod := range c.before.Pods {
		c.luck[pod.Labels["app"]] = true
	}
	slices.Sort(want)
	slices.Sort(got)
	want, got = want[:min(len(want), 1)], got[:min(len(got), 1)]
	switch {
	case slices.EqualFunc(want, got, c.agree):
		c.preempted += len(got)
	case unclear, len(want) > 0 && want[0] > c.until-late, len(got) > 0 && got[0] > c.until-late:
		c.unclear++
	default:
		c.errorf("the first pod was preempted at %s, and in the simulation at %s", got, want)
	}
}

func (c *comparison) comparePod(pod *corev1.Pod, want, got departures) {
	w, leaves := want[pod.UID]
	g, left := got[pod.UID]
	switch {
	case leaves && left && c.agree(w, g):
		c.left++
	case !leaves && !left:
	case c.either[pod.UID]:
		c.unclear++
	case c.unclearAt(pod, w, leaves), c.unclearAt(pod, g, left), ofJob(pod) && c.luck[pod.Labels["app"]]:
		c.unclear++
	case leaves && left:
		c.errorf("pod %s on node %s left at %s, and in the simulation at %s", pod.Name, pod.Spec.NodeName, g, w)
	case leaves:
		c.errorf("pod %s on node %s did not leave, and in the simulation at %s", pod.Name, pod.Spec.NodeName, w)
	default:
		c.errorf("pod %s on node %s left at %s, and in the simulation it does not", pod.Name, pod.Spec.NodeName, g)
	}
}

// ofJob reports whether a pod is one of a Job, which ends its pods if others leave.
func ofJob(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "Job"
}

// unclearAt reports whether it is luck whether a pod leaves: at about the same time a taint of its node is removed, or
// the simulation ends.
func (c *comparison) unclearAt(pod *corev1.Pod, at time.Duration, leaves bool) bool {
	return leaves && (at > c.until-late || c.untaintedAt(pod, at))
}

// untaintedAt reports whether a taint of the node of a pod is removed at about an instant.
func (c *comparison) untaintedAt(pod *corev1.Pod, at time.Duration) bool {
	return slices.ContainsFunc(c.ends[pod.Spec.NodeName], func(end time.Duration) bool {
		return at > end-late && at < end+late
	})
}

// untaintedWhen reports whether a taint of the node of a pod is removed when the pod leaves.
func (c *comparison) untaintedWhen(pod *corev1.Pod, all departures) bool {
	at, leaves := all[pod.UID]
	return leaves && c.untaintedAt(pod, at)
}

// compareInTurn compares how many pods leave when, whichever they are. If it is luck whether one leaves, the same is
// true of those that wait for it.
func (c *comparison) compareInTurn(want, got departures) {
	first := map[types.UID]bool{}
	for _, pod := range c.before.Pods {
		first[pod.UID] = true
		if c.untaintedWhen(pod, want) || c.untaintedWhen(pod, got) {
			c.unclear++
		}
	}
	if c.unclear > 0 {
		for _, pod := range c.before.Pods {
			c.luck[pod.Labels["app"]] = true
		}
		return
	}
	maps.DeleteFunc(got, func(uid types.UID, _ time.Duration) bool { return !first[uid] })
	w, g := slices.Sorted(maps.Values(want)), slices.Sorted(maps.Values(got))
	for i := range max(len(w), len(g)) {
		switch {
		case i < len(w) && i < len(g) && c.agree(w[i], g[i]):
			c.left++
		case slices.Concat(w[min(i, len(w)):], g[min(i, len(g)):])[0] > c.until-late: // the simulation ends
		default:
			c.errorf("pods left at %s, and in the simulation at %s", g, w)
			return
		}
	}
}

// waitsForSilent reports whether it is luck whether the successor of a pod is created: its StatefulSet creates its pods in
// order, and at about that time another may become unready because its node is found unreachable.
func waitsForSilent(pod *cliv1alpha1.SimulatedPod, report *cliv1alpha1.SimulationReport) bool {
	ordered := strings.Contains(pod.NoSuccessor, "creates its pods in order")
	return ordered && slices.ContainsFunc(report.Nodes, func(node cliv1alpha1.SimulatedNode) bool {
		return node.UnreachableAt != nil && (node.UnreachableAt.Duration-pod.LeavesAt.Duration).Abs() < late
	})
}

// compareSuccessors compares which pods of StatefulSets that left have a successor at the end, and in which zones the
// pods of each workload are then.
func (c *comparison) compareSuccessors(report *cliv1alpha1.SimulationReport) {
	list, err := admin.CoreV1().Pods(c.Name).List(c.T.Context(), metav1.ListOptions{})
	c.must(err)
	is := map[string]types.UID{}
	for i := range list.Items {
		is[list.Items[i].Name] = list.Items[i].UID
	}
	for _, pod := range report.Pods {
		if pod.UID == "" || pod.Owner == nil || pod.Owner.Kind != "StatefulSet" || c.luck[pod.Owner.Name] {
			continue
		}
		if pod.LeavesAt == nil || pod.LeavesAt.Duration > c.until-late || waitsForSilent(&pod, report) {
			continue
		}
		uid, exists := is[pod.Name]
		if succeeded := exists && uid != pod.UID; succeeded != (pod.Successor != "") {
			c.errorf("pod %s has a successor: %t; in the simulation its successor is %q", pod.Name, succeeded, pod.Successor)
		}
		c.successors++
	}
	c.comparePlaces(report, list.Items)
}

// compareBudgets compares for how long budgets have fewer healthy pods than they ask for, if it is clear where those are.
func (c *comparison) compareBudgets(report *cliv1alpha1.SimulationReport) {
	want, got := map[string]time.Duration{}, c.overruns()
	for _, budget := range report.Budgets {
		want[budget.Name] = budget.OverrunFor.Duration
	}
	for _, budget := range c.before.Budgets {
		w, g := want[budget.Name], got[budget.Name]
		switch {
		case c.luck[budget.Name]:
		case (w - g).Abs() > late:
			c.errorf("budget %s was overrun for %s, and in the simulation for %s", budget.Name, g, w)
		case w > 0 && g > 0:
			c.budgets++
		}
	}
}

// overruns is for how long budgets had fewer healthy pods than they ask for, as the disruption controller wrote.
func (r *round) overruns() map[string]time.Duration {
	long, since := map[string]time.Duration{}, map[string]time.Duration{}
	end := func(name string, at time.Duration) {
		if from, over := since[name]; over {
			long[name] += at - from
			delete(since, name)
		}
	}
	for _, e := range audit.All(r.T, auditlog.Since(r.at), auditlog.Accepted, auditlog.In(r.Name), func(e auditlog.Event) bool {
		return e.Resource == "poddisruptionbudgets/status"
	}) {
		var budget policyv1.PodDisruptionBudget
		r.must(json.Unmarshal(e.Response, &budget))
		at := min(e.Answered.Sub(r.at), r.until)
		end(e.Name, at)
		if budget.Status.CurrentHealthy < budget.Status.DesiredHealthy {
			since[e.Name] = at
		}
	}
	for name := range maps.Clone(since) {
		end(name, r.until)
	}
	return long
}

// compareHeld compares whether the policy holds pods at the end. One that asks the Eviction API holds none.
func (c *comparison) compareHeld(report *cliv1alpha1.SimulationReport) {
	if c.policy == nil || c.policy.Spec.Action == v1alpha1.ActionEvict || len(c.either) > 0 || slices.ContainsFunc(report.Pods, c.endsWith) {
		return
	}
	holds := meta.IsStatusConditionTrue(c.policy.Status.Conditions, v1alpha1.ConditionHolding)
	if holds != (report.Summary.Held > 0) {
		c.errorf("the policy holds pods at the end: %t; in the simulation it holds %d", holds, report.Summary.Held)
	}
	c.held += report.Summary.Held
}

// endsWith reports whether a pod leaves at about the end of the simulation.
func (c *comparison) endsWith(pod cliv1alpha1.SimulatedPod) bool {
	return pod.LeavesAt != nil && pod.LeavesAt.Duration > c.until-late
}

// places is how many pods each workload has in each zone.
type places map[string]map[string]int

func (c *comparison) put(in places, workload, node string, change int) {
	for _, spec := range c.nodes {
		if spec.Name == node {
			if in[workload] == nil {
				in[workload] = map[string]int{}
			}
			in[workload][spec.Zone] += change
		}
	}
}

// comparePlaces compares the zones of the pods of workloads that lost some, except for workloads with a successor that
// leaves: it is luck on which node of its zone that is.
func (c *comparison) comparePlaces(report *cliv1alpha1.SimulationReport, pods []corev1.Pod) {
	got := places{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			c.put(got, pods[i].Labels["app"], pods[i].Spec.NodeName, 1)
		}
	}
	want, unclear := c.placesIn(report)
	for app, unclear := range unclear {
		w, g := want[app], got[app]
		c.luck[app] = c.luck[app] || unclear || c.lostSuccessor(app)
		maps.DeleteFunc(w, func(_ string, n int) bool { return n == 0 })
		switch {
		case c.luck[app]:
		case maps.Equal(w, g):
			c.places++
		case slices.Equal(slices.Sorted(maps.Values(w)), slices.Sorted(maps.Values(g))):
			c.ties++
		default:
			c.errorf("the pods of %s are in the zones %v, and in the simulation in %v", app, g, w)
		}
	}
}

// placesIn returns where pods are at the end of a simulation, and, for each workload that loses some, whether that is
// luck.
func (c *comparison) placesIn(report *cliv1alpha1.SimulationReport) (in places, unclear map[string]bool) {
	in, unclear = places{}, map[string]bool{}
	for _, pod := range c.before.Pods {
		c.put(in, pod.Labels["app"], pod.Spec.NodeName, 1)
	}
	losses := map[string]int{} // of Jobs
	for _, pod := range report.Pods {
		if pod.LeavesAt == nil {
			continue
		}
		app, ends := pod.Name, c.until-late
		if pod.Owner != nil {
			app = pod.Owner.Name
		}
		if strings.HasPrefix(app, "batch-") && pod.Successor != "" {
			losses[app]++
			ends -= backoff << (losses[app] - 1)
		}
		unclear[app] = unclear[app] || pod.UID == "" || pod.LeavesAt.Duration > ends
		c.put(in, app, pod.Node, -1)
		c.put(in, app, pod.SuccessorNode, 1)
	}
	return in, unclear
}

// lostSuccessor reports whether a pod that was not there at the start, of a given workload, left.
func (c *comparison) lostSuccessor(app string) bool {
	return slices.ContainsFunc(c.departed(), func(e auditlog.Event) bool {
		return strings.HasPrefix(e.Name, app+"-") && !slices.ContainsFunc(c.before.Pods, func(pod *corev1.Pod) bool { return pod.UID == e.UID })
	})
}
