// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

// history is a random one: calls hang, are slow, are refused, and lose their answers, until all is repaired, while nodes
// are untainted and tainted again. Safe for concurrent use.
type history struct {
	t *testing.T

	mu        sync.Mutex
	random    *rand.Rand
	repaired  bool
	tainted   map[string]bool
	untainted map[string]time.Time
	nodeOf    map[string]string
	deleted   map[string]time.Time
}

// after is what happens to a call that the API server has carried out.
func (h *history) after(ctx context.Context, q bubble.Request) error {
	if q.Verb == "delete" {
		h.checkDelete(q.Name)
	}
	return h.trouble(ctx, q)
}

func (h *history) checkDelete(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, twice := h.deleted[name]; twice {
		h.t.Errorf("pod %s is deleted twice", name)
	}
	h.deleted[name] = time.Now()
	node := h.nodeOf[name]
	if since := time.Since(h.untainted[node]); !h.tainted[node] && since > confirmedFor {
		h.t.Errorf("pod %s is deleted %v after an untaint", name, since)
	}
}

// trouble is what happens to a call on its way, and to its answer.
func (h *history) trouble(ctx context.Context, q bubble.Request) error {
	h.mu.Lock()
	kind, takes := h.random.IntN(12), time.Duration(h.random.IntN(30_000)+1)*ms
	over := h.repaired || q.Verb == "patch" && q.Resource == "nodes" // the fake clientset has no optimistic lock
	h.mu.Unlock()
	switch {
	case over:
	case kind < 2:
		return errors.Join(bubble.Takes(ctx, takes), errWebhook)
	case kind < 5:
		return bubble.Takes(ctx, takes/4)
	case kind == 5:
		return errForbidden
	}
	return nil
}

// toggle taints a node, or untaints one that is tainted.
func (h *history) toggle(w *world, node string) {
	h.mu.Lock()
	h.tainted[node] = !h.tainted[node]
	edit := "k:NoExecute"
	if !h.tainted[node] {
		edit, h.untainted[node] = "k-", time.Now()
	}
	h.mu.Unlock()
	w.Taint(node, edit)
}

func TestNoEvictionIsLostDoubledOrDoneAfterAnUntaintWhereCallsHang(t *testing.T) {
	const histories, nodes, pods, turns = 30, 12, 15, 60
	aborted := 0.0
	for _, seed := range sample.Seeds(t, histories, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				r := rand.New(rand.NewPCG(seed, 11))
				h := &history{
					t: t, random: rand.New(rand.NewPCG(seed, 12)),
					tainted: map[string]bool{}, untainted: map[string]time.Time{},
					nodeOf: map[string]string{}, deleted: map[string]time.Time{},
				}
				for i := range nodes {
					node := fmt.Sprint("n", i)
					w.addNode(node)
					for j := range pods {
						name := fmt.Sprintf("p-%02d-%02d", i, j)
						h.nodeOf[name] = node
						w.addPod(name, onNode(node), tolerating("k", int64(r.IntN(4)*5)))
					}
				}
				slow := &bubble.Slow{Clientset: w.Client, Before: h.trouble, After: h.after}
				w.run(func(c *Config) { c.Client, c.EventClient, c.ConcurrentEvictions = slow, w.Client, 2 })
				for range turns {
					w.Pass(time.Duration(r.IntN(4000)+1) * ms)
					h.toggle(w, fmt.Sprint("n", r.IntN(nodes)))
				}
				h.mu.Lock()
				h.repaired = true
				h.mu.Unlock()
				w.Pass(7 * time.Minute)
				h.checkEnd(w)
				more, _ := w.metric("taintkeeper_retries_total", "Aborted")
				aborted += more
			})
		})
	}
	if aborted == 0 {
		t.Error("no eviction was aborted, so the histories are too tame")
	}
}

// checkEnd checks what is true once all that had to leave has left.
func (h *history) checkEnd(w *world) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, node := range h.nodeOf {
		at, gone := h.deleted[name]
		if h.tainted[node] && !gone {
			h.t.Errorf("pod %s is still there", name)
		}
		said := w.Did("event Cancelling deletion of Pod default/" + name)
		if gone && len(said) > 0 && w.Start.Add(said[len(said)-1]).After(at.Add(ms)) {
			h.t.Errorf("pod %s was deleted at %v, and its eviction was reported as cancelled at %v", name, at.Sub(w.Start), said)
		}
	}
	counts("taintkeeper_due_evictions", "", 0)(w)
}
