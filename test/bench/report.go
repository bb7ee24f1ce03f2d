// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what is written as JSON. Times are in nanoseconds, sizes in bytes.
type report struct {
	Time     time.Time         `json:"time"`
	Machine  string            `json:"machine"`
	CPUs     int               `json:"cpus"`
	Load     map[string]string `json:"load"`     // the machine's when a part began
	PodBytes int               `json:"podBytes"` // as protobuf
	// Sizes in the parts with many pods.
	ScalePodBytes  int                           `json:"scalePodBytes,omitempty"`
	ScaleNodeBytes int                           `json:"scaleNodeBytes,omitempty"`
	SlimPodBytes   int                           `json:"slimPodBytes,omitempty"`
	Storms         storms                        `json:"storms,omitempty"`
	Lateness       map[string]latenessResult     `json:"lateness,omitempty"`
	Heartbeats     map[string]heartbeatResult    `json:"heartbeats,omitempty"`
	Starts         starts                        `json:"starts,omitempty"`
	Changes        map[string][]changesResult    `json:"changes,omitempty"`
	Million        map[string][]millionResult    `json:"million,omitempty"`
	Policies       map[string][]policiesResult   `json:"policies,omitempty"`
	Terms          map[string]map[string][]terms `json:"terms,omitempty"` // by contestant and size
	Goals          []goal                        `json:"targets"`
}

// starts has the rounds by part, rest or scale, and contestant.
type starts map[string]map[string][]scaleResult

// storms has the rounds by storm and contestant. The n-th rounds of all contestants follow each other.
type storms map[string]map[string][]stormRound

func (r *report) addStorm(storm, contestant string, round stormRound) {
	if r.Storms[storm] == nil {
		r.Storms[storm] = map[string][]stormRound{}
	}
	r.Storms[storm][contestant] = append(r.Storms[storm][contestant], round)
}

// goal is a target and what was reached.
type goal struct {
	What     string  `json:"what"`
	Target   float64 `json:"target"`
	Measured float64 `json:"measured"`
	AtLeast  bool    `json:"atLeast"` // if true, the measured figure must be at least the target; otherwise at most
}

func (g goal) reached() string {
	if g.Measured == g.Target || (g.Measured > g.Target) == g.AtLeast {
		return "reached"
	}
	return "missed"
}

func (g goal) sense() string {
	if g.AtLeast {
		return "at least"
	}
	return "at most"
}

func newReport() report {
	return report{
		Time: time.Now().UTC().Truncate(time.Second), Machine: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Load: map[string]string{}, Storms: storms{}, Lateness: map[string]latenessResult{}, Starts: starts{},
		Changes: map[string][]changesResult{}, Million: map[string][]millionResult{},
		Heartbeats: map[string]heartbeatResult{}, Policies: map[string][]policiesResult{},
		Terms: map[string]map[string][]terms{},
	}
}

// setGoals compares what was measured with the targets.
func (r *report) setGoals() {
	r.Goals = nil
	for _, storm := range []string{stormFresh, stormWarm} {
		rounds := r.Storms[storm]
		ours, unlimited := medianRound(rounds[nameOurs]), medianRound(rounds[nameUnlimited])
		r.atMost("storm "+storm+", total as a multiple of the floor's", 1.1, median(ratios(rounds[nameOurs], rounds[nameFloor], stormRound.total)))
		r.atLeast("storm "+storm+", speed of the first delete as a multiple of the unlimited built-in's", 20, ratio(unlimited.First, ours.First))
		r.atMost("storm "+storm+", calls per pod, events aside", 2.1, ours.callsPerPod())
		r.atMost("storm "+storm+", CPU time as a multiple of the previous build's", 0.5, ratio(ours.CPU, medianRound(rounds[namePrevious]).CPU))
	}
	r.atMost("storm "+stormSlow+", total, s", 60, medianRound(r.Storms[stormSlow][nameOurs]).Total.Seconds())
	r.atMost("lateness p99, ms", 100, float64(r.Lateness[nameOurs].P99)/float64(time.Millisecond))
	peak := medianOf(r.Starts[partRest][nameOurs], func(s scaleResult) int64 { return s.Memory.Peak })
	r.atMost(fmt.Sprintf("%d pods at rest, peak memory, MiB", restPods), 90, float64(peak)/(1<<20))
	ours, previous := r.Changes[nameOurs], r.Changes[namePrevious]
	r.atMost(fmt.Sprintf("%d changes a second, CPU time as a multiple of the previous build's", changesPerSecond), 1,
		median(ratios(ours, previous, changesResult.perChange)))
}

