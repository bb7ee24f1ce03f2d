// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// game is which histories are played to whom, and what must come of them.
type game struct {
	generate func(seed, index uint64) *history
	// ours and upstream play. Wrong ones show that a game can find something.
	ours, upstream contestant
	outcome        func(*world) outcome
	// rule says what ours must do. Where that is a matter of luck, it follows what ours did.
	rule func(h *history, ours outcome) outcome
	// model says what a controller with some quirks does, which looks at all nodes when upstream did.
	model func(h *history, passes []time.Duration, has quirks) outcome
	// timers says what the plugin says that upstream does, if it says something.
	timers func(*history) outcome
	// agree reports whether upstream does what the rule says.
	agree func(rule, upstream []look) bool
	// quirks are the names of upstream's, in the order of their bits.
	quirks []string
	// enough is how many histories are sure to meet each quirk.
	enough int
}

// quirks is a set of ways in which upstream differs from the rule: the switches of the model of it.
type quirks uint

const none quirks = 0

func (q quirks) has(other quirks) bool { return q&other != 0 }

func (q quirks) size() int { return bits.OnesCount(uint(q)) }

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

func smallFirst(a, b quirks) int { return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a, b)) }

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
			if l.deleted && i > 0 && l == looks[i-1] && h.startsAt(l.at) && (i < 2 || l != looks[i-2]) {
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

// fault is something wrong with a trial.
type fault struct {
	kind kind
	name string // of a node, or a pod's UID
}

func (f fault) String() string { return f.name + ": " + string(f.kind) }

// faults returns everything wrong with a trial.
func (t *trial) faults() []fault {
	var faults []fault
	for _, name := range t.names() {
		if !equal(t.ours[name], t.rule[name], exactly) {
			faults = append(faults, fault{oursBreaksTheRule, name})
		}
		if !equal(t.upstream[name], t.model[name], exactly) {
			faults = append(faults, fault{upstreamIsUnexplained, name})
		}
		if t.timers != nil && !equal(t.upstream[name], t.timers[name], exactly) {
			faults = append(faults, fault{timersAreWrong, name})
		}
	}
	return faults
}

func (t *trial) has(kind kind) bool {
	return slices.ContainsFunc(t.faults(), func(f fault) bool { return f.kind == kind })
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

// explanation is why upstream does with a pod or a node what it does.
type explanation struct {
	agrees bool   // with the rule
	quirks quirks // otherwise
}

// explain finds, for each pod or node that upstream treats differently from the rule, no quirk or a single one with which
// the model does as upstream did; if there is none, the quirks that are left of all when those are dropped without which
// it still does.
func (t *trial) explain() map[string]explanation {
	predicted := map[quirks]outcome{}
	explains := func(set quirks, name string) bool {
		if predicted[set] == nil {
			predicted[set] = t.game.model(t.history, t.passes, set)
		}
		return equal(predicted[set][name], t.upstream[name], exactly)
	}
	found := map[string]explanation{}
	for _, name := range t.names() {
		if t.game.agree(t.rule[name], t.upstream[name]) {
			found[name] = explanation{agrees: true}
		} else if explains(t.game.all(), name) {
			found[name] = explanation{quirks: t.game.fewest(func(set quirks) bool { return explains(set, name) })}
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

// timetable writes down a trial: what was there before, what happened when, and then what happened to each pod or node.
func (t *trial) timetable() string {
	var text strings.Builder
	line := func(when string, what any) { fmt.Fprintf(&text, "%12s  %s\n", when, what) }
	for _, node := range t.history.Nodes {
		line("before", node)
	}
	for _, pod := range t.history.Pods {
		line("before", pod)
	}
	for _, next := range t.history.occasions() {
		switch {
		case next.starts:
			line(clock(next.at), "the controller starts")
		case next.step != nil:
			line(clock(next.at), next.step.Do)
		}
	}
	explanation := t.explain()
	for _, name := range t.names() {
		because := "upstream does what the rule says"
		if found, ok := explanation[name]; !ok {
			because = "unexplained"
		} else if !found.agrees {
			because = "upstream differs: " + t.game.names(found.quirks)
		}
		for _, fault := range t.faults() {
			if fault.name == name {
				because += "; " + string(fault.kind)
			}
		}
		fmt.Fprintf(&text, "\n%s: %s\n", name, because)
		t.columns(&text, name)
	}
	return text.String()
}

func (t *trial) columns(text *strings.Builder, name string) {
	columns := [][]look{t.rule[name], t.ours[name], t.upstream[name], t.model[name], t.timers[name]}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintln(table, "RULE\tOURS\tUPSTREAM\tMODEL OF UPSTREAM\tTHE PLUGIN")
	for row := range max(len(columns[0]), len(columns[1]), len(columns[2]), len(columns[3]), len(columns[4])) {
		for _, column := range columns {
			if row < len(column) {
				fmt.Fprint(table, column[row])
			}
			fmt.Fprint(table, "\t")
		}
		fmt.Fprintln(table)
	}
}

// play plays the given number of histories, or the one that the user asked for, and fails if anything is wrong with
// them. A history with a fault is shown in its smallest form.
func (g *game) play(t *testing.T, count int) {
	t.Helper()
	if index, ok := seed.Only(); ok {
		t.Logf("history %d of seed %d\n%s", index, seed.Seed(), g.playOne(t, index).timetable())
		return
	}
	if count < 1 {
		t.Fatalf("-n=%d: ask for at least one history", count)
	}
	played := &book{began: time.Now(), names: map[explanation]int{}, histories: map[quirks]int{}}
	seed.Each(t, count, func(t *testing.T, index int) { played.enter(t, g.playOne(t, index)) })
	t.Logf("seed %d\n%s", seed.Seed(), played.table(g))
	played.check(t, g)
}

// playOne plays the history at an index.
func (g *game) playOne(t *testing.T, index int) *trial {
	t.Helper()
	history := g.generate(seed.Seed(), uint64(index))
	tried := g.try(t, history)
	if faults := tried.faults(); len(faults) > 0 {
		smallest := g.try(t, g.shrink(t, history, faults[0].kind))
		t.Errorf("%s\n\n%s\nMinimal form of history %d of seed %d; run it again with\n%s",
			faults[0], smallest.timetable(), index, seed.Seed(), seed.Again(t, "histories", index))
	}
	return tried
}

// search returns the first of a seed's histories that has a kind of fault, as it is and in its smallest form.
func (g *game) search(t *testing.T, of uint64, count int, kind kind) (found, smallest *history) {
	t.Helper()
	for index := range uint64(count) {
		if h := g.generate(of, index); g.try(t, h).has(kind) {
			return h, g.shrink(t, h, kind)
		}
	}
	t.Fatalf("not found in %d histories", count)
	return nil, nil
}

// book counts what was played. It is safe for concurrent use.
type book struct {
	began time.Time

	mu        sync.Mutex
	played    int
	agreed    int // histories in which upstream does what the rule says
	repeats   int
	names     map[explanation]int // of pods or nodes
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
		if !found.agrees {
			because[found.quirks] = true
		}
	}
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

// table writes down all that was played.
func (b *book) table(g *game) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	all := 0
	for _, n := range b.names {
		all += n
	}
	fmt.Fprintf(table, "\tHISTORIES\tPODS OR NODES\n")
	fmt.Fprintf(table, "played\t%d\t%d\n", b.played, all)
	fmt.Fprintf(table, "both the same\t%d\t%d\n", b.agreed, b.names[explanation{agrees: true}])
	for _, set := range slices.SortedFunc(maps.Keys(b.histories), smallFirst) {
		fmt.Fprintf(table, "upstream differs because of %s\t%d\t%d\n", g.names(set), b.histories[set], b.names[explanation{quirks: set}])
	}
	fmt.Fprintf(table, "upstream deleted twice at its start\t\t%d\n", b.repeats)
	fmt.Fprintf(table, "%s, %.1f histories per second\t\t\n", time.Since(b.began).Round(time.Second), float64(b.played)/time.Since(b.began).Seconds())
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}

// check fails when the histories tested nothing: upstream must have met each of its quirks, and must have kept the rule.
func (b *book) check(t *testing.T, g *game) {
	t.Helper()
	if b.played < g.enough {
		return
	}
	met := none
	for set := range b.histories {
		met |= set
	}
	if met != g.all() {
		t.Errorf("no history shows %s", g.names(g.all()&^met))
	}
	if b.agreed == 0 {
		t.Error("both never agree")
	}
}
