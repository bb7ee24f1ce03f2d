// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// cluster is a small cluster with an Engine.
type cluster struct {
	t      *testing.T
	now    time.Time
	engine *policy.Engine
	all    []*policy.Policy
	pods   map[types.UID]*member
	taints []string // of all tainted nodes
	toRead []types.UID
	again  time.Time

	counted map[string]int // how often the pods of a node were asked for
	flipped []string
}

// member is a pod that must leave its node because of a taint, as long as it is there.
type member struct {
	node, zone string
	due        time.Time
	pod        policy.Pod
	read       bool
	labels     labels.Set
	stays      bool // its node has no taint

	answer policy.Answer // the last answer, and when it could change by itself
	until  time.Time
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, now: at(0), pods: map[types.UID]*member{}, taints: []string{"x"}, counted: map[string]int{}}
	c.engine = policy.NewEngine(c, 0)
	return c
}

// Leaving implements [policy.Cluster].
func (c *cluster) Leaving(node string, now time.Time) (leaving []*policy.Leaver) {
	c.counted[node]++
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[uid]; p.node == node && !p.stays {
			leaving = append(leaving, c.leaver(uid, now))
		}
	}
	return leaving
}

// Tainted implements [policy.Cluster].
func (c *cluster) Tainted() (nodes []string) {
	for _, p := range c.pods {
		if !p.stays && !slices.Contains(nodes, p.node) {
			nodes = append(nodes, p.node)
		}
	}
	return nodes
}

// Selected implements [policy.Cluster].
func (c *cluster) Selected(p *policy.Policy, _ int, now time.Time) (selected int) {
	for uid := range c.pods {
		if slices.Contains(c.leaver(uid, now).By, p) {
			selected++
		}
	}
	return selected
}

// Read implements [policy.Cluster].
func (c *cluster) Read(pod *policy.Leaver) { c.toRead = append(c.toRead, pod.UID) }

// read reads the pods that must be read.
func (c *cluster) read() {
	for _, uid := range c.toRead {
		if p := c.pods[uid]; p != nil {
			p.read = true
			c.changed(p.node)
		}
	}
	c.toRead = nil
}

func (c *cluster) leaver(uid types.UID, now time.Time) *policy.Leaver {
	p := c.pods[uid]
	pod := p.pod
	pod.Labels = p.labels
	pod.NotReadySince(p.pod.Since, now)
	if !p.read && pod.Budgets.Name != "" {
		pod.Budgets = policy.Budgets{Objects: policy.PodUnread}
	}
	is := &policy.Leaver{UID: uid, Node: p.node, Zone: p.zone, Pod: &pod}
	for _, key := range c.taints {
		taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
		is.Taints = append(is.Taints, verdict.Taint{Taint: taint})
		is.Causes = append(is.Causes, policy.Cause{Taint: &taint, Due: p.due})
	}
	for _, by := range c.all {
		if by.Mismatch(&pod) == "" {
			is.By = append(is.By, by)
		}
	}
	return is
}

// pass lets time pass until an instant. The engine has its turn whenever it asks for one, and the evictor looks at pods
// when they are due and when their answers end.
func (c *cluster) pass(until time.Time) {
	for range 1000 {
		if c.engine.Pending() || !c.again.IsZero() && !c.again.After(c.now) {
			c.turn()
			continue
		}
		if c.now.Equal(until) {
			return
		}
		c.now = c.next(until)
		c.lookAtDue()
	}
	c.t.Fatalf("%s: the engine does not come to rest", c.now.Sub(due))
}

// next returns the first instant after now at which something happens, at most until.
func (c *cluster) next(until time.Time) time.Time {
	instants := []time.Time{until, c.again}
	for _, p := range c.pods {
		instants = append(instants, p.due, p.until)
	}
	instants = slices.DeleteFunc(instants, func(at time.Time) bool { return !at.After(c.now) })
	return slices.MinFunc(instants, time.Time.Compare)
}

// lookAtDue asks about the nodes of pods that are due now or whose answers end now.
func (c *cluster) lookAtDue() {
	for _, node := range c.Tainted() {
		if slices.ContainsFunc(c.Leaving(node, c.now), func(is *policy.Leaver) bool {
			return is.Causes[0].Due.Equal(c.now) || c.pods[is.UID].until.Equal(c.now)
		}) {
			c.look(node)
		}
	}
}

