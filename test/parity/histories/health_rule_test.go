// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// What both models share: what the conditions of a node say, and what the nodes of a zone say. It is written down here
// again, apart from the code of either contestant.

var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure, corev1.NodeDiskPressure: corev1.TaintNodeDiskPressure,
	corev1.NodePIDPressure: corev1.TaintNodePIDPressure, corev1.NodeNetworkUnavailable: corev1.TaintNodeNetworkUnavailable,
}

// readinessTaint is the key of the taint for a readiness, empty for none.
func readinessTaint(ready corev1.ConditionStatus) string {
	switch ready {
	case corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return ""
}

// taintNoSchedule makes the NoSchedule taints of a node what its conditions say.
func (c *cluster) taintNoSchedule(name string) {
	node := c.nodes[name]
	if node == nil {
		return
	}
	want := map[string]bool{readinessTaint(readyStatus(node)): true, corev1.TaintNodeUnschedulable: node.Spec.Unschedulable}
	for kind, key := range pressures {
		known := condition(node, kind)
		want[key] = known != nil && known.Status == corev1.ConditionTrue
	}
	for _, key := range noScheduleKeys {
		if want[key] != hasTaint(c.nodes[name], key, corev1.TaintEffectNoSchedule) {
			c.setTaint(name, key, corev1.TaintEffectNoSchedule, want[key], 0) // when plays no part
		}
	}
}

// setNoExecute makes the wanted taint the only NoExecute taint for readiness on a node; with an empty key, it removes
// them all.
func (c *cluster) setNoExecute(name, wanted string, at time.Duration) {
	for _, key := range noExecuteKeys {
		if node := c.nodes[name]; node != nil && hasTaint(node, key, corev1.TaintEffectNoExecute) != (key == wanted) {
			c.setTaint(name, key, corev1.TaintEffectNoExecute, key == wanted, at)
		}
	}
}

// exchangeNoExecute gives a node that has one of the NoExecute taints for readiness the wanted one in its place, with
// the time since when it has had any.
func (c *cluster) exchangeNoExecute(name, wanted string, at time.Duration) {
	since, stays := undated, false
	if node := c.nodes[name]; node != nil {
		since = executedSince(node)
		stays = hasTaint(node, wanted, corev1.TaintEffectNoExecute) && !hasTaint(node, opposite(wanted), corev1.TaintEffectNoExecute)
	}
	if stays {
		return
	}
	c.setNoExecute(name, wanted, at)
	if since != undated {
		c.setTaint(name, wanted, corev1.TaintEffectNoExecute, true, since)
	}
}

func (c *cluster) setTaint(name, key string, effect corev1.TaintEffect, there bool, at time.Duration) {
	c.editNode(name, func(node *corev1.Node) {
		if there {
			node.Spec.Taints = withTaint(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: new(instant(at))})
			return
		}
		node.Spec.Taints = withoutTaint(node.Spec.Taints, key, effect)
	})
}

// setUnknown sets what only a kubelet knows to Unknown.
func (c *cluster) setUnknown(name string) {
	c.editNode(name, func(node *corev1.Node) {
		for _, kind := range kubeletConditions {
			heartbeat := node.CreationTimestamp
			if known := condition(node, kind); known != nil {
				heartbeat = known.LastHeartbeatTime
			}
			node.Status.Conditions = withCondition(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, LastHeartbeatTime: heartbeat,
			})
		}
	})
}

// graceOf is for how long a node may be silent.
func graceOf(node *corev1.Node) time.Duration {
	if condition(node, corev1.NodeReady) == nil {
		return grace.Startup
	}
	return grace.Monitor
}

func created(node *corev1.Node) time.Duration { return node.CreationTimestamp.Sub(epoch) }

func heartbeat(node *corev1.Node) metav1.Time {
	if c := condition(node, corev1.NodeReady); c != nil {
		return c.LastHeartbeatTime
	}
	return metav1.Time{}
}

func zoneOf(node *corev1.Node) string { return node.Labels[corev1.LabelTopologyZone] }

func counts(node *corev1.Node) bool {
	_, excluded := node.Labels["node.kubernetes.io/exclude-disruption"]
	return !excluded
}

// tally counts the nodes of a zone.
type tally struct{ size, notReady int }

// tallies counts the nodes of every zone that count.
func (c *cluster) tallies() map[string]tally {
	all := map[string]tally{}
	for _, node := range c.nodes {
		if !counts(node) {
			continue
		}
		zone := all[zoneOf(node)]
		zone.size++
		if readyStatus(node) != corev1.ConditionTrue {
			zone.notReady++
		}
		all[zoneOf(node)] = zone
	}
	return all
}

// state is what [TestTheStateAndTheRateOfAZoneAreUpstreams] compares with upstream's.
func (t tally) state() readiness.State { return policy.State(t.size, t.notReady) }

