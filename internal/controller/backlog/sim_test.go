// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A world simulates an API server and what carries out the evictions of a Backlog: a live read of the node that serves
// its pods for half a second, the patch of the condition, and the delete. It has a time of its own.
type world struct {
	*testing.T

	b      *Backlog
	now    time.Duration // since t0
	random *rand.Rand

	server  func(call) answer
	busy    int // calls that hold a seat
	waiting []*request
	calls   map[int]int // by second

	pods     map[types.UID]*simPod
	nodes    map[string][]*simPod
	reads    map[string]*read
	inFlight map[*Eviction]*try
	gone     int
	mostCall int // in flight at once

	events events
	count  int
	awake  time.Duration // when Next must be called again
}

// seats is how many the API server's priority level workload-high has.
const seats = 98

type simPod struct {
	Leaving

	node, label string
	due, gone   time.Duration
	marked      bool
}

type call struct {
	verb string
	pod  *simPod // of a read: the first pod that needs it
	at   time.Duration
}

// answer is how the server answers: after how long, and whether it refuses or fails to answer.
type answer struct {
	takes   time.Duration
	hangs   bool
	refuser string
}

// hanging is the answer of a webhook that does not respond, after 30 s.
var hanging = answer{takes: 30 * sec, hangs: true}

type request struct {
	call

	answered func(answer)
	over     bool
	running  bool
}

type read struct {
	began   time.Duration
	ended   bool
	request *request
	waiters []*try
}

type try struct {
	e       *Eviction
	pod     *simPod
	request *request
	read    *read
	over    bool
}

type event struct {
	at    time.Duration
	count int
	do    func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].count < h[j].count
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newWorld returns a world in which the server answers within 3 to 7 ms, unless special says otherwise.
func newWorld(t *testing.T, special func(call) (answer, bool)) *world {
	w := &world{
		T: t, b: New(Lanes{std}, there), random: rand.New(rand.NewPCG(1, 2)), calls: map[int]int{},
		pods: map[types.UID]*simPod{}, nodes: map[string][]*simPod{}, reads: map[string]*read{}, inFlight: map[*Eviction]*try{},
	}
	w.server = func(c call) answer {
		if a, ok := special(c); ok {
			return a
		}
		return answer{takes: 3*ms + time.Duration(w.random.Int64N(int64(4*ms)))}
	}
	return w
}

func ordinary(call) (answer, bool) { return answer{}, false }

func deletesHang(of func(*simPod) bool) func(call) (answer, bool) {
	return func(c call) (answer, bool) { return hanging, c.verb == "delete" && of(c.pod) }
}

func (w *world) at() time.Time { return t0.Add(w.now) }

func (w *world) after(wait time.Duration, do func()) {
	w.count++
	heap.Push(&w.events, event{w.now + wait, w.count, do})
}

func (w *world) add(node int, namespace string, due time.Duration) *simPod {
	p := &simPod{node: fmt.Sprint("n", node), due: due, Leaving: Leaving{
		UID: types.UID(fmt.Sprintf("%s/%d", namespace, len(w.pods))), Group: namespace, Due: t0.Add(due),
		Priority: int32(len(w.pods) % 3),
	}}
	w.pods[p.UID] = p
	w.nodes[p.node] = append(w.nodes[p.node], p)
	return p
}

// addMany adds pods on the given number of nodes and in the given number of namespaces.
func (w *world) addMany(count, nodes int, prefix string, namespaces int, due func(i int) time.Duration) {
	for i := range count {
		w.add(i%nodes, fmt.Sprint(prefix, i%namespaces), due(i))
	}
}

func atOnce(int) time.Duration { return 0 }

func every(interval time.Duration) func(int) time.Duration {
	return func(i int) time.Duration { return time.Duration(i) * interval }
}

// taintAll tells the Backlog of all nodes, and untaintAll that they have no taints.
func (w *world) taintAll()   { w.setAll(true) }
func (w *world) untaintAll() { w.setAll(false) }

func (w *world) setAll(tainted bool) {
	names := make([]string, 0, len(w.nodes))
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		w.set(name, tainted)
	}
}

func (w *world) set(node string, tainted bool) {
	var leaving []Leaving
	for _, p := range w.nodes[node] {
		if tainted && p.gone == 0 {
			leaving = append(leaving, p.Leaving)
		}
	}
	_, cancel := w.b.Set(node, leaving, w.at())
	for _, e := range cancel {
		w.cancel(e)
	}
	w.step()
}

// step begins and cancels what the Backlog says.
func (w *world) step() {
	for _, e := range w.b.Excess(w.at()) {
		w.cancel(e)
	}
	for {
		e, again := w.b.Next(w.at())
		if e == nil {
			w.wake(again)
			return
		}
		t := &try{e: e, pod: w.pods[e.UID]}
		w.inFlight[e] = t
		w.confirm(t)
	}
}

