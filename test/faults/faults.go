// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// fault is a mistake of one line: in a file, a piece of code is another.
type fault struct {
	file, was, is string
}

const (
	verdictFile = "verdict/verdict.go"
	historyFile = "verdict/history.go"
	matchFile   = "taints/match.go"
	timersFile  = "internal/builtin/timers.go"
	holdFile    = "internal/builtin/hold.go"
	backlogFile = "internal/controller/backlog/backlog.go"
	waitingFile = "internal/controller/backlog/eviction.go"
	saysFile    = "internal/policy/says.go"
	engineFile  = "internal/policy/engine.go"
	budgetFile  = "internal/policy/allowance.go"
	planFile    = "internal/readiness/plan.go"
	zoneFile    = "internal/readiness/zone.go"
	zonesFile   = "internal/readiness/zones.go"
	recordsFile = "internal/controller/nodehealth/records.go"
	echoFile    = "internal/controller/nodehealth/echo.go"
	admission   = "config/coexistence.yaml"
)

// faults are in all packages that decide. A test that knows what they promise notices each.
var faults = []fault{
	{verdictFile, "return a.Leaves\n", "return b.Leaves\n"},
	{verdictFile, "start := later(taint.Since, pod.Bound)", "start := earlier(taint.Since, pod.Bound)"},
	{verdictFile, "return v.Leaves && !v.Due.After(now)", "return v.Leaves && v.Due.Before(now)"},
	{verdictFile, "reason.Leaves, reason.Due = false, time.Time{}", "reason.Due = time.Time{}"},
	{historyFile, "return known.Key == next.Key ||", "return known.Key != next.Key ||"},
	{matchFile, "return i, true", "return i, false"},

	{timersFile, "began, t.Tried, t.Fires = t.Fires, true, time.Time{}", "began, t.Fires = t.Fires, time.Time{}"},
	{timersFile, "t.Stays = !terminating && !t.Due", "t.Stays = terminating && !t.Due"},
	{holdFile, "case !d.Spared.Before(h.since()):", "case d.Spared.Before(h.since()):"},
	{holdFile, "if count == 0 {", "if count != 0 {"},
	{holdFile, "Since:  h.since().Truncate(time.Second)", "Since:  h.since().Add(time.Minute).Truncate(time.Second)"},
	{holdFile, "r.Spared == want.Spared &&", ""},
	{holdFile, "end := r.Until.Add(-slack)", "end := at.Add(-slack)"},
	{admission, "variables.times.exists(t, t > variables.renewed + duration('30s'))", "variables.times.exists(t, t > variables.renewed + duration('10s'))"},
	{admission, "timestamp(object.metadata.creationTimestamp) >= variables.since", "timestamp(object.metadata.creationTimestamp) < variables.since"},

	{backlogFile, "case retries < l.limits.Retries && !l.careful.empty():", "case retries > l.limits.Retries && !l.careful.empty():"},
	{backlogFile, "if l.pending.empty() || l.pending.first().from.After(now) {", "if l.pending.empty() || l.pending.first().from.Before(now) {"},
	{backlogFile, "if e.Lane == Ask && !l.Answer.Free() {", "if e.Lane == Ask && l.Answer.Free() {"},
	{backlogFile, "e.Tries, e.from, e.rested, e.Refuser = e.Tries+1, now, now, \"\"\n\t\tb.put(e, &e.group.retries)", "e.Tries, e.from, e.rested, e.Refuser = e.Tries+1, now, now, \"\""},
	{waitingFile, "return !l.Answer.Held && !l.from().After(now)", "return !l.Answer.Held && l.from().After(now)"},

	{saysFile, "case p.paused != nil:", "case p.paused == nil:"},
	{saysFile, "return p.answer(Ask, \"\", ends, pod.Budgets.Name)", "return Answer{}"},
	{engineFile, "if d.Stays() || asks != (d.Step == Ask) {", "if d.Stays() && asks != (d.Step == Ask) {"},
	{engineFile, "\tif !stays {\n", "\tif stays {\n"},
	{budgetFile, "case len(a.taken) < places:", "case len(a.taken) > places:"},

	{planFile, "\tcase f.Disrupted:\n", "\tcase !f.Disrupted:\n"},
	{zoneFile, "at.limiter.TokensAt(now) >= wholeToken &&", ""},
	{zonesFile, "next.standing = min(m.standing, is)", "next.standing = max(m.standing, is)"},
	{zonesFile, "z.zone(key).limiter.AllowN(seen.Start(at.Add(-time.Second)), 1)", "z.zone(key).limiter.AllowN(seen.Start(at.Add(-time.Minute)), 1)"},
	{recordsFile, "known.sign = known.sign.latest(again)", "_ = again"},
	{recordsFile, "case over <= readiness.ExtraGrace && r.clock.now < r.clock.extraUntil:", "case over <= readiness.ExtraGrace && r.clock.now > r.clock.extraUntil:"},
	{recordsFile, "if known.posted || known.lease != nil {", "if known.posted && known.lease == nil {"},
	{echoFile, "c.now += min(gap, readiness.CountedMost)", "c.now += gap"},
	{echoFile, "return min(c.now-s.on, c.echoed.Sub(s.at))", "return c.now - s.on"},
	{echoFile, "at.Sub(c.echoed) < readiness.CountedMost", "at.Sub(c.echoed) < time.Minute"},
}