// turn gives the engine its turn.
func (c *cluster) turn() {
	nodes, flipped, again := c.engine.Next(c.now)
	c.again, c.flipped = again, append(c.flipped, flipped...)
	for _, node := range nodes {
		c.look(node)
	}
	if !c.again.IsZero() && !c.again.After(c.now) {
		c.t.Fatalf("%s: the engine wants its next turn at %s", c.now.Sub(due), c.again.Sub(due))
	}
}

// look asks about the due pods of a node, as the evictor does.
func (c *cluster) look(node string) {
	var leavers []*policy.Leaver
	for _, is := range c.Leaving(node, c.now) {
		if !is.Causes[0].Due.After(c.now) && len(is.By) > 0 {
			leavers = append(leavers, is)
		}
	}
	for i, said := range c.engine.Look(node, leavers, c.now) {
		p := c.pods[leavers[i].UID]
		p.answer, p.until = said.Answer, said.Again
	}
}

// check fails if a pod may leave or be asked about that might not at the last look, or the other way round.
func (c *cluster) check() {
	for uid, p := range c.pods {
		is := c.leaver(uid, c.now)
		if p.stays || p.due.After(c.now) || len(is.By) == 0 {
			continue
		}
		d := c.engine.Decide(is, c.now)
		if d.Stays() != p.answer.Stays() || !d.Stays() && d.Step != p.answer.Step {
			c.t.Errorf("%s: the answer about pod %s is %v, and at the last look it was %v until %s",
				c.now.Sub(due), uid, d.Said, p.answer, p.until.Sub(due))
		}
	}
}

// follow replaces the policies.
func (c *cluster) follow(all ...*policy.Policy) {
	c.all = all
	c.engine.Follow(all, c.now, true)
	for _, node := range c.Tainted() {
		c.look(node)
	}
}

// add adds a pod that is due at an instant.
func (c *cluster) add(uid types.UID, node string, due time.Time, pod policy.Pod) *member {
	p := &member{node: node, zone: node[:1], due: due, pod: pod, read: pod.Budgets.Objects != policy.PodUnread}
	c.pods[uid] = p
	c.changed(node)
	return p
}

func (c *cluster) changed(node string) {
	c.engine.MarkStale(node)
	c.look(node)
}

// leave lets a pod leave, because a client has deleted it.
func (c *cluster) leave(uid types.UID) {
	is := c.leaver(uid, c.now)
	delete(c.pods, uid)
	c.engine.MarkStale(is.Node)
	c.engine.Left(is, c.now)
	c.look(is.Node)
}

// evict evicts the pods that may leave, and returns them.
func (c *cluster) evict() (left []types.UID) {
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		if p := c.pods[uid]; p.stays || p.due.After(c.now) {
			continue
		}
		is := c.leaver(uid, c.now)
		if asks := c.engine.Decide(is, c.now).Step == policy.Ask; c.engine.Begin(is, asks, c.now) {
			c.leave(uid)
			left = append(left, uid)
		}
	}
	return left
}

func TestABreakerCountsAllPodsBeforeTheFirstLeaves(t *testing.T) {
	c := newCluster(t)
	for i := range 4 {
		c.add(types.UID(fmt.Sprint(i)), fmt.Sprintf("n%d", i), at(10), policy.Pod{})
	}
	c.follow(named(t, "brake", spec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(3), Settle: seconds(0)}}))
	c.pass(at(10))
	if left := c.evict(); len(left) > 0 {
		t.Errorf("%v have left through a breaker that allows 3 of 4", left)
	}
	c.pods["0"].stays = true
	c.changed("n0")
	c.pass(at(11))
	if left := c.evict(); len(left) != 3 {
		t.Errorf("%v have left after it closed, want three pods", left)
	}
}

func TestPlacesGoToThePodThatIsDueFirst(t *testing.T) {
	c := newCluster(t)
	c.follow(named(t, "slow", spec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}}))
	c.add("late", "n", at(1), policy.Pod{})
	c.add("early", "m", at(0), policy.Pod{})
	var left []types.UID
	for second := range 130 {
		c.pass(at(float64(second)))
		left = append(left, c.evict()...)
		c.look("n")
	}
	if !slices.Equal(left, []types.UID{"early", "late"}) {
		t.Errorf("%v have left", left)
	}
}

