// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import "time"

// model says what a controller does in a history. It computes with a cluster, without client, clock and goroutine: every
// change is seen, and every call answered, at the very instant at which it happens. The cluster tells it of changes.
type model interface {
	base() *process
	// start begins a process, which knows nothing yet.
	start()
	// next is when something follows from what the process knows by time alone; never if nothing does.
	next() time.Duration
	// act does what follows now.
	act()
}

// process is what all models have.
type process struct {
	cluster *cluster
	quirks  quirks
	now     time.Duration
	began   time.Duration // of the process that runs
	running bool
	seen    outcome // what happened to pods or nodes
}

func newProcess(has quirks) process {
	return process{cluster: newCluster(), quirks: has, seen: outcome{}}
}

func (p *process) base() *process { return p }

// simulate lets a history happen, and a model with it. At one instant only things happen that follow from each other, and
// the model comes first.
func simulate(h *history, m model) outcome {
	p, occasions := m.base(), h.occasions()
	p.cluster.begin(h)
	for {
		acts, removal, upcoming := never, p.cluster.nextRemoval(), never
		if p.running {
			acts = max(m.next(), p.now)
		}
		if len(occasions) > 0 {
			upcoming = occasions[0].At
		}
		if p.now = min(acts, removal, upcoming); p.now > h.end() {
			return p.seen
		}
		switch p.now {
		case acts:
			m.act()
		case removal:
			p.cluster.removeEnded(p.now)
		default:
			p.take(occasions[0], m.start)
			occasions = occasions[1:]
		}
	}
}

func (p *process) take(next step, begin func()) {
	switch next.Do.(type) {
	case start:
		if !p.running {
			p.running, p.began = true, p.now
			begin()
		}
	case restart:
		p.running = false
	}
	next.Do.do(p.cluster, p.now)
}
