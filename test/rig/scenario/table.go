// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// Row is what a table says about a pod: what was promised to it, and what was seen of it so far.
type Row struct {
	*corev1.Pod
	Departure

	Was       time.Duration // when it was due before a change, or [Never]
	Tolerates string
}

// Rows are the pods in the order in which they are due. Times count from an instant. It may be called during the play,
// unless that has [Restart] or [WhileRefused].
func (p *Play) Rows(since time.Time) []Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows []Row
	for _, pod := range p.pods {
		rows = append(rows, p.row(pod, since))
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.settled(), b.settled()), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func (p *Play) row(pod *Pod, since time.Time) Row {
	promise, shift := p.promise(pod), p.Began(pod).Sub(since)
	r := Row{Pod: pod.Pod, Departure: p.byRule(pod), Was: Never, Tolerates: p.tolerates(pod)}
	r.After += shift
	r.Watched += shift
	switch due := promise.Due.From; {
	case r.Due != Never:
		r.Due += shift
	case due.After(time.Now()) && !due.Equal(oracle.Never):
		r.Due = due.Sub(since)
	}
	if n := len(promise.Cancelled); n > 0 {
		r.Was = promise.Cancelled[n-1].From.Sub(since)
	}
	return r
}

// settled is after how long nothing new can be learned about the pod.
func (r Row) settled() time.Duration {
	if r.Due == Never {
		return r.Was
	}
	return r.Due
}

// Stays reports whether the pod is not due, and is there.
func (r Row) Stays() bool { return r.Due == Never && !r.Left }

// tolerates says what a pod tolerates of the taints that its node has had.
func (p *Play) tolerates(pod *Pod) string {
	var all []string
	for _, toleration := range pod.states[len(pod.states)-1].Tolerations {
		matches := func(taint corev1.Taint) bool {
			return taint.Effect == corev1.TaintEffectNoExecute && rule.First([]corev1.Toleration{toleration}, taint) != nil
		}
		has := func(v oracle.Version) bool { return slices.ContainsFunc(v.Taints, matches) }
		if slices.ContainsFunc(p.nodes[pod.node], has) {
			all = append(all, describe(toleration))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

func describe(toleration corev1.Toleration) string {
	text := cmp.Or(toleration.Key, "everything")
	if seconds := toleration.TolerationSeconds; seconds != nil {
		text += fmt.Sprintf(" for %d s", *seconds)
	}
	return text
}

// Table writes a header and a line per row.
func Table(rows []Row) []string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "POD\tNODE\tTOLERATES\tDUE\tLEFT AT\tLATENESS")
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, "\n%s\t%s\t%s\t%s\t%s\t%s", r.Name, r.Spec.NodeName, r.Tolerates, r.due(), r.left(), r.lateness())
	}
	_ = table.Flush() // nothing is written but into memory
	return strings.Split(text.String(), "\n")
}

func (r Row) due() string {
	switch {
	case r.Due == Never && r.Was == Never:
		return "never"
	case r.Due == Never:
		return "was " + exactly(r.Was)
	case r.Was != Never:
		return exactly(r.Due) + ", was " + exactly(r.Was)
	}
	return exactly(r.Due)
}

func (r Row) left() string {
	switch {
	case r.Left:
		return exactly(r.After)
	case r.Stays():
		return "stays"
	case r.Watched < r.Due:
		return fmt.Sprintf("in %.1f s", (r.Due - r.Watched).Seconds())
	}
	return "now"
}

func (r Row) lateness() string {
	switch {
	case r.Left && r.Due == Never:
		return "must stay !"
	case r.Left && r.early() > 0:
		return "too early !"
	case r.Left && r.Right():
		return fmt.Sprintf("%d ms", r.late().Milliseconds())
	case r.Left:
		return fmt.Sprintf("%d ms !", r.late().Milliseconds())
	case r.Watched > r.Due && r.Watched-r.Due > r.Late:
		return "overdue !"
	}
	return "-"
}

// exactly writes a time to the millisecond, so that a column of them can be compared.
func exactly(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
