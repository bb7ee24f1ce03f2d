// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// One of client-go's error handlers sleeps until a little after the previous error of the process: another bubble's
	// error, whose virtual time may be ahead by minutes.
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// game is which histories are played to whom, and what must come of them.
type game struct {
	generate func(dice) *history
	// ours and upstream play. Wrong ones show that a game can find something.
	ours, upstream contestant
	outcome        func(*world) outcome
	// rule says what ours must do. Where that is a matter of luck, it follows what ours did.
	rule func(h *history, ours outcome) outcome
	// model says what a controller with some quirks does, which looks at all nodes when upstream did.
	model func(h *history, passes []time.Duration, has quirks) outcome
	// timers says what the plugin says that upstream does; nil if it says nothing.
	timers func(*history) outcome
	// agree reports whether upstream does what the rule says.
	agree func(rule, upstream []look) bool
	// quirks are the names of upstream's, in the order of their bits.
	quirks []string
	// needFirst are those that are about when a countdown begins or ends: without the first, no countdown goes on.
	needFirst quirks
	// enough is how many histories are sure to meet each quirk.
	enough int
}

// quirks is a set of ways in which upstream differs from the rule: the switches of the model of it.
type quirks uint

const (
	none quirks = 0
	// agrees is no quirk, and no passes: upstream does what the rule says.
	agrees quirks = 1 << 31
)

func (q quirks) has(other quirks) bool { return q&other != 0 }

func (g *game) all() quirks { return 1<<len(g.quirks) - 1 }

// names says which quirks are in a set. Without any, only the passes of the node-lifecycle controller make a difference.
func (g *game) names(set quirks) string {
	var names []string
	for i, name := range g.quirks {
		if set.has(1 << i) {
			names = append(names, name)
		}
	}
	if set == none {
		return "acting in passes alone"
	}
	return strings.Join(names, " + ")
}

// trial is one history, played to both contestants.
type trial struct {
	game           *game
	history        *history
	passes         []time.Duration // upstream's
	ours, upstream outcome         // of upstream without the repeats
	repeats        int             // pods that upstream deleted twice at its start
	rule, model    outcome         // what the rule says, and the rule with all of upstream's quirks
	timers         outcome
}

func (g *game) try(t *testing.T, h *history) *trial {
	t.Helper()
	world := play(t, h, g.upstream)
	upstream, repeats := withoutRepeats(h, g.outcome(world))
	ours := g.outcome(play(t, h, g.ours))
	tried := &trial{
		game: g, history: h, passes: world.passes, ours: ours, upstream: upstream, repeats: repeats,
		rule: g.rule(h, ours), model: g.model(h, world.passes, g.all()),
	}
	if g.timers != nil {
		tried.timers = g.timers(h)
	}
	return tried
}

// withoutRepeats drops the second of two deletes at the very instant of a start, and counts them. When it starts,
// upstream looks at each pod up to two times, once for its node and once for the pod itself, as its goroutines happen to
// run: a pod that has a grace period and must leave at once is usually deleted twice. No model can say when, so this is
// counted instead.
func withoutRepeats(h *history, played outcome) (outcome, int) {
	once, repeats := outcome{}, 0
	for name, looks := range played {
		for i, l := range looks {
			if l.deleted && i > 0 && l == looks[i-1] && slices.Contains(h.starts(), l.at) && (i < 2 || l != looks[i-2]) {
				repeats++
				continue
			}
			once[name] = append(once[name], l)
		}
	}
	return once, repeats
}

// kind is what can be wrong with a trial.
type kind string

const (
	oursBreaksTheRule     kind = "ours differs from the rule"
	upstreamIsUnexplained kind = "upstream differs from the model of it"
	timersAreWrong        kind = "upstream differs from builtin.Timers, by which the plugin answers"
)

// faults returns what is wrong with what a trial says about a pod or a node.
func (t *trial) faults(name string) (kinds []kind) {
	if !equal(t.ours[name], t.rule[name], exactly) {
		kinds = append(kinds, oursBreaksTheRule)
	}
	if !equal(t.upstream[name], t.model[name], exactly) {
		kinds = append(kinds, upstreamIsUnexplained)
	}
	if t.timers != nil && !equal(t.upstream[name], t.timers[name], exactly) {
		kinds = append(kinds, timersAreWrong)
	}
	return kinds
}

// check returns an error if something of one of the kinds is wrong with a trial, of any kind if none is named.
func (t *trial) check(kinds ...kind) error {
	for _, name := range t.names() {
		for _, fault := range t.faults(name) {
			if len(kinds) == 0 || slices.Contains(kinds, fault) {
				return fmt.Errorf("%s: %s\n%s", name, fault, t.table())
			}
		}
	}
	return nil
}