func TestARefusedPodGivesItsPlaceBack(t *testing.T) {
	c := newCluster(t)
	c.engine.SetBudget("shop/web", 1, c.now)
	c.follow(named(t, "ask", spec{Action: v1alpha1.ActionEvict}))
	for i, uid := range []types.UID{"a", "b"} {
		c.add(uid, "n", at(float64(i)), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
	}
	c.pass(at(1))
	if !c.engine.Begin(c.leaver("a", c.now), true, c.now) || c.engine.Begin(c.leaver("b", c.now), true, c.now) {
		t.Fatal("not exactly the first pod has the only place of its budget")
	}
	c.pass(at(2))
	c.engine.End("n", "a", true, c.now)
	c.pass(at(2))
	if c.engine.Begin(c.leaver("a", c.now), true, c.now) || !c.engine.Begin(c.leaver("b", c.now), true, c.now) {
		t.Error("after a refusal the place does not go to the next pod")
	}
	c.engine.End("n", "b", false, c.now)
}

func TestOnlyAnEvictionThatFailedGivesItsPlaceInAPaceBack(t *testing.T) {
	for _, stays := range []bool{false, true} {
		c := newCluster(t)
		c.follow(named(t, "slow", spec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}}))
		c.add("a", "n", at(60), policy.Pod{})
		c.add("b", "n", at(61), policy.Pod{})
		c.pass(at(70))
		if !c.engine.Begin(c.leaver("a", c.now), false, c.now) {
			t.Fatal("the first pod has no place")
		}
		c.engine.End("n", "a", stays, c.now)
		c.pass(at(76)) // the place is offered to the next pod within 5 s
		if begins := c.engine.Begin(c.leaver("b", c.now), false, c.now); begins != stays {
			t.Errorf("the first pod stays: %t; the second begins: %t", stays, begins)
		}
	}
}