func (t tally) rate() float32 { return policy.RateOf(t.state(), t.size) }

// allFull reports whether every zone is fully disrupted.
func allFull(zones map[string]tally) bool {
	for _, zone := range zones {
		if zone.state() != readiness.FullDisruption {
			return false
		}
	}
	return len(zones) > 0
}

// tokens says how often a node of a zone may be tainted NoExecute.
type tokens struct {
	rate    float32 // 0: never
	limiter *rate.Limiter
}

func newTokens() tokens { return tokens{policy.Rate, rate.NewLimiter(rate.Limit(policy.Rate), 1)} }

// wholeToken is the amount at which a token has accrued: the limiter adds up fractions, and ten tenths are less than
// one.
const wholeToken = 1 - 1e-6

// take takes a token if there is one.
func (t *tokens) take(at time.Duration) bool {
	now := epoch.Add(at)
	if t.rate == 0 || t.limiter.TokensAt(now) < wholeToken {
		return false
	}
	t.limiter.ReserveN(now, 1)
	return true
}

// setRate changes the rate, and keeps what has accrued of a token; but a whole one that nobody took before a time
// without tokens is lost.
func (t *tokens) setRate(next float32, at time.Duration) {
	if t.rate == next {
		return
	}
	unused := t.rate == 0 && t.limiter.TokensAt(epoch.Add(at)) >= wholeToken
	t.rate = next
	t.limiter.SetLimitAt(epoch.Add(at), rate.Limit(next))
	if unused {
		t.take(at)
	}
}

// goOn makes the latest token the one that the taints of a zone show: it was taken before a restart.
func (t *tokens) goOn(c *cluster, zone string) {
	var latest time.Time
	for _, node := range c.nodes {
		for _, taint := range node.Spec.Taints {
			if zoneOf(node) == zone && taint.Effect == corev1.TaintEffectNoExecute && slices.Contains(noExecuteKeys, taint.Key) && taint.TimeAdded != nil && taint.TimeAdded.After(latest) {
				latest = taint.TimeAdded.Time
			}
		}
	}
	if !latest.IsZero() {
		t.limiter.AllowN(latest, 1)
	}
}

// healthRule predicts ours: whatever follows from what happens follows at once, and silence counts from the instant at which
// the last sign of life was seen. Ours notices it at its next echo. A NoExecute taint waits for a token of its zone.
//
// Where several nodes began to wait at the same instant it follows ours: who is first of them is a
// matter of luck.
type healthRule struct {
	process

	ours       outcome // what is followed
	heartbeats map[string]sign
	renewals   map[string]sign
	lanes      map[string]*lane
	allFull    bool
	acted      time.Duration // the latest act
}

// sign is a sign of life: when it was seen, and what it said.
type sign struct {
	seen time.Duration
	said metav1.Time
}

// lane is where the nodes of a zone wait for a token.
type lane struct {
	tokens

	line []waiter
}

type waiter struct {
	name  string
	since time.Duration
}

func predictOurs(h *history, ours outcome) outcome {
	r := &healthRule{process: newProcess(none), ours: ours}
	r.cluster.nodeChanged = func(before, after *corev1.Node) {
		r.seen.note(cmp.Or(after, before).Name, after, r.now)
		if after == nil {
			delete(r.heartbeats, before.Name)
			return
		}
		r.seeNode(after)
	}
	r.cluster.leaseChanged = func(before, after *coordinationv1.Lease) {
		if after == nil {
			delete(r.renewals, before.Name)
			return
		}
		r.seeLease(after)
	}
	return simulate(h, r)
}

func (r *healthRule) start() {
	r.heartbeats, r.renewals = map[string]sign{}, map[string]sign{}
	r.lanes, r.allFull, r.acted = map[string]*lane{}, false, never
	for _, node := range r.cluster.nodes {
		r.seeNode(node)
	}
	for _, lease := range r.cluster.leases {
		r.seeLease(lease)
	}
	r.evaluate()
	for key, lane := range r.lanes {
		lane.goOn(r.cluster, key)
	}
}

func (r *healthRule) seeNode(node *corev1.Node) {
	if !r.running {
		return
	}
	known, seen := r.heartbeats[node.Name]
	next := sign{r.now, heartbeat(node)}
	if seen && next.said.Equal(&known.said) {
		return
	}
	if !seen && next.said.IsZero() {
		next.seen = min(created(node)+sec, r.now) // the API tells the second in which it was created
	}
	r.heartbeats[node.Name] = next
}

func (r *healthRule) seeLease(lease *coordinationv1.Lease) {
	if !r.running {
		return
	}
	said := metav1.NewTime(lease.Spec.RenewTime.Time)
	if known, seen := r.renewals[lease.Name]; !seen || !known.said.Equal(&said) {
		r.renewals[lease.Name] = sign{r.now, said}
	}
}

