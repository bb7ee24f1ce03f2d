// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// confirmedFor is how long one live read of a node serves for the pods of that node. A second after an accepted
	// untaint no more pods are deleted, whatever the watch does.
	confirmedFor = 500 * time.Millisecond
	// passedFor is how long a live read is remembered until the watch passes it: how far the watch may lag.
	passedFor = 10 * time.Second
	// stuckAfter is how long other tries wait for a read. An API server that is merely slow answers sooner.
	stuckAfter = 4 * time.Second
)

// writer is what everything that writes to the API server shares.
type writer struct {
	judge

	api     api
	live    *liveNodes
	writers *writers
	events  *events
	metrics *metrics
}

// liveNodes reads nodes from the API server itself. Callers that need a node at about the same time share one read.
// Safe for concurrent use.
type liveNodes struct {
	api   api
	clock *timeline.Clock

	mu       sync.Mutex
	underWay map[string]*readUnderWay
	reads    map[string]reads
	swept    time.Time // when useless reads were last forgotten
}

func newLiveNodes(api api, clock *timeline.Clock) *liveNodes {
	return &liveNodes{api: api, clock: clock, underWay: map[string]*readUnderWay{}, reads: map[string]reads{}}
}

// readUnderWay is a read of a node for all callers that wait for it. When the last caller is aborted, so is the read.
type readUnderWay struct {
	began   time.Time
	waiting int
	abort   context.CancelCauseFunc
	over    chan struct{} // closed when the read has ended; the fields below are set then
	read    liveRead
	err     error
}

// reads are the live reads of one node that are still useful.
type reads struct {
	newest liveRead
	passed liveRead // the newest read that the watch has passed
	ahead  liveRead // the oldest read that the watch has not passed yet
}

type liveRead struct {
	started time.Time
	node    *corev1.Node // nil if there was no node
}

// node returns the node as the API server had it after the given instant, at which the newer of the pod and the taints
// was seen. It uses a read of its own, or another caller's that started at most confirmedFor ago. When the context is
// aborted, it stops waiting and leaves the read to others.
func (l *liveNodes) node(ctx context.Context, name string, after time.Time) (liveRead, error) {
	for {
		read, underWay := l.join(ctx, name, after)
		if underWay == nil {
			return read, nil
		}
		select {
		case <-apicall.Aborted(ctx):
			l.leave(name, underWay)
			return liveRead{}, apicall.AbortCause(ctx)
		case <-underWay.over:
		}
		if underWay.err != nil {
			return liveRead{}, underWay.err
		}
		// A read that was under way already may have started too early.
		if read := underWay.read; !read.started.Before(after) {
			return read, nil
		}
	}
}

// join returns a finished read of a node that is recent enough, or one under way to wait for. New callers do not wait
// for a read that is stuck.
func (l *liveNodes) join(ctx context.Context, name string, after time.Time) (liveRead, *readUnderWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if read := l.reads[name].newest; l.recent(read) && !read.started.Before(after) {
		return read, nil
	}
	r, ok := l.underWay[name]
	if !ok || l.clock.Since(r.began) > stuckAfter {
		reading, abort := apicall.Abortable(ctx)
		r = &readUnderWay{began: l.clock.Now(), abort: abort, over: make(chan struct{})}
		l.underWay[name] = r
		go func() {
			defer close(r.over)
			r.read, r.err = l.read(reading, name)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(name, r)
		}()
	}
	r.waiting++
	return liveRead{}, r
}

// leave notes that a caller no longer waits for a read.
func (l *liveNodes) leave(name string, r *readUnderWay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		l.end(name, r)
	}
}

// end makes later callers start another read. The caller holds the lock.
func (l *liveNodes) end(name string, r *readUnderWay) {
	if l.underWay[name] == r {
		delete(l.underWay, name)
	}
	r.abort(nil)
}

func (l *liveNodes) recent(read liveRead) bool {
	return read.node != nil && l.clock.Since(read.started) < confirmedFor
}