// names returns what the trial is about: pods, whether they were deleted or not, or nodes.
func (t *trial) names() []string {
	names := map[string]bool{}
	for _, spec := range t.history.podSpecs() {
		names[spec.UID] = true
	}
	for _, o := range []outcome{t.ours, t.upstream, t.rule, t.model} {
		for name := range o {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// explain finds, for each pod or node that upstream treats differently from the rule, no quirk or a single one with which
// the model does as upstream did; if there is none, the quirks that are left of all when those are dropped without which
// it still does.
func (t *trial) explain() map[string]quirks {
	predicted := map[quirks]outcome{}
	explains := func(set quirks, name string) bool {
		if set.has(t.game.needFirst) {
			set |= 1
		}
		if predicted[set] == nil {
			predicted[set] = t.game.model(t.history, t.passes, set)
		}
		return equal(predicted[set][name], t.upstream[name], exactly)
	}
	found := map[string]quirks{}
	for _, name := range t.names() {
		if t.game.agree(t.rule[name], t.upstream[name]) {
			found[name] = agrees
		} else if explains(t.game.all(), name) {
			found[name] = t.game.fewest(func(set quirks) bool { return explains(set, name) })
		}
	}
	return found
}

// fewest returns a set of quirks that is enough, and from which none can be dropped.
func (g *game) fewest(enough func(quirks) bool) quirks {
	if enough(none) {
		return none
	}
	for i := range g.quirks {
		if enough(1 << i) {
			return 1 << i
		}
	}
	set := g.all()
	for i := range g.quirks {
		if fewer := set &^ (1 << i); enough(fewer) {
			set = fewer
		}
	}
	return set
}

// table writes down what happened to each pod or node, and what should have.
func (t *trial) table() string {
	var text strings.Builder
	explanation := t.explain()
	for _, name := range t.names() {
		because := "unexplained"
		if found, ok := explanation[name]; ok && found == agrees {
			because = "upstream does what the rule says"
		} else if ok {
			because = "upstream differs because of " + t.game.names(found)
		}
		fmt.Fprintf(&text, "\n%s: %s %v\n", name, because, t.faults(name))
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "RULE\tOURS\tUPSTREAM\tMODEL OF UPSTREAM\tTHE PLUGIN")
		columns := [][]look{t.rule[name], t.ours[name], t.upstream[name], t.model[name], t.timers[name]}
		for row := 0; slices.ContainsFunc(columns, func(c []look) bool { return row < len(c) }); row++ {
			for _, column := range columns {
				if row < len(column) {
					fmt.Fprint(table, column[row])
				}
				fmt.Fprint(table, "\t")
			}
			fmt.Fprintln(table)
		}
		table.Flush()
	}
	return text.String()
}

// property is that nothing of some kinds is wrong with what the contestants do.
func (g *game) property(t *testing.T, tried func(*trial), kinds ...kind) seed.Property[*history] {
	t.Helper()
	return seed.Property[*history]{
		Generate: func(r *rand.Rand) *history { return g.generate(dice{r}) },
		Check: func(h *history) error {
			trial := g.try(t, h)
			if err := trial.check(kinds...); err != nil {
				return err
			}
			tried(trial)
			return nil
		},
		Smaller: (*history).smaller,
	}
}

// smaller returns the histories that are one thing smaller. Instants and names stay as they are, and so does what keeps
// ties out.
func (h *history) smaller() (all []*history) {
	for _, smaller := range seed.Smaller(*h, func(reflect.Value) []reflect.Value { return nil }) {
		if smaller.isAnchored() {
			all = append(all, &smaller)
		}
	}
	return all
}

// isAnchored reports whether each zone with kubelets has a node that counts and is always there: what upstream does with
// zones that vanish depends on the order of a Go map.
func (h *history) isAnchored() bool {
	zones := map[string]bool{}
	for _, spec := range h.nodeSpecs() {
		first := slices.ContainsFunc(h.Nodes, func(n nodeSpec) bool { return n.Name == spec.Name && !n.Excluded })
		stays := !slices.ContainsFunc(h.Steps, func(s step) bool { return s.Do == removeNode{spec.Name} })
		zones[spec.Zone] = zones[spec.Zone] || spec.Phase == 0 || first && stays
	}
	return !slices.Contains(slices.Collect(maps.Values(zones)), false)
}

// play plays the given number of histories, or the one that the user asked for, and fails if anything is wrong with
// them. A history with a fault is shown in its smallest form.
func (g *game) play(t *testing.T, count int) {
	t.Helper()
	if index, ok := seed.Only(); ok {
		g.property(t, func(tried *trial) { t.Logf("%s\n%s", seed.Describe(tried.history), tried.table()) }).HoldAt(t, index)
		return
	}
	if count < 1 {
		t.Fatalf("-n=%d: ask for at least one history", count)
	}
	played := &book{began: time.Now(), names: map[quirks]int{}, histories: map[quirks]int{}}
	seed.Each(t, count, func(t *testing.T, index int) {
		g.property(t, func(tried *trial) { played.enter(t, tried) }).HoldAt(t, index)
	})
	t.Logf("seed %d\n%s", seed.Seed(), played.table(g))
	if err := played.check(g); err != nil {
		t.Error(err)
	}
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	began time.Time

	mu        sync.Mutex
	played    int
	agreed    int // histories in which upstream does what the rule says
	repeats   int
	names     map[quirks]int // of pods or nodes
	histories map[quirks]int
}

func (b *book) enter(t *testing.T, tried *trial) {
	t.Helper()
	explanations := tried.explain()
	b.mu.Lock()
	defer b.mu.Unlock()
	because := map[quirks]bool{}
	for _, found := range explanations {
		b.names[found]++
		because[found] = true
	}
	delete(because, agrees)
	for set := range because {
		b.histories[set]++
	}
	if len(because) == 0 {
		b.agreed++
	}
	b.repeats += tried.repeats
	const often = 500
	if b.played++; b.played%often == 0 {
		t.Logf("%d histories, %.1f per second", b.played, float64(b.played)/time.Since(b.began).Seconds())
	}
}

// table writes down all that was played, first what needs the fewest quirks.
func (b *book) table(g *game) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	all := 0
	for _, n := range b.names {
		all += n
	}
	fmt.Fprintf(table, "\tHISTORIES\tPODS OR NODES\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", b.played, all)
	fmt.Fprintf(table, "both the same\t%d\t%d\n", b.agreed, b.names[agrees])
	sets := slices.Sorted(maps.Keys(b.histories))
	slices.SortStableFunc(sets, func(a, b quirks) int { return bits.OnesCount(uint(a)) - bits.OnesCount(uint(b)) })
	for _, set := range sets {
		fmt.Fprintf(table, "upstream differs because of %s\t%d\t%d\n", g.names(set), b.histories[set], b.names[set])
	}
	fmt.Fprintf(table, "upstream deleted twice at its start\t\t%d\n", b.repeats)
	table.Flush()
	return text.String()
}

// check returns an error if the histories tested nothing: upstream must have met each of its quirks, and must have kept
// the rule.
func (b *book) check(g *game) error {
	met := none
	for set := range b.histories {
		met |= set
	}
	switch {
	case b.played < g.enough:
		return nil
	case met != g.all():
		return fmt.Errorf("no history shows %s", g.names(g.all()&^met))
	case b.agreed == 0:
		return errors.New("both never agree")
	}
	return nil
}

// late is a contestant that deletes every pod a second late.
func late(right contestant) contestant {
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			takeTime(w.client, func() { pass(sec) })
			return false, nil, nil
		})
		return right(ctx, w)
	}
}