func TestABudgetThatAllowsNothingIsAskedAboutUnlessWhatItAllowsIsExact(t *testing.T) {
	for _, exact := range []bool{false, true} {
		c := newCluster(t)
		c.engine.Exact = exact
		c.engine.SetBudget("shop/web", 0, c.now)
		c.follow(named(t, "ask", spec{Action: v1alpha1.ActionEvict}))
		c.add("a", "n", at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
		c.pass(at(policy.ProbeEvery.Seconds()))
		if begins := c.engine.Begin(c.leaver("a", c.now), true, c.now); begins == exact {
			t.Errorf("exact: %v: the eviction begins: %v", exact, begins)
		}
	}
}

// A pod leaves because of the taint that lets it go most mildly. If that one has no room, another may still ask.
func TestAPodWithoutAPlaceIsAskedAboutBecauseOfAnotherTaint(t *testing.T) {
	c := newCluster(t)
	c.taints = []string{"x", "y"}
	c.follow(
		named(t, "ask", spec{Action: v1alpha1.ActionEvict, Taints: taints("x")}),
		named(t, "slow", spec{Action: v1alpha1.ActionDelete, Taints: taints("y"), Pace: &v1alpha1.EvictionPace{Pods: 1, Per: *seconds(60)}}),
	)
	for _, uid := range []types.UID{"a", "b"} {
		c.add(uid, "n", at(0), policy.Pod{})
	}
	c.pass(at(1))
	for _, tt := range []struct {
		uid  types.UID
		want policy.Step
	}{{"a", policy.Free}, {"b", policy.Ask}} {
		is := c.leaver(tt.uid, c.now)
		if got := c.engine.Decide(is, c.now).Step; got != tt.want || !c.engine.Begin(is, got == policy.Ask, c.now) {
			t.Errorf("the answer about pod %s is %v, want %v, and its eviction must begin", tt.uid, got, tt.want)
		}
	}
}

// TestNextNamesTheNodesWhoseAnswersChange plays random histories. Whenever an answer changes, either time was up
// according to the answer itself, or something happened to the pod's own node, or Next has named the node.
func TestNextNamesTheNodesWhoseAnswersChange(t *testing.T) {
	histories := 400
	if testing.Short() {
		histories = 100
	}
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(43, seed))
		c := newCluster(t)
		if r.IntN(3) == 0 {
			c.taints = append(c.taints, "y")
		}
		for second := range 40 {
			c.read()
			c.happen(r, second)
			c.pass(at(float64(second)))
			c.check()
			if one, all := c.engine.Counted(c.now, false), c.engine.Counted(c.now, true); one != all {
				t.Errorf("after %d s the breakers count\n%s, and if they count everything again\n%s", second, one, all)
			}
			if r.IntN(2) == 0 {
				c.evict()
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for uid := range c.pods {
			c.leave(uid)
		}
		for _, node := range []string{"a1", "a2", "b1"} {
			c.engine.SetTaints(node, nil)
		}
		c.pass(at(1000))
		if kept := c.engine.Remembers(); kept > 0 {
			t.Fatalf("seed %d: without pods, the engine remembers %d things", seed, kept)
		}
	}
}

// happen lets something random happen.
func (c *cluster) happen(r *rand.Rand, second int) {
	some := func(do func(types.UID)) {
		if len(c.pods) > 0 {
			do(one(r, slices.Sorted(maps.Keys(c.pods))...))
		}
	}
	switch r.IntN(7) {
	case 0, 1, 2:
		c.addRandom(r, second)
	case 3:
		some(c.leave)
	case 4:
		some(func(uid types.UID) {
			p := c.pods[uid]
			p.stays = !p.stays
			if p.stays {
				c.engine.SetTaints(p.node, nil)
			}
			for _, other := range c.pods {
				if other.node == p.node {
					other.stays = p.stays
				}
			}
			c.changed(p.node)
		})
	case 5:
		c.engine.SetBudget(one(r, "shop/web", "shop/db"), r.IntN(3), c.now)
	case 6:
		c.follow(randomPolicies(r)...)
	}
}

// addRandom adds a random pod.
func (c *cluster) addRandom(r *rand.Rand, second int) {
	node := one(r, "a1", "a2", "b1")
	pod := policy.Pod{
		NamespaceLabels: labels.Set(randomLabels(r)), NodeLabels: labels.Set{}, Finished: r.IntN(6) == 0,
		Budgets: policy.Budgets{Name: one(r, "", "shop/web", "shop/db")},
	}
	if r.IntN(3) == 0 {
		pod.Since = at(float64(second - r.IntN(20)))
	}
	p := c.add(types.UID(fmt.Sprint("p", second)), node, at(float64(second+r.IntN(6)-1)), pod)
	p.labels, p.read = labels.Set(randomLabels(r)), r.IntN(2) == 0
	c.changed(node)
}

// randomPolicies returns up to three policies.
func randomPolicies(r *rand.Rand) []*policy.Policy {
	var all []*policy.Policy
	for i := range r.IntN(4) {
		object := randomPolicy(r, string(rune('a'+i)))
		if r.IntN(3) == 0 {
			object.Spec.Pace = &v1alpha1.EvictionPace{
				Pods: int32(1 + r.IntN(2)), Per: *seconds(float64(1 + r.IntN(9))),
				Scope: one(r, v1alpha1.ScopeCluster, v1alpha1.ScopeZone, v1alpha1.ScopeNode),
			}
		}
		if object.Spec.Breaker != nil {
			object.Spec.Breaker.MaxDue = one(r, intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("40%"))
		}
		compiled, _ := policy.New(&object)
		all = append(all, compiled)
	}
	return all
}

func TestOnlyPodsThatNeedPlacesWaitInLine(t *testing.T) {
	c := newCluster(t)
	c.follow(named(t, "free", spec{Action: v1alpha1.ActionDelete}))
	c.add("a", "n", at(0), policy.Pod{})
	c.pass(at(1))
	if c.look("n"); c.engine.Pending() || c.engine.InLine() > 0 {
		t.Error("a pod that needs no place waits in line, or the engine wants a turn for it")
	}
}

func TestAPodIsReadOnlyIfNothingElseKeepsIt(t *testing.T) {
	for _, paused := range []bool{false, true} {
		c := newCluster(t)
		is := spec{Action: v1alpha1.ActionEvict}
		if paused {
			is.Paused = new("maintenance")
		}
		c.follow(named(t, "ask", is))
		c.add("a", "n", at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web", Objects: policy.PodUnread}})
		c.toRead, c.now = nil, at(1)
		if c.engine.Decide(c.leaver("a", c.now), c.now); len(c.toRead) > 0 == paused {
			t.Errorf("while its policy is paused: %t, the pods %v are to be read", paused, c.toRead)
		}
	}
}

func TestAPlaceThatHasJustComeFreeIsForTheNextInLine(t *testing.T) {
	c := newCluster(t)
	c.engine.Exact = true
	c.engine.SetBudget("shop/web", 0, c.now)
	c.follow(named(t, "ask", spec{Action: v1alpha1.ActionEvict}))
	c.add("a", "n", at(0), policy.Pod{Budgets: policy.Budgets{Name: "shop/web"}})
	c.pass(at(1))
	c.engine.SetBudget("shop/web", 1, c.now)
	if said := c.engine.Decide(c.leaver("a", c.now), c.now); !said.Stays() {
		t.Errorf("before the line has its turn, the answer is %v", said.Said)
	}
	c.pass(at(2))
	if said := c.engine.Decide(c.leaver("a", c.now), c.now); said.Step != policy.Ask {
		t.Errorf("after it, the answer is %v, want that it is asked about", said.Said)
	}
}