func (l *liveNodes) read(ctx context.Context, name string) (liveRead, error) {
	started := l.clock.Now()
	node, err := apicall.GetNode(ctx, l.api.client, l.api.limiter, name)
	if err != nil {
		return liveRead{}, err
	}
	read := liveRead{started: started, node: remembered(node)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if started.Sub(l.swept) >= passedFor {
		maps.DeleteFunc(l.reads, func(_ string, old reads) bool { return started.Sub(old.newest.started) >= passedFor })
		l.swept = started
	}
	known := l.reads[name]
	if !started.Before(known.newest.started) { // another may have started later and ended first
		known.newest = read
	}
	l.reads[name] = known
	return read, nil
}

// remembered returns the parts of a live node that are needed. Most of it, such as its images, is not.
func remembered(node *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			UID:             node.UID,
			ResourceVersion: node.ResourceVersion,
			ManagedFields: slices.DeleteFunc(slices.Clone(node.ManagedFields), func(entry metav1.ManagedFieldsEntry) bool {
				return entry.Operation != metav1.ManagedFieldsOperationApply
			}),
		},
		Spec: corev1.NodeSpec{Taints: node.Spec.Taints},
	}
}

// passed returns the newest read of a node that started after the given instant and that the watch, at the given
// version, has passed. If a node changes all the time and the watch lags, a read never returns the version that the
// watch has just brought, but the watch will soon pass what was read now.
func (l *liveNodes) passed(name, version string, after time.Time) liveRead {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.reads[name]
	if !ok {
		return liveRead{}
	}
	if known.ahead.node == nil || l.clock.Since(known.ahead.started) > passedFor {
		known.ahead = known.newest
	}
	if notAfter(known.ahead.node.ResourceVersion, version) {
		known.passed, known.ahead = known.ahead, liveRead{}
	}
	l.reads[name] = known
	if known.passed.started.Before(after) || l.clock.Since(known.passed.started) > passedFor {
		return liveRead{}
	}
	return known.passed
}

// confirmedBy returns the taints of a node that a live read shows too, if they are certainly the same and were not
// removed and added again since. passed is another read that the watch has passed since, or nil.
func confirmedBy(known *nodecache.Node, live, passed *corev1.Node) []verdict.Taint {
	var all []verdict.Taint
	if live.UID != known.UID {
		return nil
	}
	for _, taint := range taints.NoExecute(live.Spec.Taints) {
		for _, is := range known.NoExecute {
			toTheSecond, confirmed := confirm(known, is, taint, live, passed)
			if toTheSecond {
				is = is.ToTheSecond()
			}
			if confirmed {
				all = append(all, is)
			}
		}
	}
	return all
}

// confirm returns the known taint as far as the live one confirms it. It is confirmed as it is if the watch has passed
// the version that was read and the taint was there all along, or if it reads the same and the watch has passed another
// recent read. Otherwise only its timeAdded can tell, to the second.
func confirm(known *nodecache.Node, is verdict.Taint, taint corev1.Taint, live, passed *corev1.Node) (
	toTheSecond, confirmed bool,
) {
	switch {
	case is.Key != taint.Key || is.Value != taint.Value:
		return false, false
	case covers(known, is, live):
		return false, true
	case passed != nil && passed.UID == known.UID && taint.TimeAdded.Equal(is.TimeAdded) && covers(known, is, passed):
		return false, true
	}
	return true, is.ToldBy(taint.TimeAdded)
}

// covers reports whether the node certainly had the taint in a version: whether that lies between the version in which
// the taint was first seen and the newest that the watch has brought.
func covers(known *nodecache.Node, is verdict.Taint, live *corev1.Node) bool {
	version, newest := live.ResourceVersion, known.ResourceVersion
	return version == newest || notAfter(is.From, version) && notAfter(version, newest)
}

// wentBack reports whether a read that began after the watch had brought a version shows an older one. In that case
// etcd was restored from a snapshot, its revisions went back, and a version that the watch has brought can now mean
// another state of the node.
func wentBack(known *nodecache.Node, read liveRead) bool {
	return read.started.After(known.Shown) && !notAfter(known.ResourceVersion, read.node.ResourceVersion) &&
		notAfter(read.node.ResourceVersion, known.ResourceVersion)
}

// notAfter compares two resourceVersions of one node, which the API server counts up (KEP-5504).
func notAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}
