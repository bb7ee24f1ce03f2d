// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sim carries out the evictions of a Backlog, in a time of its own. A try is one call that takes as long as the read,
// the patch and the delete of a pod together.
type sim struct {
	b        *Backlog
	now      time.Duration // since t0
	random   *rand.Rand
	server   func(p *simPod, now time.Duration) answer
	pods     []*simPod
	byUID    map[types.UID]*simPod
	inFlight []*flight // in the order in which they began
	gone     int
	tries    map[int]int // by second
}

type simPod struct {
	Leaving

	node, label string
	due, gone   time.Duration
}

// answer is how the server answers: after how long, and as what the try counts.
type answer struct {
	takes time.Duration
	as    Outcome
}

// flight is a try in flight.
type flight struct {
	*Eviction

	ends time.Duration
	as   Outcome
}

func newSim() *sim {
	return &sim{
		b: New(Lanes{std}, there), random: rand.New(rand.NewPCG(1, 2)),
		byUID: map[types.UID]*simPod{}, tries: map[int]int{},
	}
}

// prompt answers within 6 to 14 ms.
func (s *sim) prompt() answer {
	return answer{6*ms + time.Duration(s.random.Int64N(int64(8*ms))), Over}
}

// hanging is the answer of a webhook that does not respond, after 30 s.
var hanging = answer{30 * sec, Hung}

// add adds pods on the given number of nodes and in the given number of namespaces.
func (s *sim) add(count, nodes int, prefix string, namespaces int, due func(i int) time.Duration) (added []*simPod) {
	for i := range count {
		p := &simPod{node: fmt.Sprint("n", i%nodes), due: due(i)}
		p.Group = fmt.Sprint(prefix, i%namespaces)
		p.UID = types.UID(fmt.Sprintf("%s/%d", p.Group, len(s.pods)))
		p.Due, p.Priority = t0.Add(p.due), int32(len(s.pods)%3)
		s.byUID[p.UID] = p
		s.pods, added = append(s.pods, p), append(added, p)
	}
	return added
}

func atOnce(int) time.Duration { return 0 }

func every(interval time.Duration) func(int) time.Duration {
	return func(i int) time.Duration { return time.Duration(i) * interval }
}