// echoEach is how long it takes from one echo to the next, and extraGrace what a node is given by a process that begins.
const (
	echoEach   = sec
	extraGrace = 20 * sec
)

// silentAt is the echo after the grace period of a node; never if it is Unknown already.
func (r *healthRule) silentAt(node *corev1.Node) time.Duration {
	if readyStatus(node) == corev1.ConditionUnknown {
		return never
	}
	over := max(r.heartbeats[node.Name].seen, r.renewals[node.Name].seen) + graceOf(node) - r.began
	over = max(over, min(over+extraGrace, extraGrace-1))
	return r.began + over - mod(over, echoEach) + echoEach
}

func mod(a, b time.Duration) time.Duration { return (a%b + b) % b }

// next is now if something has happened since the latest act.
func (r *healthRule) next() time.Duration {
	if r.acted != r.now {
		return r.now
	}
	next := never
	for _, node := range r.cluster.nodes {
		if at := r.silentAt(node); at != never {
			next = min(next, at+1)
		}
	}
	for _, lane := range r.lanes {
		if len(lane.line) > 0 && lane.rate > 0 {
			missing := max(wholeToken-lane.limiter.TokensAt(epoch.Add(r.now)), 0)
			next = min(next, r.now+time.Duration(missing/float64(lane.rate)*float64(sec))+ms) // ours comes back a millisecond late
		}
	}
	return max(next, r.now+1)
}

// act applies everything that is due now.
func (r *healthRule) act() {
	r.acted = r.now
	for name, node := range r.cluster.nodes {
		if r.now > r.silentAt(node) {
			r.cluster.setUnknown(name)
		}
	}
	r.evaluate()
	for _, name := range r.cluster.nodeNames() {
		r.cluster.taintNoSchedule(name)
		r.taintNoExecute(name)
	}
	for _, lane := range r.lanes {
		r.grant(lane)
	}
}

func (r *healthRule) evaluate() {
	zones := r.cluster.tallies()
	was := r.allFull
	r.allFull = allFull(zones)
	for _, node := range r.cluster.nodes {
		r.lane(zoneOf(node))
	}
	for key, lane := range r.lanes {
		zone := zones[key]
		rate := zone.rate()
		if r.allFull {
			rate = 0
		}
		lane.setRate(rate, r.now)
		lane.line = slices.DeleteFunc(lane.line, func(w waiter) bool { return r.cluster.nodes[w.name] == nil })
	}
	if was && !r.allFull {
		for name, known := range r.heartbeats {
			if _, renewed := r.renewals[name]; renewed || !known.said.IsZero() {
				r.heartbeats[name] = sign{r.now, known.said}
			}
		}
	}
}

func (r *healthRule) lane(zone string) *lane {
	if r.lanes[zone] == nil {
		r.lanes[zone] = &lane{tokens: newTokens()}
	}
	return r.lanes[zone]
}

func (r *healthRule) taintNoExecute(name string) {
	node := r.cluster.nodes[name]
	lane, key := r.lane(zoneOf(node)), readinessTaint(readyStatus(node))
	has := owned(node, corev1.TaintEffectNoExecute, noExecuteKeys) != ""
	switch {
	case readyStatus(node) == "":
	case key == "":
		r.cluster.setNoExecute(name, "", r.now)
		lane.leave(name)
	case r.allFull:
		r.cluster.setNoExecute(name, "", r.now)
		lane.join(name, r.now)
	case has:
		r.cluster.exchangeNoExecute(name, key, r.now)
		lane.leave(name)
	default:
		lane.join(name, r.now)
	}
}

func (r *healthRule) grant(lane *lane) {
	for len(lane.line) > 0 && lane.take(r.now) {
		name := lane.line[0].name
		for _, waiter := range lane.line {
			if waiter.since == lane.line[0].since && r.ours.taintedAt(waiter.name, r.now) {
				name = waiter.name
				break
			}
		}
		lane.leave(name)
		r.cluster.setNoExecute(name, readinessTaint(readyStatus(r.cluster.nodes[name])), r.written(name))
	}
}

// written returns the timeAdded of a taint that is set now: the latest second that the API server's clock can show.
// Only ours knows whether that is already the next second.
func (r *healthRule) written(name string) time.Duration {
	for _, l := range r.ours[name] {
		if (l.at-r.now).Abs() <= exactly && l.since == r.now.Truncate(sec)+sec {
			return l.since
		}
	}
	return r.now
}

func (l *lane) join(name string, at time.Duration) {
	if !slices.ContainsFunc(l.line, func(w waiter) bool { return w.name == name }) {
		l.line = append(l.line, waiter{name, at})
	}
}

func (l *lane) leave(name string) {
	l.line = slices.DeleteFunc(l.line, func(w waiter) bool { return w.name == name })
}
