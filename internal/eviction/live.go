// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
)

// confirmedFor is how long one live read of a node serves for the pods of that node. Within a
// second of an accepted untaint no pod is deleted any more, whatever the watch is doing.
const confirmedFor = 500 * time.Millisecond

// liveNodes reads nodes from the API server itself, once per node and moment. Safe for concurrent use.
type liveNodes struct {
	api   api
	group singleflight.Group

	mu    sync.Mutex
	reads map[string]liveRead
}

type liveRead struct {
	started time.Time
	node    *corev1.Node
}

// node returns the node as the API server had it after the given instant, at which the newest of
// what is to be confirmed was seen, pod or taints: by a read of its own, or another's that started at most confirmedFor ago.
func (l *liveNodes) node(ctx context.Context, name string, after time.Time) (*corev1.Node, error) {
	asked := time.Now()
	if read, ok := l.recent(name); ok && !read.started.Before(after) {
		return read.node, nil
	}
	for {
		read, err, _ := l.group.Do(name, func() (any, error) {
			if read, ok := l.recent(name); ok && !read.started.Before(after) { // it ended while we came here
				return read, nil
			}
			return l.read(ctx, name)
		})
		if err != nil {
			return nil, err
		}
		// A read that was under way already may have started too early. One of our own has not, even
		// if the wall clock was set back since.
		if read := read.(liveRead); !read.started.Before(after) || !read.started.Before(asked) {
			return read.node, nil
		}
	}
}

func (l *liveNodes) recent(name string) (liveRead, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	read, ok := l.reads[name]
	return read, ok && time.Since(read.started) < confirmedFor
}

func (l *liveNodes) read(ctx context.Context, name string) (liveRead, error) {
	started := time.Now()
	node, err := l.api.node(ctx, name)
	if err != nil {
		return liveRead{}, err
	}
	read := liveRead{started: started, node: node}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.reads, func(_ string, old liveRead) bool { return started.Sub(old.started) >= confirmedFor })
	l.reads[name] = read
	return read, nil
}