// taint tells the Backlog of all nodes, whether they are tainted or not.
func (s *sim) taint(tainted bool) {
	nodes := map[string][]Leaving{}
	for _, p := range s.pods {
		if on := nodes[p.node]; tainted && p.gone == 0 {
			nodes[p.node] = append(on, p.Leaving)
		} else {
			nodes[p.node] = on
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		_, cancel := s.b.Set(node, nodes[node], t0.Add(s.now))
		s.cancel(cancel)
	}
}

// cancel ends tries a millisecond later.
func (s *sim) cancel(all []*Eviction) {
	for _, f := range s.inFlight {
		if slices.Contains(all, f.Eviction) {
			f.ends, f.as = min(f.ends, s.now+ms), Hung
		}
	}
}

// play lets time pass until the given number of pods are gone, or at most until an instant.
func (s *sim) play(until time.Duration, gone int) {
	for s.now < until && s.gone < gone {
		s.cancel(s.b.Excess(t0.Add(s.now)))
		next := min(s.begin(), until)
		for _, f := range s.inFlight {
			next = min(next, f.ends)
		}
		s.now = max(next, s.now)
		s.inFlight = slices.DeleteFunc(s.inFlight, func(f *flight) bool {
			if f.ends <= s.now {
				s.end(f)
			}
			return f.ends <= s.now
		})
	}
}

// begin begins the tries that may begin, and returns when to call it again.
func (s *sim) begin() time.Duration {
	for {
		e, again := s.b.Next(t0.Add(s.now))
		switch {
		case e == nil && again.IsZero():
			return 1 << 62
		case e == nil:
			return again.Sub(t0)
		}
		s.tries[int(s.now/sec)]++
		is := s.server(s.byUID[e.UID], s.now)
		s.inFlight = append(s.inFlight, &flight{e, s.now + is.takes, is.as})
	}
}

func (s *sim) end(f *flight) {
	switch f.as.kind {
	case over:
		s.byUID[f.UID].gone = max(s.now, 1)
		s.gone++
	case failed: // its backoff is 100 ms at first, and doubles up to 5 min, less up to a fifth
		wait := min(100*ms<<min(f.Tries, 20), 5*time.Minute)
		f.as.after = wait - time.Duration(s.random.Int64N(int64(wait/5)))
	}
	s.b.Done(f.Eviction, f.as, t0.Add(s.now))
}

// never is more pods than there are.
const never = 1 << 30

type which = func(*simPod) bool

func all(*simPod) bool    { return true }
func good(p *simPod) bool { return strings.HasPrefix(p.Group, "good") }
func bad(p *simPod) bool  { return strings.HasPrefix(p.Group, "bad") }

func labeled(label string) which { return func(p *simPod) bool { return p.label == label } }

func dueBetween(from, to time.Duration, of which) which {
	return func(p *simPod) bool { return of(p) && p.due >= from && p.due < to }
}

// late wants that pods were due for at most so long before they were gone: half of them, and all of them. One that is
// still there counts until now.
func (s *sim) late(t *testing.T, what string, of which, half, most time.Duration) {
	t.Helper()
	var late []time.Duration
	for _, p := range s.pods {
		switch {
		case !of(p) || p.due > s.now:
		case p.gone == 0:
			late = append(late, s.now-p.due)
		default:
			late = append(late, p.gone-p.due)
		}
	}
	slices.Sort(late)
	t.Logf("%s: half within %v, all within %v", what, late[len(late)/2], late[len(late)-1])
	if late[len(late)/2] > half || late[len(late)-1] > most {
		t.Errorf("%s: half within %v, all within %v, want %v and %v", what, late[len(late)/2], late[len(late)-1], half, most)
	}
}

// hang makes the tries of some pods hang until an instant.
func hang(of which, until time.Duration) func(s *sim) {
	return func(s *sim) {
		s.server = func(p *simPod, now time.Duration) answer {
			if of(p) && now < until {
				return hanging
			}
			return s.prompt()
		}
	}
}

func TestANamespaceThatHangsHoldsUpOthersOnlyBriefly(t *testing.T) {
	const ever = time.Hour
	for name, test := range map[string]struct {
		server func(s *sim)
		pods   func(s *sim)
		until  time.Duration
		want   func(t *testing.T, s *sim)
	}{
		"none hangs: 1,000 pods take hardly longer than 16 calls at a time": {
			hang(all, 0), func(s *sim) { s.add(1000, 20, "ns", 50, atOnce) }, time.Minute,
			func(t *testing.T, s *sim) { s.late(t, "all", all, 400*ms, 1000*10*ms/16*5/4) }, //nolint:thelper // the test itself
		},
		"one of 2,000 pods, by a tenth of a second": {
			hang(bad, ever), func(s *sim) { s.add(2000, 100, "bad", 1, atOnce); s.add(900, 100, "good", 30, every(200*ms)) },
			180 * sec, func(t *testing.T, s *sim) { //nolint:thelper // the test itself
				s.late(t, "the first minute", dueBetween(0, 60*sec, good), 30*ms, 500*ms)
				s.late(t, "then", dueBetween(60*sec, 180*sec, good), 30*ms, 260*ms)
			},
		},
		"1,000 of them, once": {
			hang(bad, ever), func(s *sim) { s.add(20_000, 1000, "bad", 1000, atOnce); s.add(18, 1000, "good", 1, every(10*sec)) },
			180 * sec, func(t *testing.T, s *sim) { //nolint:thelper // the test itself
				s.late(t, "the first 30 s", dueBetween(0, 30*sec, good), 21*sec, 21*sec) // 1,000 namespaces / 48 a second
				s.late(t, "then", dueBetween(30*sec, 180*sec, good), 30*ms, 260*ms)
			},
		},
		"a new one every 300 ms, by less than a second": {
			hang(bad, ever), func(s *sim) {
				for i, p := range s.add(3600, 100, "bad", 3600, func(i int) time.Duration { return time.Duration(i/3) * 100 * ms }) {
					p.Group = fmt.Sprint("bad", i/3)
				}
				s.add(600, 100, "good", 30, every(200*ms))
			},
			120 * sec, func(t *testing.T, s *sim) { s.late(t, "the others", good, 60*ms, 600*ms) }, //nolint:thelper // the test itself
		},
		// A webhook selects pods by labels: in the namespaces that hang, the evictions of half of the pods do not.
		"half of the pods of 200, and the other half leaves": {
			hang(labeled("bad"), ever), func(s *sim) {
				for _, p := range s.add(4000, 100, "mixed", 200, atOnce) {
					p.label = []string{"bad", "free"}[s.random.IntN(2)]
				}
				s.add(600, 100, "good", 30, every(200*ms))
			},
			10 * time.Minute, func(t *testing.T, s *sim) { //nolint:thelper // the test itself
				s.late(t, "the other half", labeled("free"), 10*time.Minute-1, 10*time.Minute-1)
				s.late(t, "healthy namespaces", good, 60*ms, 5*sec)
			},
		},
		"all, in a brown-out of 40 s": { // 64 calls that began in it are in flight for 30 s
			hang(all, 40*sec), func(s *sim) { s.add(1000, 20, "ns", 50, atOnce) }, 10 * time.Minute,
			func(t *testing.T, s *sim) { s.late(t, "all", all, 60*sec, 72*sec) }, //nolint:thelper // the test itself
		},
		"none, but each call takes 4 s": {
			func(s *sim) { s.server = func(*simPod, time.Duration) answer { return answer{4 * sec, Over} } },
			func(s *sim) { s.add(1000, 20, "ns", 50, atOnce) }, 10 * time.Minute,
			func(t *testing.T, s *sim) { s.late(t, "all", all, 65*sec, 130*sec) }, //nolint:thelper // the test itself
		},
		"none, but 5,000 pods are refused: at most 60 tries a second": {
			func(s *sim) {
				s.server = func(p *simPod, _ time.Duration) answer {
					if bad(p) {
						return answer{10 * ms, Failed(0, "webhook w")}
					}
					return s.prompt()
				}
			},
			func(s *sim) { s.add(5000, 100, "bad", 1, atOnce); s.add(180, 100, "good", 1, every(sec)) }, 180 * sec,
			func(t *testing.T, s *sim) { //nolint:thelper // the test itself
				for second, tries := range s.tries {
					if second > 15 && tries > 55 {
						t.Errorf("%d tries in second %d", tries, second)
					}
				}
				s.late(t, "the others", good, 30*ms, 260*ms)
			},
		},
		"pods that hung once leave next to 2,000 that hang indefinitely": {
			func(s *sim) {
				s.server = func(p *simPod, now time.Duration) answer {
					if p.label == "" || now < 60*sec {
						return hanging
					}
					return s.prompt()
				}
			},
			func(s *sim) {
				s.add(2000, 100, "bad", 1, atOnce)
				for _, p := range slices.Concat(s.add(20, 20, "good", 1, atOnce), s.add(20, 20, "bad", 1, atOnce)) {
					p.label = p.Group
				}
			},
			15 * time.Minute, func(t *testing.T, s *sim) { //nolint:thelper // the test itself
				s.late(t, "in another namespace", labeled("good0"), 70*sec, 100*sec)
				s.late(t, "in the same", labeled("bad0"), 5*time.Minute, 10*time.Minute)
			},
		},
		"one of 2,000 pods, for 10 minutes: then they leave": {
			hang(all, 10*time.Minute), func(s *sim) { s.add(2000, 100, "bad", 1, atOnce) }, time.Hour,
			func(t *testing.T, s *sim) { s.late(t, "all", all, 10*time.Minute+40*sec, 10*time.Minute+40*sec) }, //nolint:thelper // the test itself
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim()
			test.pods(s)
			test.server(s)
			s.taint(true)
			s.play(test.until, never)
			test.want(t, s)
		})
	}
}

