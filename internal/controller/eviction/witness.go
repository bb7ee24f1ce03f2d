// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// witness follows what the built-in does about pods on tainted nodes. It runs in every replica from the start, so that
// a new leader knows what happened before. The built-in (processPodOnNode in
// pkg/controller/tainteviction/taint_eviction.go) begins to try a pod
//
//   - at once when the pod appears, or its tolerations or the NoExecute taints of its node change, and it is due then,
//   - and when its timer fires. The first taint that is tolerated for a while sets the timer, which keeps its instant,
//     whatever comes later, until the pod stays for good or is due at once.
//
// It tries terminating pods, too. When it restarts, it tries all due pods again. A restart is not visible from outside,
// so witness reports how many pods are due. If the built-in's instants are not known, witness assumes the earliest
// instant at which the rule made the pod due since the pod has had to leave.
//
// A nil witness sees nothing. It is safe for concurrent use.
type witness struct {
	judge   judge
	nodes   nodes
	pods    *podcache.Cache
	builtIn BuiltIn

	mu     sync.Mutex
	byNode map[string]*witnessed
	due    int // pods of all nodes
}

// witnessed is what is known about a node and its pods. A node without taints is kept as long as it has pods that were
// tried.
type witnessed struct {
	state  *nodecache.Node // nil without taints
	pods   map[types.UID]*triedPod
	told   NodeDecision // except for its Tries and From; Due is of this node
	looked time.Time    // when all its pods were seen last
}

// triedPod is what the built-in does about a pod.
type triedPod struct {
	pod    *podcache.Pod
	fires  time.Time // its timer; zero if there is none
	tried  bool
	due    bool
	spared time.Time // since when it has stayed after a try; zero if it does not stay
	stays  bool      // now, or for good
}

func newWitness(judge judge, nodes nodes, pods *podcache.Cache, builtIn BuiltIn) *witness {
	w := &witness{judge: judge, nodes: nodes, pods: pods, builtIn: builtIn, byNode: map[string]*witnessed{}}
	nodes.subscribe(func(name string) { w.look(name) })
	pods.Subscribe(w.changed)
	return w
}