func (r *report) atMost(what string, target, measured float64) {
	if measured > 0 { // else it was not measured
		r.Goals = append(r.Goals, goal{What: what, Target: target, Measured: measured})
	}
}

func (r *report) atLeast(what string, target, measured float64) {
	if measured > 0 {
		r.Goals = append(r.Goals, goal{What: what, Target: target, Measured: measured, AtLeast: true})
	}
}

// ratio is zero when one of the two was not measured.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// ratios compares a figure of each round with that of another contestant in the same round.
func ratios[T any](rounds, others []T, figure func(T) time.Duration) []float64 {
	var all []float64
	for i := range min(len(rounds), len(others)) {
		all = append(all, ratio(figure(rounds[i]), figure(others[i])))
	}
	return all
}

// medianRound has the median of each figure over the rounds of a contestant.
func medianRound(rounds []stormRound) stormRound {
	m := stormRound{
		Total:     medianOf(rounds, func(r stormRound) time.Duration { return r.Total }),
		First:     medianOf(rounds, func(r stormRound) time.Duration { return r.First }),
		Median:    medianOf(rounds, func(r stormRound) time.Duration { return r.Median }),
		P99:       medianOf(rounds, func(r stormRound) time.Duration { return r.P99 }),
		CPU:       medianOf(rounds, func(r stormRound) time.Duration { return r.CPU }),
		ServerCPU: medianOf(rounds, func(r stormRound) time.Duration { return r.ServerCPU }),
		Memory:    memory{Peak: medianOf(rounds, func(r stormRound) int64 { return r.Memory.Peak })},
		Calls:     map[string]int{},
	}
	for _, round := range rounds {
		for what := range round.Calls {
			m.Calls[what] = medianOf(rounds, func(r stormRound) int { return r.Calls[what] })
		}
	}
	return m
}

func medianOf[R any, T cmp.Ordered](rounds []R, figure func(R) T) T {
	var all []T
	for _, round := range rounds {
		all = append(all, figure(round))
	}
	return median(all)
}

// table prints a row per figure and a column per contestant.
type table struct {
	*tabwriter.Writer
	names []string
}

