// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

// Workers begin, hang, fail, are aborted and withdrawn, are slow to end, and panic, at random: nothing leaks.
func TestTheAccountingOfSlotsOverRandomHistories(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			const count = 4
			slots := newSlots(count)
			q := queue{PriorityQueue: priorityqueue.New[PodRequest](""), slots: slots, turns: &turns{}}
			r := rand.New(rand.NewPCG(seed, 3))
			random := make(chan int)
			stop := make(chan struct{})
			go func() {
				for {
					select {
					case random <- r.IntN(1 << 30):
					case <-stop:
						return
					}
				}
			}()
			for range count * inFlightPerSlot {
				go func() {
					for {
						req, _, shutdown := q.GetWithPriority()
						if shutdown {
							return
						}
						func() {
							defer q.Done(req)
							if <-random%10 == 0 {
								return // not yet
							}
							try, ctx := slots.begin(t.Context(), req, fmt.Sprint("n", <-random%5), &attempt{failures: <-random % 3})
							for range <-random % 3 {
								slots.step(try)
								select {
								case <-time.After(time.Duration(<-random%9000+1) * ms):
								case <-apicall.Aborted(ctx):
								}
							}
							if <-random%20 == 0 {
								return // as after a panic
							}
							if slots.end(try) != nil && <-random%3 == 0 {
								time.Sleep(time.Duration(<-random%20000+1) * ms) //nolint:forbidigo // virtual time
							}
						}()
					}
				}()
			}
			for i := range 1500 {
				q.Add(PodRequest{Name: fmt.Sprint(<-random % 300)})
				if i%3 == 0 {
					slots.withdraw(PodRequest{Name: fmt.Sprint(<-random % 300)})
				}
				time.Sleep(time.Duration(<-random%60+1) * ms) //nolint:forbidigo // virtual time
				slots.mu.Lock()
				hanging := map[string]int{}
				all := 0
				for _, try := range slots.open {
					if try.hangs {
						hanging[try.node]++
						all++
					}
				}
				if fmt.Sprint(hanging) != fmt.Sprint(slots.hanging) || all > count*inFlightPerSlot {
					t.Errorf("hanging %v, want %v", slots.hanging, hanging)
				}
				slots.mu.Unlock()
			}
			time.Sleep(5 * time.Minute) //nolint:forbidigo // virtual time
			synctest.Wait()
			slots.mu.Lock()
			// The workers that wait for a request have a slot each.
			if taken := len(slots.free); taken != count || len(slots.open) != 0 || len(slots.hanging) != 0 {
				t.Errorf("seed %d: %d slots are taken, %d are open, %v hang", seed, taken, len(slots.open), slots.hanging)
			}
			slots.mu.Unlock()
			q.ShutDown()
			synctest.Wait()
			if taken := len(slots.free); taken != 0 {
				t.Errorf("seed %d: %d slots are taken after the end", seed, taken)
			}
			close(stop)
		})
	}
}

func TestUnderALimitOfOurOwnWhatIsStuckMakesRoom(t *testing.T) {
	for _, perSecond := range []int{20, 50, 200} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			playMany(t, func(t *testing.T, w *world) {
				server := w.slow(hangingDeletes(30 * sec))
				w.addStuckPods(600)
				w.run(server.behind, func(c *Config) { c.Limiter = rate.NewLimiter(rate.Limit(perSecond), 1) })
				for range 8 {
					w.pass(15 * sec)
					t.Log(perSecond, time.Since(w.start), server.mostOpen())
					server.forget()
				}
			})
		})
	}
}
