// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// ExtraGrace is the time that a kubelet needs to be heard again after an outage: two of its renewal periods.
const ExtraGrace = 20 * time.Second

// CountedMost is the most that counts as silence of a time in which no node could be heard.
const CountedMost = 5 * time.Second

// Play plays what happens to nodes that fall silent and come back. Facts.Plan decides about each node and Zones about
// each token, as in node health. Its clock jumps from one event to the next. If several nodes could have the same
// token, the first by name gets it. It never modifies a node that it was given. It is not safe for concurrent use.
type Play struct {
	grace Grace
	zones *Zones
	nodes map[string]*played
	falls map[time.Time][]string // the instants at which nodes fall silent, unless they come back
	looks map[time.Time][]string // when the plans of nodes can change

	wentDown, down time.Time // the latest outage of the API server
	extraUntil     time.Time // until when nodes have [ExtraGrace] in addition to their grace
}

// played is a node in a play.
type played struct {
	node   *corev1.Node // as it is now
	posted *corev1.Node // as its kubelet last posted its conditions
	member Member
	is     Standing
	ends   time.Time // its grace period, if nothing happens; zero while it is heard
	falls  time.Time // when it is silent; zero while it is heard
	held   bool      // its zone keeps it from being tainted
}

// Changed is what happened to a node at an instant.
type Changed struct {
	// Node is the node from now on.
	Node *corev1.Node
	// Conditions are those that became Unknown now; empty if none did.
	Conditions []corev1.NodeCondition
	// Retainted is set if its taints changed.
	Retainted bool
}

// NewPlay returns a play of nodes that are all heard at an instant. The first call of [Play.Run] should be for that
// instant.
func NewPlay(nodes []*corev1.Node, grace Grace, policy Policy, at time.Time) *Play {
	p := &Play{
		grace: grace, zones: NewZones(policy), nodes: map[string]*played{},
		falls: map[time.Time][]string{}, looks: map[time.Time][]string{},
	}
	at = asKey(at)
	for _, node := range nodes {
		is := &played{node: node, posted: node, member: Member{Name: node.Name}}
		p.nodes[node.Name] = is
		p.zones.Put(&is.member, node, Heard, at)
	}
	p.zones.Begin(nodes, p.standings, verdict.SeenAt(at).Sight)
	p.looks[at] = slices.Collect(maps.Keys(p.nodes))
	return p
}

// asKey returns a time that can be a key.
func asKey(at time.Time) time.Time { return at.Round(0).UTC() }

// Fall makes a node give no more signs of life. It gave the last one at the given instant, or now if that is zero or
// later. A node that is unknown or already silent stays as it is.
func (p *Play) Fall(name string, sign, now time.Time) {
	is := p.nodes[name]
	if is == nil || !is.falls.IsZero() {
		return
	}
	last := now // when it could last be heard
	if now.Before(p.down) {
		last = p.wentDown
	}
	switch {
	case sign.IsZero():
		sign = FirstSign(is.node, verdict.SeenAt(last).Sight)
	case sign.After(last):
		sign = last
	}
	is.ends = sign.Add(p.grace.Of(Condition(is.node, corev1.NodeReady) != nil))
	if now.Before(p.down) {
		is.ends = is.ends.Add(uncounted(p.down.Sub(p.wentDown)))
	}
	p.await(is, now)
}

// await makes a node silent when its grace period is over. After an outage, until extraUntil, it must also have had the
// extra grace.
func (p *Play) await(is *played, now time.Time) {
	is.falls = is.ends
	if is.falls.Before(p.extraUntil) {
		is.falls = instant.Earlier(p.extraUntil, is.ends.Add(ExtraGrace))
	}
	is.falls = p.after(instant.Later(is.falls, now))
	p.falls[is.falls] = append(p.falls[is.falls], is.node.Name)
}

// uncounted is how much of an outage does not count as silence.
func uncounted(outage time.Duration) time.Duration { return max(outage-CountedMost, 0) }

// Back makes a node heard again from now on, with the conditions that its kubelet last posted. If these are unknown
// because it was silent before the play began, they are good.
func (p *Play) Back(name string, now time.Time) {
	is := p.nodes[name]
	if is == nil || is.falls.IsZero() && !IsUnknown(is.node) {
		return
	}
	p.falls[is.falls] = slices.DeleteFunc(p.falls[is.falls], func(other string) bool { return other == name })
	is.falls, is.ends, is.is = time.Time{}, time.Time{}, Heard
	conditions := slices.Clone(is.posted.Status.Conditions)
	for i := range conditions {
		if c := &conditions[i]; c.Status == corev1.ConditionUnknown {
			if c.Status = corev1.ConditionFalse; c.Type == corev1.NodeReady {
				c.Status = corev1.ConditionTrue
			}
		}
	}
	is.node = WithConditions(is.node, conditions)
	p.look(now, append(p.woken(p.zones.Put(&is.member, is.node, Heard, now)), name)...)
}