func newTable(out io.Writer, title string, measured []string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight), nil}
	for _, name := range allContestants {
		if slices.Contains(measured, name) {
			t.names = append(t.names, name)
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s\n", title)
	t.row("", func(name string) string { return name })
	return t
}

func (t table) row(figure string, value func(name string) string) {
	cells := []string{fmt.Sprintf("%-22s", figure)}
	for _, name := range t.names {
		cells = append(cells, value(name))
	}
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
}

func (t table) end() { _ = t.Flush() }

func (r *report) printStorm(out io.Writer, storm string) {
	all := r.Storms[storm]
	t := newTable(out, "storm "+storm+" (medians)", slices.Collect(maps.Keys(all)))
	rounds := map[string]stormRound{}
	for _, name := range t.names {
		rounds[name] = medianRound(all[name])
	}
	t.row("total", func(name string) string { return seconds(rounds[name].Total) })
	t.row("  each round, s", func(name string) string {
		return each(all[name], func(r stormRound) string { return fmt.Sprintf("%.2f", r.Total.Seconds()) })
	})
	t.row("  x floor", func(name string) string { return times(median(ratios(all[name], all[nameFloor], stormRound.total))) })
	t.row("    each round", func(name string) string { return each(ratios(all[name], all[nameFloor], stormRound.total), times) })
	t.row("first delete", func(name string) string { return milliseconds(rounds[name].First) })
	t.row("median delete", func(name string) string { return milliseconds(rounds[name].Median) })
	t.row("p99 delete", func(name string) string { return milliseconds(rounds[name].P99) })
	t.row("calls per pod", func(name string) string { return fmt.Sprintf("%.2f", rounds[name].callsPerPod()) })
	for _, what := range []string{
		"get pods", "patch pods/status", "delete pods", "get nodes", "patch nodes", "create events", "patch events",
	} {
		t.row("  "+what, func(name string) string { return strconv.Itoa(rounds[name].Calls[what]) })
	}
	t.row("peak memory", func(name string) string { return mebibytes(rounds[name].Memory.Peak) })
	t.row("CPU time", func(name string) string { return seconds(rounds[name].CPU) })
	t.row("  of the API server", func(name string) string { return seconds(rounds[name].ServerCPU) })
	// On a shared machine, this says more than elapsed time.
	t.row("  of both, x floor", func(name string) string { return times(median(ratios(all[name], all[nameFloor], stormRound.work))) })
	t.row("rounds", func(name string) string { return strconv.Itoa(len(all[name])) })
	t.end()
}

// each prints the figures of all rounds.
func each[T any](rounds []T, figure func(T) string) string {
	var all []string
	for _, round := range rounds {
		all = append(all, figure(round))
	}
	return strings.Join(all, ", ")
}

func (r *report) printLateness(out io.Writer) {
	t := newTable(out, "lateness", slices.Collect(maps.Keys(r.Lateness)))
	t.row("p50", func(name string) string { return milliseconds(r.Lateness[name].P50) })
	t.row("p99", func(name string) string { return milliseconds(r.Lateness[name].P99) })
	t.row("p99.9", func(name string) string { return milliseconds(r.Lateness[name].P999) })
	t.row("max", func(name string) string { return milliseconds(r.Lateness[name].Max) })
	t.row("too early", func(name string) string { return strconv.Itoa(r.Lateness[name].Early) })
	t.row("CPU time", func(name string) string { return seconds(r.Lateness[name].CPU) })
	t.end()
}

func (r *report) addTerms(contestant, size string, measured terms) {
	if r.Terms[contestant] == nil {
		r.Terms[contestant] = map[string][]terms{}
	}
	r.Terms[contestant][size] = append(r.Terms[contestant][size], measured)
}

func (r *report) printTerms(out io.Writer) {
	t := newTable(out, "SIGTERM in the containers of a real node (medians, and the shortest and the longest)", slices.Collect(maps.Keys(r.Terms)))
	for _, size := range termSizes {
		row := func(which string, figure func(terms) time.Duration) {
			t.row(size.name+which, func(name string) string {
				var all []time.Duration
				for _, measured := range r.Terms[name][size.name] {
					all = append(all, figure(measured))
				}
				return fmt.Sprintf("%s (%s to %s)", milliseconds(median(all)), milliseconds(quantile(all, 0)), milliseconds(quantile(all, 1)))
			})
		}
		if size.pods == 1 {
			row("", func(measured terms) time.Duration { return measured.First })
			continue
		}
		row(", first", func(measured terms) time.Duration { return measured.First })
		row(", last", func(measured terms) time.Duration { return measured.Last })
	}
	t.end()
}

func (r *report) printHeartbeats(out io.Writer, nodes int) {
	t := newTable(out, fmt.Sprintf("a minute of heartbeats of %d nodes", nodes), slices.Collect(maps.Keys(r.Heartbeats)))
	t.row("CPU time", func(name string) string { return seconds(r.Heartbeats[name].CPU) })
	t.row("  x taintkeeper", func(name string) string { return times(ratio(r.Heartbeats[name].CPU, r.Heartbeats[nameOurs].CPU)) })
	t.row("  of the API server", func(name string) string { return seconds(r.Heartbeats[name].ServerCPU) })
	t.row("memory", func(name string) string { return mebibytes(r.Heartbeats[name].Memory.Resident) })
	t.row("peak memory", func(name string) string { return mebibytes(r.Heartbeats[name].Memory.Peak) })
	t.end()
}

func (r *report) printStarts(out io.Writer, part string, pods, nodes int) {
	title := fmt.Sprintf("%s, %d pods of %d bytes on %d nodes of %d bytes (each round)",
		part, pods, r.ScalePodBytes, nodes, r.ScaleNodeBytes)
	rounds := r.Starts[part]
	t := newTable(out, title, slices.Collect(maps.Keys(rounds)))
	printStart(t, func(name string) []scaleResult { return rounds[name] })
	t.end()
}

func printStart(t table, rounds func(name string) []scaleResult) {
	row := func(what string, figure func(scaleResult) string) {
		t.row(what, func(name string) string { return each(rounds(name), figure) })
	}
	row("start to first delete", func(s scaleResult) string { return seconds(s.Startup) })
	row("CPU time until then", func(s scaleResult) string { return seconds(s.CPU) })
	row("  of the API server", func(s scaleResult) string { return seconds(s.ServerCPU) })
	row("peak memory", func(s scaleResult) string { return mebibytes(s.Memory.Peak) })
	row("memory settled", func(s scaleResult) string { return mebibytes(s.Memory.Resident) })
}

func (r *report) printChanges(out io.Writer) {
	title := fmt.Sprintf("a minute of %d changes a second to %d pods of %d bytes (each round)",
		changesPerSecond, changedPods, r.SlimPodBytes)
	t := newTable(out, title, slices.Collect(maps.Keys(r.Changes)))
	row := func(what string, figure func(changesResult) string) {
		t.row(what, func(name string) string { return each(r.Changes[name], figure) })
	}
	row("changes a second", func(c changesResult) string { return strconv.Itoa(c.Changes / int(changesFor.Seconds())) })
	row("CPU time", func(c changesResult) string { return seconds(c.CPU) })
	row("  for each change", func(c changesResult) string { return fmt.Sprintf("%.1f µs", c.perChange().Seconds()*1e6) })
	t.row("  x taintkeeper", func(name string) string {
		return times(median(ratios(r.Changes[name], r.Changes[nameOurs], changesResult.perChange)))
	})
	row("  of the API server", func(c changesResult) string { return seconds(c.ServerCPU) })
	row("peak memory", func(c changesResult) string { return mebibytes(c.Memory.Peak) })
	t.end()
}

func (r *report) printMillion(out io.Writer, pods int) {
	title := fmt.Sprintf("%d pods of %d bytes on %d nodes of %d bytes (each round)",
		pods, r.SlimPodBytes, millionNodes, r.ScaleNodeBytes)
	t := newTable(out, title, slices.Collect(maps.Keys(r.Million)))
	printStart(t, func(name string) (all []scaleResult) {
		for _, round := range r.Million[name] {
			all = append(all, round.Start)
		}
		return all
	})
	row := func(what string, figure func(stormRound) string) {
		t.row(what, func(name string) string {
			return each(r.Million[name], func(m millionResult) string { return figure(m.Storm) })
		})
	}
	row("storm, total", func(s stormRound) string { return seconds(s.Total) })
	row("  first delete", func(s stormRound) string { return milliseconds(s.First) })
	row("  CPU time", func(s stormRound) string { return seconds(s.CPU) })
	row("  of the API server", func(s stormRound) string { return seconds(s.ServerCPU) })
	row("  peak memory", func(s stormRound) string { return mebibytes(s.Memory.Peak) })
	t.row("three policies: take effect after", r.selecting(func(m millionResult) string { return seconds(m.Selecting.Effect) }))
	t.row("  CPU time until then", r.selecting(func(m millionResult) string { return seconds(m.Selecting.CPU) }))
	t.end()
}

// selecting returns a function that prints a figure about EvictionPolicies, which only Taintkeeper has.
func (r *report) selecting(figure func(millionResult) string) func(name string) string {
	return func(name string) string {
		if name != nameOurs {
			return ""
		}
		return each(r.Million[name], figure)
	}
}

func (r *report) printGoals(out io.Writer) {
	if len(r.Goals) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out, "\ntargets")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range r.Goals {
		_, _ = fmt.Fprintf(w, "  %s\t%s %g\t%.2f\t%s\n", g.What, g.sense(), g.Target, g.Measured, g.reached())
	}
	_ = w.Flush()
}

// write writes the report as JSON.
func (r *report) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

func seconds(d time.Duration) string      { return fmt.Sprintf("%.2f s", d.Seconds()) }
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
func mebibytes(size int64) string         { return fmt.Sprintf("%.0f MiB", float64(size)/(1<<20)) }

func times(ratio float64) string {
	if ratio == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", ratio)
}
