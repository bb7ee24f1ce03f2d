// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// evicts is a whole eviction without a fault: the live read, the condition, the DELETE, and the end of the pod.
func (w *world) evicts(when float64) *call {
	w.calls(getNode, when-0.02)
	w.calls(patchPod, when-0.01)
	c := w.calls(deletePod, when)
	w.gone(when+0.005, keeperUser)
	return c
}

func TestWhatIsRightAndWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		history func(*world)
		want    []charge
	}{
		"a pod that tolerates nothing leaves at once": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05) },
		},
		"a pod leaves when its seconds are over": {
			history: func(w *world) { w.tolerates(1, tolerating("off", 5)); w.tainted(10, noExecute("off")); w.evicts(15.05) },
		},
		"a pod leaves a moment before its seconds are over": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.evicts(14.995)
			},
			want: []charge{early, early},
		},
		"a DELETE that never arrives is decided on too early": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.calls(deletePod, 12).fails()
				w.evicts(15.05)
			},
			want: []charge{early},
		},
		"a mirror pod leaves": {
			history: func(w *world) { w.podIs(1, podFacts{mirror: true}); w.tainted(10, noExecute("off")); w.evicts(20) },
			want:    []charge{wrong, wrong},
		},
		"a pod leaves long after the untaint": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.tainted(11); w.evicts(12.2) },
			want:    []charge{wrong, wrong},
		},
		"a pod leaves by a live read that was made just before the untaint": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.tainted(11); w.evicts(11.4) },
		},
		"a pod leaves long after the untaint by a live read whose answer was held up": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				read := w.calls(getNode, 10.9)
				read.told, read.faults = sec(13), []faultKind{delayedAnswer}
				w.tainted(11)
				w.calls(deletePod, 13.01)
				w.gone(13.02, keeperUser)
			},
		},
		"a pod leaves long after the untaint by a live read whose call was held up, and that could show it": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				read := w.calls(getNode, 10.9)
				read.forwarded, read.answered, read.told, read.faults = sec(12.99), sec(12.99), sec(13), []faultKind{delayedCall}
				w.tainted(11)
				w.calls(deletePod, 13.01)
				w.gone(13.02, keeperUser)
			},
			want: []charge{wrong},
		},
		"the seconds were lengthened while the watch was cut, and the answer to the PATCH shows it": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.watch("a", watchPods).closed = sec(11)
				w.tolerates(12, tolerating("off", 100))
				w.evicts(15.05)
			},
			want: []charge{early},
		},
		"the seconds were lengthened while the watch was cut, after the answer to the PATCH": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.watch("a", watchPods).closed = sec(11)
				w.tolerates(15.045, tolerating("off", 100))
				w.evicts(15.05)
			},
		},
		"the seconds were lengthened while the watch was held up, and the PATCH is not answered": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.watch("a", watchPods).stalls = []span{oracle.Between(sec(11.5), sec(16))}
				w.tolerates(12, tolerating("off", 100))
				w.calls(patchPod, 15.02).fails()
				w.calls(deletePod, 15.03)
				w.gone(15.035, keeperUser)
			},
		},
		"the seconds were lengthened while the watch was held up, and a GET shows it": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.watch("a", watchPods).stalls = []span{oracle.Between(sec(11.5), sec(16))}
				w.tolerates(12, tolerating("off", 100))
				w.calls(getPod, 15.02)
				w.calls(deletePod, 15.03)
				w.gone(15.035, keeperUser)
			},
			want: []charge{early},
		},
		"the seconds were lengthened, and only the other replica's watch was cut": {
			history: func(w *world) {
				w.tolerates(1, tolerating("off", 5))
				w.tainted(10, noExecute("off"))
				w.watch("b", watchPods).closed = sec(11)
				w.tolerates(12, tolerating("off", 100))
				w.evicts(15.05)
			},
			want: []charge{early, early},
		},
		"a DELETE that hangs is carried out long after the untaint": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.tainted(12); w.hangs(20) },
			want:    []charge{wrong},
		},
		"a DELETE that hangs is carried out before the untaint, and answered long after": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				w.watch("a", watchPods).closed = sec(11)
				w.tainted(12)
				w.hangsOn(11.5, 20)
			},
		},
		"a DELETE that hangs is carried out soon after the untaint": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.tainted(12); w.hangs(13.4) },
		},
		"a DELETE that hangs is carried out long after the untaint, which no watch brings": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				w.watch("a", watchNodes).stalls = []span{oracle.Between(sec(11), sec(20))}
				w.tainted(12)
				w.hangs(20)
			},
		},
		"a DELETE has no UID": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05).uid = "" },
			want:    []charge{wrong},
		},
		"a DELETE has the UID of no pod with that name": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05).name = "default/other" },
			want:    []charge{wrong},
		},
		"a DELETE comes again although its answer had arrived": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05); w.calls(deletePod, 10.15) },
			want:    []charge{twice},
		},
		"a DELETE comes again because its answer was lost": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05).loses(); w.calls(deletePod, 10.15) },
		},
		"another replica deletes again what its watch has shown to terminate": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.evicts(10.05); w.calls(deletePod, 12).replica = "b" },
			want:    []charge{twice},
		},
		"another replica deletes again what its watch could not show": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				w.watch("b", watchPods).closed = sec(9)
				w.evicts(10.05)
				w.calls(deletePod, 12).replica = "b"
			},
		},
		"a pod that somebody else deleted long ago is deleted": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.gone(10.01, "kwok"); w.calls(deletePod, 12) },
			want:    []charge{wrong},
		},
		"a pod that had to leave never does": {
			history: func(w *world) { w.tainted(10, noExecute("off")) },
			want:    []charge{lost},
		},
		"a pod is still there after the longest recovery, whatever explains it": {
			history: func(w *world) {
				w.calm = w.end.Add(-longestRecovery)
				w.episodes = []episode{{span: oracle.Between(sec(9), w.end), what: "outage"}}
				w.tainted(10, noExecute("off"))
			},
			want: []charge{lost},
		},
		"the API server goes down a second after the next leader began, before anything can be late": {
			history: func(w *world) {
				w.lives[0].ended = sec(9)
				w.reigns = append(w.reigns, reign{from: sec(20), holder: "holder-b"})
				w.episodes = []episode{{span: oracle.Between(sec(22.2), sec(50)), what: "outage"}}
				w.tainted(10, noExecute("off"))
				w.tainted(54)
			},
		},
		"the API server goes down long after the next leader began": {
			history: func(w *world) {
				w.lives[0].ended = sec(9)
				w.reigns = append(w.reigns, reign{from: sec(20), holder: "holder-b"})
				w.episodes = []episode{{span: oracle.Between(sec(23), sec(50)), what: "outage"}}
				w.tainted(10, noExecute("off"))
				w.tainted(54)
			},
			want: []charge{lost},
		},
		"a pod that must leave is not evicted, because no watch can be opened": {
			history: func(w *world) {
				w.watch("a", watchNodes).closed = sec(9)
				w.tainted(10, noExecute("off"))
				w.tainted(40)
			},
		},
		"a pod is left alone after one failed call, for longer than the backoff of one": {
			history: func(w *world) { w.tainted(10, noExecute("off")); w.calls(deletePod, 10.05).fails(); w.tainted(45) },
			want:    []charge{tardy},
		},
		"a pod waits for the backoff of many calls that failed": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				for _, failed := range []float64{10.05, 10.2, 10.4, 10.8, 11.6, 13.2, 16.4, 22.8} {
					w.calls(deletePod, failed).fails()
				}
				w.tainted(39)
			},
		},
		"a healthy pod leaves 6 s late because the deletes of others hang": {
			history: func(w *world) {
				w.reviews = []episode{{span: oracle.Between(sec(9), sec(29)), what: string(hungReview)}}
				w.tainted(10, noExecute("off"))
				w.evicts(16)
			},
			want: []charge{tardy},
		},
		"a guarded pod leaves when the webhook answers again": {
			history: func(w *world) {
				w.guards()
				w.reviews = []episode{{span: oracle.Between(sec(9), sec(29)), what: string(hungReview)}}
				w.tainted(10, noExecute("off"))
				w.evicts(30)
			},
		},
		"a guarded pod waits longer because it was refused often": {
			history: func(w *world) {
				w.guards()
				w.reviews = []episode{{span: oracle.Between(sec(9), sec(23)), what: string(refusedReview)}}
				w.tainted(10, noExecute("off"))
				for _, failed := range []float64{10.05, 10.2, 10.4, 10.8, 11.6, 13.2, 16.4, 22.8} {
					w.calls(deletePod, failed).isRefused()
				}
				w.evicts(41)
			},
		},
		"a pod is evicted late by a leader whose clock is behind, which saw the taint come": {
			history: func(w *world) {
				w.skews = []skew{{span: oracle.Between(sec(5), sec(180)), replica: "a", offset: -20 * time.Second}}
				w.tainted(10, noExecute("off"))
				w.evicts(31)
			},
			want: []charge{lost},
		},
		"a leader whose clock is behind counts a taint that comes with an earlier timeAdded from when it saw it": {
			history: func(w *world) {
				w.skews = []skew{{span: oracle.Between(sec(5), sec(180)), replica: "a", offset: -time.Minute}}
				w.tolerates(1, tolerating("off", 15))
				w.tainted(30, added(noExecute("off"), 10))
				w.evicts(45)
			},
		},
		"a leader whose clock is right counts it from its timeAdded": {
			history: func(w *world) {
				w.skews = []skew{{span: oracle.Between(sec(5), sec(180)), replica: "b", offset: -time.Minute}}
				w.tolerates(1, tolerating("off", 15))
				w.tainted(30, added(noExecute("off"), 10))
				w.evicts(45)
			},
			want: []charge{lost},
		},
		"a swap begins the count again for a leader whose watch of nodes was broken meanwhile": {
			history: func(w *world) {
				w.watch("a", watchNodes).closed = sec(24)
				w.streams = append(w.streams, stream{replica: "a", run: 1, kind: watchNodes, opened: sec(26)})
				w.swaps()
				w.evicts(46.05)
			},
		},
		"a swap begins the count even later for a leader that began only then": {
			history: func(w *world) { w.reignsFrom(26); w.swaps(); w.evicts(52) },
			want:    []charge{tardy},
		},
		"a timeAdded that was put off is written back": {
			history: func(w *world) {
				w.tolerates(1, forever("off"))
				w.tainted(10.3, added(noExecute("off"), 10))
				w.tainted(20.3, added(noExecute("off"), 20))
				w.taintedBy(keeperUser, 20.6, added(noExecute("off"), 10))
			},
		},
		"a timeAdded is put off by a replica": {
			history: func(w *world) {
				w.tolerates(1, forever("off"))
				w.tainted(10.3, added(noExecute("off"), 10))
				w.taintedBy(keeperUser, 20.6, added(noExecute("off"), 20))
			},
			want: []charge{wrong},
		},
		"a timeAdded is written by a clock that is ahead": {
			history: func(w *world) {
				w.tolerates(1, forever("off"))
				w.tainted(10.3, noExecute("off"))
				w.taintedBy(keeperUser, 10.6, added(noExecute("off"), 70))
			},
			want: []charge{tardy},
		},
		"a timeAdded that is before the taint is written": {
			history: func(w *world) {
				w.tolerates(1, forever("off"))
				w.tainted(10.3, noExecute("off"))
				w.taintedBy(keeperUser, 10.6, added(noExecute("off"), 9))
			},
			want: []charge{early},
		},
		"a taint of somebody else is undone by writing a timeAdded": {
			history: func(w *world) {
				w.tolerates(1, forever("off"), forever("other"))
				w.tainted(10.3, noExecute("off"))
				w.tainted(10.4, noExecute("off"), noExecute("other"))
				w.taintedBy(keeperUser, 10.6, added(noExecute("off"), 10))
			},
			want: []charge{wrong},
		},
		"a pod is lost although only the standby's watch of pods is held up": {
			history: func(w *world) {
				w.watch("b", watchPods).stalls = []span{oracle.Between(sec(9), sec(200))}
				w.tainted(10, noExecute("off"))
				w.tainted(150)
			},
			want: []charge{lost},
		},
		"a pod leaves long after the untaint by a live read that was made long before": {
			history: func(w *world) {
				w.tainted(10, noExecute("off"))
				w.calls(getNode, 10.9)
				w.tainted(11)
				w.calls(deletePod, 13)
				w.gone(13.005, keeperUser)
			},
			want: []charge{wrong},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.history(w)
			slices.SortStableFunc(w.history.calls, func(a, b *call) int { return a.received.Compare(b.received) })
			found := w.judge()
			var got []charge
			for _, f := range found {
				got = append(got, f.charge)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", found, test.want)
			}
		})
	}
}
