// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

// State is how far a zone is disrupted. The values are upstream's.
type State string

// The states of a zone.
const (
	Normal            State = "Normal"
	PartialDisruption State = "PartialDisruption"
	FullDisruption    State = "FullDisruption"
)

// Policy says how many nodes may be tainted NoExecute per second, by the state of their zone. Rates are
// in nodes per second and zone; zero means none.
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

// State returns the state of a zone of so many nodes, of which so many are not ready. Two nodes that
// are not ready are never a disruption, unless they are the whole zone.
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