// The webhook's own pods are due, too, and have the highest priority, so they come last.
func TestThePodsOfAWebhookThatHangsAreFound(t *testing.T) {
	for name, namespace := range map[string]string{"in a namespace of their own": "webhook", "in one that hangs": "bad"} {
		t.Run(name, func(t *testing.T) {
			s, back := newSim(), time.Hour
			s.server = func(p *simPod, now time.Duration) answer {
				switch {
				case p.label != "":
					back = min(back, now+5*sec)
				case now < back:
					return hanging
				}
				return s.prompt()
			}
			s.add(3000, 30, "bad", 50, atOnce)
			for _, p := range s.add(2, 2, namespace, 1, atOnce) {
				p.label, p.Priority = "webhook", 2_000_000_000
			}
			s.taint(true)
			s.play(20*time.Minute, 3002)
			s.late(t, "the webhook's", labeled("webhook"), 200*sec, 200*sec) // 3,000 pods of its kind / 16 a second
			s.late(t, "all", all, 10*time.Minute, 10*time.Minute)
		})
	}
}

func TestAnUntaintCancelsAllThatHangsAndATaintBeginsAgain(t *testing.T) {
	s := newSim()
	s.server = func(_ *simPod, now time.Duration) answer {
		if now < 15*sec {
			return hanging
		}
		return s.prompt()
	}
	s.add(500, 20, "ns", 10, atOnce)
	s.taint(true)
	s.play(10*sec, never)
	s.taint(false)
	s.play(10*sec+10*ms, never)
	if len(s.inFlight) > 0 {
		t.Errorf("%d evictions are in flight 10 ms after the untaint", len(s.inFlight))
	}
	s.play(20*sec, never)
	s.taint(true)
	s.play(time.Minute, 500)
	s.late(t, "all", all, 21*sec, 21*sec)
}