// forgetful is a contestant that loses one in five of its patches of nodes, although it is told that they were carried
// out.
func forgetful(right contestant) contestant {
	var calls atomic.Int32
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if calls.Add(1)%5 != 0 {
				return false, nil, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			return true, w.cluster.nodes[action.(clienttesting.PatchAction).GetName()].DeepCopy(), nil
		})
		return right(ctx, w)
	}
}

// A game that finds nothing wrong with a wrong contestant proves nothing.
func TestAWrongContestantIsFoundAndShownInAFewSteps(t *testing.T) {
	faster := policy
	faster.Rate = 10*policy.Rate + 0.5
	for name, test := range map[string]struct {
		game           game
		ours, upstream contestant // nil: the right one
		kind           kind
	}{
		"ours deletes a second late":            {evictions, late(ours), nil, oursBreaksTheRule},
		"upstream deletes a second late":        {evictions, nil, late(upstream), upstreamIsUnexplained},
		"the plugin is wrong":                   {evictions, nil, late(upstream), timersAreWrong},
		"upstream evicts instead of ours":       {evictions, upstream, nil, oursBreaksTheRule},
		"ours taints at twice the rate":         {health, oursChanged(func(c *nodehealth.Config) { c.Policy.Rate *= 2 }), nil, oursBreaksTheRule},
		"upstream forgets taints":               {health, nil, forgetful(upstreamOfNodes), upstreamIsUnexplained},
		"upstream taints at ten times the rate": {health, nil, upstreamAtRates(faster), upstreamIsUnexplained},
		"ours taints instead of upstream":       {health, nil, oursOfNodes, upstreamIsUnexplained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := test.game
			if test.ours != nil {
				g.ours = test.ours
			}
			if test.upstream != nil {
				g.upstream = test.upstream
			}
			smallest, _ := g.property(t, func(*trial) {}, test.kind).MustFind(t, 60)
			const few, fewNodes = 3, 4
			if len(smallest.Steps) > few || len(smallest.podSpecs()) > few || len(smallest.nodeSpecs()) > fewNodes {
				t.Errorf("it needs no more than %d steps, %d pods and %d nodes", few, few, fewNodes)
			}
		})
	}
}
