// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// State is how far a zone is disrupted. The values are upstream's.
type State string

// The states of a zone.
const (
	Normal            State = "Normal"
	PartialDisruption State = "PartialDisruption"
	FullDisruption    State = "FullDisruption"
)

// Policy is how many nodes may be tainted NoExecute per second, depending on the state of their zone. Rates are in
// nodes per second and zone; zero means none.
type Policy struct {
	// Rate is for zones in the state Normal (--node-eviction-rate).
	Rate float32
	// SecondaryRate is for large zones in PartialDisruption (--secondary-node-eviction-rate); small ones have none.
	SecondaryRate float32
	// FullDisruptionRate is for zones in FullDisruption while another zone is not
	// (--zone-full-disruption-eviction-rate; kubernetes/kubernetes#131182).
	FullDisruptionRate float32
	// LargeZone is the number of nodes above which a zone is large (--large-cluster-size-threshold).
	LargeZone int
	// UnhealthyShare is the share of nodes that are not ready at which a zone is in PartialDisruption
	// (--unhealthy-zone-threshold).
	UnhealthyShare float32
}

// State returns the state of a zone, given how many nodes it has and how many of them are not ready. Two nodes that are
// not ready are never a disruption, unless they are the whole zone.
func (p Policy) State(size, notReady int) State {
	switch {
	case notReady > 0 && notReady == size:
		return FullDisruption
	case notReady > 2 && float32(notReady)/float32(size) >= p.UnhealthyShare:
		return PartialDisruption
	}
	return Normal
}

// RateOf returns how many nodes of a zone may be tainted per second.
func (p Policy) RateOf(state State, size int) float32 {
	switch state {
	case FullDisruption:
		return p.FullDisruptionRate
	case PartialDisruption:
		if size > p.LargeZone {
			return p.SecondaryRate
		}
		return 0
	}
	return p.Rate
}

// zone is a zone that has been seen at least once. It stays known when its nodes are gone.
type zone struct {
	key            string
	size, notReady int // nodes that count
	unsure         int // of the nodes that are not ready, those that are only doubtful
	state          State
	rate           float32
	limiter        *rate.Limiter
	line           []*Member // the nodes that wait for a token; the first one is next
	tainted        int       // how many tokens were used
}

func (at *zone) status() Status {
	return Status{
		Key: at.key, Name: ZoneName(at.key), State: at.state, Size: at.size, NotReady: at.notReady,
		Rate: at.rate, Tainted: at.tainted, Held: len(at.line),
	}
}

func (at *zone) add(m *Member, count int) {
	if !m.counts {
		return
	}
	at.size += count
	if !m.ready || m.standing != Heard {
		at.notReady += count
	}
	if m.ready && m.standing == Doubtful { // that holds other nodes back, but removes no taints
		at.unsure += count
	}
}

// next returns the node that is next, if any waits.
func (at *zone) next() []string {
	if len(at.line) == 0 {
		return nil
	}
	return []string{at.line[0].Name}
}

// offers reports whether there is a token for a node and no other node waits before it.
func (at *zone) offers(m *Member, now time.Time) bool {
	return at.rate > 0 && at.limiter.TokensAt(now) >= wholeToken && (len(at.line) == 0 || at.line[0] == m)
}

// take gives a node the token that it was offered, and returns the node that is then next.
func (at *zone) take(m *Member, now time.Time) []string {
	next := at.leave(m)
	at.limiter.ReserveN(now, 1)
	m.token = now.Add(time.Duration(float64(time.Second) / float64(at.rate)))
	return next
}

// leave removes a node from the line, with its token, and returns the node that is then next.
func (at *zone) leave(m *Member) []string {
	m.token = time.Time{}
	return at.pass(m)
}

// pass removes a node from the line, and returns the node that is then next.
func (at *zone) pass(m *Member) []string {
	i := slices.Index(at.line, m)
	if i < 0 {
		return nil
	}
	at.line = slices.Delete(at.line, i, i+1)
	if i > 0 {
		return nil
	}
	return at.next()
}

// setRate changes how fast tokens accrue. The fraction of a token that has accrued is kept. Otherwise one flapping node
// could change its zone's rate again and again and keep all other nodes from being tainted; upstream starts a new
// limiter (pkg/controller/nodelifecycle/scheduler, SwapLimiter). As in upstream, anything that accrued before a time
// without tokens is lost, so that no node is tainted at the moment at which a disruption ends.
func (at *zone) setRate(next float32, now time.Time) {
	unused := at.rate == 0 && at.limiter.TokensAt(now) >= wholeToken
	at.rate = next
	if !unused {
		at.limiter.SetLimitAt(now, rate.Limit(next))
		return
	}
	at.limiter = rate.NewLimiter(rate.Limit(next), 1)
	at.limiter.AllowN(now, 1)
}

// wholeToken is how many tokens count as one, because the limiter adds up fractions, and ten tenths are less than one.
const wholeToken = 1 - 1e-6

// ripeIn returns how long it takes until the next token.
func (at *zone) ripeIn(now time.Time) time.Duration {
	missing := max(1-at.limiter.TokensAt(now), 0)
	return time.Duration(missing/float64(at.rate)*float64(time.Second)) + time.Millisecond
}

// Held is why a node must wait. It is comparable, so that a new reason is noticed.
type Held struct {
	Zone           string
	State          State
	Size, NotReady int
	Rate           float32
	// AllZones means that every zone is fully disrupted, so the control plane is the more likely cause.
	AllZones bool
}

// CountsOf says how many nodes of a zone are not ready: 1 of 2 nodes not ready.
func CountsOf(notReady, size int) string {
	return fmt.Sprintf("%d of %s not ready", notReady, sentence.Counted(size, "node"))
}

// String explains it in a sentence.
func (h Held) String() string {
	counts := CountsOf(h.NotReady, h.Size)
	where := fmt.Sprintf("zone %s is in state %s (%s)", h.Zone, h.State, counts)
	switch {
	case h.AllZones:
		return fmt.Sprintf("every zone is fully disrupted (zone %s: %s), "+
			"so the control plane is the more likely cause and no node is tainted", h.Zone, counts)
	case h.Rate == 0:
		return where + ", in which no node is tainted"
	}
	return fmt.Sprintf("%s, and one of its nodes is tainted every %g s", where, 1/h.Rate)
}

// ZoneName names a zone for people: its region and zone labels.
func ZoneName(key string) string {
	if key == "" {
		return "(none)"
	}
	return strings.Replace(key, ":\x00:", "/", 1)
}