// look sees a node and all its pods as they are now, and returns when the built-in's next timer there fires; zero if
// there is none.
func (w *witness) look(name string) (next time.Time) {
	if w == nil {
		return time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.judge.clock.Now()
	w.lookLocked(name, w.pods.OnNode(name))
	if known := w.byNode[name]; known != nil {
		known.looked = at
		for _, p := range known.pods {
			next = timeline.Next(next, p.fires)
		}
	}
	return next
}

// lookSince sees a node and all its pods, unless it has done so since an instant.
func (w *witness) lookSince(name string, since time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	known := w.byNode[name]
	looked := known != nil && !known.looked.Before(since)
	w.mu.Unlock()
	if !looked {
		w.look(name)
	}
}

// changed sees a change of a pod.
func (w *witness) changed(change podcache.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := change.Before; before != nil && (change.After == nil || change.After.Node != before.Node) {
		w.forget(before)
	}
	if change.After != nil {
		w.lookLocked(change.After.Node, []*podcache.Pod{change.After})
	}
}

func (w *witness) forget(pod *podcache.Pod) {
	known := w.byNode[pod.Node]
	if known == nil || known.pods[pod.UID] == nil {
		return
	}
	delete(known.pods, pod.UID)
	w.tell(pod.Node, known, NodeDecision{})
}

// lookLocked sees some pods of a node, or all if its taints have changed. The caller holds w.mu.
func (w *witness) lookLocked(name string, pods []*podcache.Pod) {
	state, tainted := w.nodes.get(name)
	if !tainted {
		state = nil
	}
	known := w.byNode[name]
	if known == nil {
		if !tainted {
			return
		}
		known = &witnessed{pods: map[types.UID]*triedPod{}}
		w.byNode[name] = known
	}
	retainted := !known.state.SameTaints(state)
	if known.state = state; retainted {
		pods = w.pods.OnNode(name)
	}
	at := w.judge.clock.Now()
	var news NodeDecision
	for _, pod := range pods {
		w.see(known, pod, at, retainted, &news)
	}
	w.tell(name, known, news)
}

// see adds what the built-in does about one pod.
func (w *witness) see(on *witnessed, pod *podcache.Pod, at time.Time, retainted bool, news *NodeDecision) {
	p := on.pods[pod.UID]
	asked := retainted || p == nil || !podcache.SameTolerations(p.pod, pod)
	if p == nil {
		p = &triedPod{}
		on.pods[pod.UID] = p
	}
	p.pod = pod
	due, leaves := w.dueOf(pod, on.state)
	if leaves && (asked || !p.fires.IsZero()) {
		p.fires = timeline.Next(p.fires, due)
	}
	if p.fired(at) {
		news.Tries++
		news.From = timeline.Next(news.From, p.fires)
		p.tried, p.fires = true, time.Time{}
	}
	if !leaves {
		p.fires = time.Time{}
	}
	p.due = leaves && !due.After(at)
	p.note(!pod.Flags.Has(podcache.Terminating) && !p.due, at)
}

func (p *triedPod) fired(at time.Time) bool { return !p.fires.IsZero() && !p.fires.After(at) }

// note records whether the pod stays.
func (p *triedPod) note(stays bool, at time.Time) {
	switch p.stays = stays; {
	case !stays:
		p.spared = time.Time{}
	case p.tried && p.spared.IsZero():
		p.spared = at
	}
}

// dueOf returns when a pod must leave, whether it is terminating or not.
func (w *witness) dueOf(pod *podcache.Pod, state *nodecache.Node) (due time.Time, leaves bool) {
	if state == nil {
		return time.Time{}, false
	}
	if pod.Flags.Has(podcache.Terminating) {
		there := *pod
		there.Flags &^= podcache.Terminating
		pod = &there
	}
	v, leaves := w.judge.over(pod, state.NoExecute)
	return v.Due, leaves
}

// tell passes on what is new about a node, and which of its pods stay.
func (w *witness) tell(name string, known *witnessed, news NodeDecision) {
	is, idle := NodeDecision{Node: name}, known.state == nil
	for _, p := range known.pods {
		is.Stays = is.Stays || p.stays
		if p.due {
			is.Due++
		}
		is.Spared = timeline.Later(is.Spared, p.spared)
		idle = idle && !p.tried
	}
	if idle {
		delete(w.byNode, name)
	}
	if news.Tries == 0 && is == known.told {
		return
	}
	w.due += is.Due - known.told.Due
	known.told = is
	is.Tries, is.From, is.Due = news.Tries, news.From, w.due
	w.builtIn.Decided(is)
}

// BuiltIn follows how the built-in controller's backlog grows, in a cluster in which the built-in runs and an admission
// policy keeps it from evicting; see coexist.Account. It is called concurrently.
type BuiltIn interface {
	// Decided is called with each decision about a node, before any pod is evicted because of it. It returns at once.
	Decided(decision NodeDecision)
	// Recorded returns once all decisions are recorded in the cluster. No pod may be evicted before then: if this
	// process is killed, only the record keeps the built-in from deleting pods that took the names of evicted ones. If
	// it returns an error, the built-in is left to evict.
	Recorded(ctx context.Context) error
}

// NodeDecision is what the built-in does about the pods of a node, and which of them stay.
type NodeDecision struct {
	Node string
	// Tries is how many evictions the built-in has begun since the last decision, From the instant of the first of these.
	Tries int
	From  time.Time
	// Due is how many pods of all nodes are due now, including those that are held, refused or terminating. If the
	// built-in restarts, it tries all of them again.
	Due int
	// Spared is when the last pod that the built-in tried and that stays was spared; zero if there is none.
	Spared time.Time
	// Stays reports whether some pod of the node stays, for now or for good, whether it was tried or not.
	Stays bool
}

// alone is the BuiltIn of a cluster in which the built-in does not run.
type alone struct{}

func (alone) Decided(NodeDecision)           {}
func (alone) Recorded(context.Context) error { return nil }

// notRecordedError says that an eviction waits until the built-in's backlog is recorded. It hides the kind of the
// underlying error, because the eviction of this pod was not refused.
type notRecordedError struct{ cause error }

// Error implements error.
func (e notRecordedError) Error() string {
	return "no pod is evicted before the built-in controller's backlog is recorded: " + e.cause.Error()
}
