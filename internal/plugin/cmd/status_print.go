// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"strings"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// print prints a report for people: the answer first, then the details.
func (o *statusOptions) print(report *cliv1alpha1.StatusReport) {
	p := &statusPage{report, &o.output}
	headline, bullet := headlines[report.Health], "- "
	if report.Health == cliv1alpha1.Healthy && len(report.Unknown) > 0 {
		headline = "Taintkeeper is running, and what could be read shows no problem."
	}
	if headline == "" { // the problem is that it does not run, or that this is not known
		bullet = ""
	} else {
		o.output.Line("%s", headline)
	}
	for _, problem := range report.Problems {
		o.output.Line("%s%s", bullet, problem)
	}
	for _, note := range report.Notes {
		o.output.Line("Note: %s", note)
	}
	o.output.Line("")
	p.line("Mode", p.mode())
	p.line("Version", p.known("version", p.Version))
	p.line("Leader", p.known("leader", p.leader()))
	p.line("Replicas", p.replicas())
	p.line("Pods", p.known("pods", p.pods()))
	p.line("Held", p.known("heldBy", p.held()))
	p.line("Eviction clock", p.known("evictionClock", p.clock()))
	p.line("Built-in", p.known("builtInBacklog", p.backlog()))
	p.line("Last error", p.known("lastError", p.lastError()))
}

var headlines = map[cliv1alpha1.Health]string{
	cliv1alpha1.Healthy:  "Taintkeeper is running, and nothing is wrong.",
	cliv1alpha1.Degraded: "Taintkeeper is running, but needs attention:",
}

// statusPage prints a report.
type statusPage struct {
	*cliv1alpha1.StatusReport
	*show.Printer
}

// line prints a subject and what is known about it, or nothing if the text is empty.
func (p *statusPage) line(subject, text string) {
	if text != "" {
		p.Line("%-15s %s", subject, text)
	}
}

// known returns the text about a field, or says why it is not known.
func (p *statusPage) known(field, text string) string {
	for _, unknown := range p.Unknown {
		if unknown.Field == field {
			return fmt.Sprintf("unknown (%s)", unknown.Reason)
		}
	}
	return text
}

func (p *statusPage) mode() string {
	if p.Mode == "" {
		return p.known("mode", "")
	}
	mode := map[cliv1alpha1.Mode]string{
		cliv1alpha1.ModeEnforce: "enforce", cliv1alpha1.ModeShadow: "shadow", cliv1alpha1.ModeDryRun: "dry run",
	}[p.Mode]
	if controllers := p.known("controllers", ""); controllers != "" {
		return fmt.Sprintf("%s; controllers %s", mode, controllers)
	}
	return fmt.Sprintf("%s (%s)", mode, strings.Join(p.Controllers, ", "))
}

func (p *statusPage) leader() string {
	if p.Leader == nil {
		return ""
	}
	name, _, _ := strings.Cut(p.Leader.Identity, "_")
	if !p.Leader.Since.IsZero() && !p.Leader.Since.After(p.At.Time) { // its clock may be ahead
		name += ", for " + sentence.Between(p.Leader.Since.Time, p.At.Time)
	}
	return fmt.Sprintf("%s (Lease %s)", name, p.Leader.Lease)
}

func (p *statusPage) replicas() string {
	if len(p.Replicas) == 0 {
		return ""
	}
	var names []string
	ready := 0
	for i := range p.Replicas {
		if p.Replicas[i].Ready {
			ready++
		} else {
			names = append(names, p.Replicas[i].Namespace+"/"+p.Replicas[i].Name)
		}
	}
	text := fmt.Sprintf("%d of %d ready", ready, len(p.Replicas))
	if len(names) > 0 {
		text += "; not ready: " + sentence.Enumerate(names)
	}
	return text
}

func (p *statusPage) pods() string { return show.PodsToGo(p.Pods, p.At.Time) }

func (p *statusPage) held() string {
	var all []string
	for _, objector := range p.HeldBy {
		all = append(all, fmt.Sprintf("%d by %s: %s", objector.Pods, objector.Policy, objector.Reason))
	}
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", p.Pods.Held, sentence.Enumerate(all))
}

func (p *statusPage) clock() string {
	clock := p.EvictionClock
	if clock == nil {
		return "none; without coexistence nothing keeps the built-in from evicting"
	}
	state := map[cliv1alpha1.ClockState]string{
		cliv1alpha1.ClockFresh:  "fresh, so the built-in does not evict",
		cliv1alpha1.ClockStale:  "stale, so the built-in may evict",
		cliv1alpha1.ClockNotSet: "not set, so the built-in may evict",
	}[clock.State]
	if clock.Renewed == nil {
		return state
	}
	return fmt.Sprintf("%s (renewed %s)", state, ago(clock.Renewed.Time, p.At.Time))
}

func (p *statusPage) backlog() string {
	backlog := p.BuiltInBacklog
	if backlog == nil {
		return "no backlog of evictions"
	}
	return fmt.Sprintf("backlog ends within %s; %s",
		sentence.Relative(p.At.Time, backlog.Until.Time), who.SparedBy(backlog))
}

func (p *statusPage) lastError() string {
	if p.LastError == nil {
		return "none in the events that the API server keeps"
	}
	return fmt.Sprintf("%s, %s: %s", ago(p.LastError.At.Time, p.At.Time), p.LastError.Object, p.LastError.Message)
}