// Retaint gives a node the taints that another client set.
func (p *Play) Retaint(name string, taints []corev1.Taint, now time.Time) {
	is := p.nodes[name]
	is.retaint(taints)
	p.look(now, name)
}

// Outage takes the API server down from now until an instant, or extends an outage. Nothing is written meanwhile, and
// at most CountedMost of it counts as silence. After a longer outage, every node has [ExtraGrace] to be heard.
func (p *Play) Outage(now, until time.Time) {
	before := uncounted(p.down.Sub(p.wentDown))
	if now.After(p.down) {
		p.wentDown, before = asKey(now), 0
	}
	p.down = asKey(until)
	long := uncounted(p.down.Sub(p.wentDown))
	if long > 0 {
		p.extraUntil = p.down.Add(ExtraGrace)
	}
	pending := p.falls
	p.falls = map[time.Time][]string{}
	for _, names := range pending {
		for _, name := range names {
			is := p.nodes[name]
			is.ends = is.ends.Add(long - before)
			p.await(is, now)
		}
	}
	looks := p.looks
	p.looks = map[time.Time][]string{}
	for at, names := range looks {
		p.look(at, names...)
	}
}

// after returns an instant, or the end of an outage that it is in.
func (p *Play) after(at time.Time) time.Time {
	if at = asKey(at); at.Before(p.down) {
		return p.down
	}
	return at
}

// look notes that the plans of some nodes can change at an instant.
func (p *Play) look(at time.Time, names ...string) {
	at = p.after(at)
	p.looks[at] = append(p.looks[at], names...)
}

// Next returns the next instant at which something happens; zero if nothing does.
func (p *Play) Next() (next time.Time) {
	for _, instants := range []map[time.Time][]string{p.falls, p.looks} {
		for at, names := range instants {
			if len(names) > 0 && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}

// Run plays one instant, which [Play.Next] has returned or which is before that, and returns which nodes changed.
func (p *Play) Run(now time.Time) (changed []Changed) {
	now = asKey(now)
	names, fallen := p.looks[now], p.falls[now]
	for _, name := range fallen {
		p.nodes[name].is = Silent
	}
	if len(fallen) > 0 { // all of them, before the first is planned
		names = append(names, p.woken(p.zones.Count(p.standings, now))...)
	}
	delete(p.falls, now)
	delete(p.looks, now)
	for slices.Sort(names); len(names) > 0; {
		change, wake := p.change(p.nodes[names[0]], now)
		if change.Retainted || len(change.Conditions) > 0 {
			changed = append(changed, change)
		}
		slices.Sort(wake)
		names = append(names[1:], wake...)
	}
	return changed
}

// change changes a node as its plan says, and returns the nodes whose plans can change because of that.
func (p *Play) change(is *played, now time.Time) (change Changed, wake []string) {
	plan, answer := p.plan(is, now)
	if len(plan.Conditions) > 0 {
		change.Conditions = plan.Conditions
		is.node = WithConditions(is.node, plan.Conditions)
		wake = p.woken(p.zones.Put(&is.member, is.node, Silent, now))
		plan, answer = p.plan(is, now)
	}
	is.held = answer.Held != nil
	if answer.Wait > 0 {
		p.look(now.Add(answer.Wait), is.node.Name)
	}
	if change.Retainted = plan.Retaints; plan.Retaints {
		is.retaint(plan.Taints)
	}
	change.Node = is.node
	return change, append(wake, answer.Next...)
}

func (is *played) retaint(taints []corev1.Taint) {
	is.node = is.node.DeepCopy()
	is.node.Spec.Taints = taints
}

func (p *Play) plan(is *played, now time.Time) (Plan, Answer) {
	return p.zones.Plan(&is.member, Facts{Node: is.node, Standing: is.is, Fresh: true, Now: now}, now)
}

// standings returns the standing of every node.
func (p *Play) standings(yield func(*Member, Standing) bool) {
	for _, is := range p.nodes {
		if !yield(&is.member, is.is) {
			return
		}
	}
}

// woken returns the nodes whose plans can change after news.
func (p *Play) woken(told News) []string {
	if told.All {
		return slices.AppendSeq(told.Wake, maps.Keys(p.nodes))
	}
	return told.Wake
}

// Node returns a node as it is now.
func (p *Play) Node(name string) *corev1.Node { return p.nodes[name].node }

// Held returns why a node waits for a NoExecute taint now; nil if it does not.
func (p *Play) Held(name string) *Held {
	is := p.nodes[name]
	if !is.held {
		return nil
	}
	return new(p.zones.held(&is.member))
}
