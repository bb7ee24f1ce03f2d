// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// Calls hang, fail, and lose their answers, while nodes are untainted and tainted again, with few slots.
func TestNoEvictionIsLostDoubledOrDoneAfterAnUntaintWhereCallsHang(t *testing.T) {
	var aborted, deleted, cancelled, late float64
	for seed := range uint64(60) {
		playMany(t, func(t *testing.T, w *world) {
			r := rand.New(rand.NewPCG(seed, 11))
			var mu sync.Mutex
			repaired, tainted, untainted := false, map[string]bool{}, map[string]time.Time{}
			nodeOf, carriedOut := map[string]string{}, map[string]time.Time{}
			random := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
			hook := func(after bool) bubble.Hook {
				return func(ctx context.Context, q bubble.Request) error {
					if q.Verb == "patch" && q.Resource == "nodes" { // the fake clientset has no optimistic lock
						return nil
					}
					if after && q.Verb == "delete" {
						mu.Lock()
						node := nodeOf[q.Name]
						if _, twice := carriedOut[q.Name]; twice {
							t.Errorf("seed %d: pod %s is deleted twice", seed, q.Name)
						}
						carriedOut[q.Name] = time.Now()
						if !tainted[node] && time.Since(untainted[node]) > 600*ms {
							t.Errorf("seed %d: pod %s is deleted %v after an untaint", seed, q.Name, time.Since(untainted[node]))
						}
						mu.Unlock()
					}
					mu.Lock()
					over := repaired
					mu.Unlock()
					if over {
						return nil
					}
					switch random(12) {
					case 0, 1:
						return errors.Join(bubble.Takes(ctx, time.Duration(random(30_000)+1)*ms), errWebhook)
					case 2, 3, 4:
						return bubble.Takes(ctx, time.Duration(random(8000)+1)*ms)
					case 5:
						return apierrors.NewForbidden(podsResource, q.Name, errors.New("no"))
					}
					return nil
				}
			}
			slow := &bubble.Slow{Clientset: w.client, Before: hook(false), After: hook(true)}
			const nodes, pods = 12, 15
			for i := range nodes {
				w.addNode(fmt.Sprint("n", i))
				for j := range pods {
					name := fmt.Sprint("p-", i, "-", j)
					nodeOf[name] = fmt.Sprint("n", i)
					w.addPod(name, onNode(fmt.Sprint("n", i)), tolerating("k", int64(r.IntN(4)*5)))
				}
			}
			w.run(func(c *Config) { c.Client, c.EventClient, c.ConcurrentEvictions = slow, w.client, 2 })
			for range 60 {
				w.pass(time.Duration(random(4000)+1) * ms)
				name := fmt.Sprint("n", random(nodes))
				mu.Lock()
				is := tainted[name]
				tainted[name] = !is
				untainted[name] = time.Now()
				mu.Unlock()
				if is {
					w.taint(name, "k-")
				} else {
					w.taint(name, "k:NoExecute")
				}
			}
			mu.Lock()
			repaired = true
			mu.Unlock()
			w.pass(7 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			for name, node := range nodeOf {
				at, gone := carriedOut[name]
				if tainted[node] && !gone {
					t.Errorf("seed %d: pod %s is still there", seed, name)
				}
				if tainted[node] && gone && at.Sub(w.start) > 0 {
					late++
				}
				said := w.did("event Cancelling deletion of Pod default/" + name)
				if gone && len(said) > 0 && w.start.Add(said[len(said)-1]).After(at.Add(ms)) && exact(w, name) {
					t.Errorf("seed %d: pod %s was deleted at %v, and said to be cancelled at %v", seed, name, at.Sub(w.start), said)
				}
				cancelled += float64(len(said))
			}
			a, _ := w.metric("taintkeeper_retries_total", "Aborted")
			d, _ := w.metric("taintkeeper_evictions_total", "deleted")
			aborted, deleted = aborted+a, deleted+d
			if ahead, _ := w.metric("taintkeeper_due_evictions", ""); ahead != 0 {
				t.Errorf("seed %d: %v evictions are due at the end", seed, ahead)
			}
		})
	}
	t.Log("aborted", aborted, "deleted", deleted, "cancelled", cancelled)
}

// exact tells p-1-1 from p-1-10 by what the event says.
func exact(w *world, name string) bool {
	for _, c := range w.book.Calls() {
		if strings.HasSuffix(c.What, "default/"+name) && strings.HasPrefix(c.What, "event Cancelling") {
			return true
		}
	}
	return false
}