func (w *world) wake(at time.Time) {
	in := max(at.Sub(w.at()), 1)
	if at.IsZero() || w.awake > w.now && w.awake <= w.now+in {
		return
	}
	awake := w.now + in
	w.awake = awake
	w.after(in, func() {
		if w.awake == awake {
			w.awake = 0
			w.step()
		}
	})
}

// confirm reads the node.
func (w *world) confirm(t *try) {
	r := w.reads[t.pod.node]
	switch {
	case r != nil && !r.ended && w.now-r.began < 4*sec:
		t.read, r.waiters = r, append(r.waiters, t)
		return
	case r != nil && r.ended && w.now-r.began < 500*ms:
		w.mark(t)
		return
	}
	r = &read{began: w.now, waiters: []*try{t}}
	t.read, w.reads[t.pod.node] = r, r
	r.request = w.call("get", t.pod, func(a answer) {
		if r.ended = true; a.hangs && w.reads[t.pod.node] == r {
			delete(w.reads, t.pod.node)
		}
		for _, waiter := range r.waiters {
			if waiter.read = nil; a.hangs {
				w.end(waiter, Hung)
			} else {
				w.mark(waiter)
			}
		}
	})
}

func (w *world) mark(t *try) {
	if t.pod.marked {
		w.delete(t)
		return
	}
	t.request = w.call("patch", t.pod, func(a answer) {
		if a.hangs {
			w.end(t, Hung)
			return
		}
		t.pod.marked = true
		w.confirm(t)
	})
}

func (w *world) delete(t *try) {
	t.request = w.call("delete", t.pod, func(a answer) {
		switch {
		case a.hangs:
			w.end(t, Hung)
		case a.refuser != "":
			w.end(t, Failed(w.backoff(t.e.Tries), a.refuser))
		default:
			t.pod.gone = max(w.now, 1)
			w.gone++
			w.end(t, Over)
		}
	})
}

// backoff is 100 ms at first, and doubles up to 5 min, less up to a fifth.
func (w *world) backoff(tries int) time.Duration {
	wait := min(100*ms<<min(tries, 20), 5*time.Minute)
	return wait - time.Duration(w.random.Int64N(int64(wait/5)))
}

func (w *world) end(t *try, o Outcome) {
	if t.over {
		return
	}
	t.over = true
	delete(w.inFlight, t.e)
	w.b.Done(t.e, o, w.at())
	w.step()
}

// cancel ends a try a millisecond later.
func (w *world) cancel(e *Eviction) {
	t := w.inFlight[e]
	w.after(ms, func() {
		if t.over {
			return
		}
		if r := t.read; r == nil {
			w.abort(t.request)
		} else if r.waiters = slices.DeleteFunc(r.waiters, func(o *try) bool { return o == t }); len(r.waiters) == 0 {
			w.abort(r.request)
			if w.reads[t.pod.node] == r {
				delete(w.reads, t.pod.node)
			}
		}
		w.end(t, Hung)
	})
}

func (w *world) abort(r *request) {
	if r == nil || r.over {
		return
	}
	r.over = true
	if r.running {
		w.release()
		return
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(o *request) bool { return o == r })
}

func (w *world) call(verb string, pod *simPod, answered func(answer)) *request {
	w.calls[int(w.now/sec)]++
	r := &request{call: call{verb: verb, pod: pod}, answered: answered}
	if w.busy >= seats {
		w.waiting = append(w.waiting, r)
	} else {
		w.run(r)
	}
	return r
}

func (w *world) run(r *request) {
	w.busy++
	w.mostCall = max(w.mostCall, w.busy)
	r.running, r.at = true, w.now
	a := w.server(r.call)
	w.after(a.takes, func() {
		if !r.over {
			r.over = true
			w.release()
			r.answered(a)
		}
	})
}

func (w *world) release() {
	w.busy--
	if len(w.waiting) > 0 {
		r := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.run(r)
	}
}

// play lets time pass until the given number of pods are gone, or at most until an instant.
func (w *world) play(until time.Duration, gone int) {
	for len(w.events) > 0 && w.events[0].at <= until && w.gone < gone {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	if w.gone < gone {
		w.now = until
	}
}

// never is more pods than there are.
const never = 1 << 30

// lateness returns for how long the pods that match were due before they were gone, in order. One that is still there
// counts until now.
func (w *world) lateness(of func(*simPod) bool) (late []time.Duration) {
	for _, p := range w.pods {
		end := p.gone
		if end == 0 {
			end = w.now
		}
		if of(p) && p.due <= w.now {
			late = append(late, end-p.due)
		}
	}
	slices.Sort(late)
	return late
}

func quantile(all []time.Duration, q float64) time.Duration {
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func in(namespace string) func(*simPod) bool {
	return func(p *simPod) bool { return p.Group == namespace }
}

func labeled(label string) func(*simPod) bool {
	return func(p *simPod) bool { return p.label == label }
}

func between(from, to time.Duration, of func(*simPod) bool) func(*simPod) bool {
	return func(p *simPod) bool { return of(p) && p.due >= from && p.due < to }
}
