// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
)

var errWebhook = apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded"))

// hangingDeletes takes its time for the deletes of pods whose names begin with "stuck", and fails them.
func hangingDeletes(takes time.Duration) func(verb, name string) (time.Duration, error) {
	return func(verb, name string) (time.Duration, error) {
		if verb == "delete" && strings.HasPrefix(name, "stuck") {
			return takes, errWebhook
		}
		return 0, nil
	}
}

func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

// wantWithin fails unless the pod was deleted once, within 5 s of its due instant.
func (w *world) wantWithin(name string, due time.Duration) {
	w.t.Helper()
	if at := w.did("delete " + name); len(at) != 1 || at[0] < due || at[0] > due+5*sec {
		w.t.Errorf("pod %s, due at %v, was deleted at %v, want within 5 s", name, due, at)
	}
}

func TestDeletesThatHangHoldUpNobody(t *testing.T) {
	for _, hang := range []struct {
		stuck int
		takes time.Duration
	}{{500, 10 * sec}, {2000, 30 * sec}} {
		t.Run(fmt.Sprintf("%d of %s", hang.stuck, hang.takes), func(t *testing.T) {
			playMany(t, func(t *testing.T, w *world) {
				server := w.slow(hangingDeletes(hang.takes))
				w.addStampedNode("n", "k:NoExecute")
				w.addStampedNode("m", "k:NoExecute")
				for i := range hang.stuck {
					w.addPod(fmt.Sprintf("stuck-%d", i))
				}
				w.addPod("of-another-node", tolerating("k", 30), onNode("m"))
				// What hangs may be waiting for it: it is due with all others, and of the highest priority.
				w.addPod("webhook", priorityOf(2_000_000_000))
				w.run(server.behind)
				w.pass(stuckAfter + 2*sec)
				first := server.mostOpen()
				server.forget()
				w.pass(2*time.Minute - stuckAfter - 2*sec)
				w.wantWithin("of-another-node", 29*sec) // the taints were set a second before the world began
				w.wantWithin("webhook", 0)
				if most := inFlightPerSlot * DefaultConcurrentEvictions; first > most+2 { // the reads of the two nodes
					t.Errorf("%d calls were open at once, want %d at most", first, most)
				}
				// Those that are aborted end at the same instant as others begin: as many as there are slots.
				if most := (inFlightWhileStuck + 1) * DefaultConcurrentEvictions; server.mostOpen() > most+2 {
					t.Errorf("%d calls were open at once after the first were stuck, want %d at most", server.mostOpen(), most)
				}
			})
		})
	}
}

func TestAPodThatWasNeverTriedComesBeforeThoseThatFailForAnHour(t *testing.T) {
	playMany(t, func(_ *testing.T, w *world) {
		server := w.slow(hangingDeletes(10 * sec))
		w.addStampedNode("n", "k:NoExecute")
		w.addNode("m")
		for i := range 200 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.addPod("fresh", onNode("m"))
		w.run(server.behind)
		w.until(hour)
		w.addPod("late-comer")
		w.taint("m", "k:NoExecute")
		w.pass(time.Minute)
		w.wantWithin("fresh", hour)
		w.wantWithin("late-comer", hour)
	})
}

func TestWhatFailsForLongIsDeletedSoonAfterItCanBe(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		var repaired atomic.Bool
		hang := hangingDeletes(10 * sec)
		server := w.slow(func(verb, name string) (time.Duration, error) {
			if repaired.Load() {
				return 0, nil
			}
			return hang(verb, name)
		})
		w.addStampedNode("n", "k:NoExecute")
		for i := range 400 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.run(server.behind)
		w.until(10 * time.Minute)
		repaired.Store(true)
		w.pass(apicall.LastBackoff + 15*sec)
		left := map[string]bool{}
		for _, name := range w.deleted() {
			left[name] = true
		}
		if len(left) != 400 {
			t.Errorf("%d of 400 pods left within 45 s", len(left))
		}
	})
}

// addThousandPods adds 100 nodes with a taint that the pods of each tolerate for the given time.
func (w *world) addThousandPods(tolerated int64) {
	for i := range 100 {
		w.addStampedNode(fmt.Sprintf("n%d", i), "k:NoExecute")
	}
	for i := range 1000 {
		w.addPod(fmt.Sprintf("p-%d", i), onNode(fmt.Sprintf("n%d", i%100)), tolerating("k", tolerated))
	}
}

// Each eviction takes 8 s or more, two reads of the node included: 176 at a time need 46 s.
func TestAThousandPodsLeaveASlowServerWithinAMinute(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(func(string, string) (time.Duration, error) { return 2 * sec, nil })
		w.addThousandPods(0)
		w.run(server.behind)
		w.pass(time.Minute)
		if got := len(w.deleted()); got != 1000 {
			t.Errorf("%d pods left within a minute, want all 1000", got)
		}
	})
}

// What hung once does not keep those slow that come long after, and one that hangs again and again is only one.
func TestAThousandPodsLeaveASlowServerWithinAMinuteAfterManyHaveHungAndWhileOneDoes(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		hang := hangingDeletes(30 * sec)
		server := w.slow(func(verb, name string) (time.Duration, error) {
			if name == "stuck-for-ever" || time.Since(w.start) < 30*sec {
				return hang(verb, name)
			}
			return 2 * sec, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		for i := range 100 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.addPod("stuck-for-ever")
		w.addThousandPods(121) // the taints were set a second before the world began
		w.run(server.behind)
		w.until(3 * time.Minute)
		if got := len(w.did("delete p-")); got != 1000 {
			t.Errorf("%d pods left within a minute, want all 1000", got)
		}
	})
}

// They all begin before the first is stuck, so that none comes which would have to make room.
func TestWhatIsStuckMakesRoomWithoutANewcomer(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(hangingDeletes(30 * sec))
		w.addStampedNode("n", "k:NoExecute")
		for i := range 176 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.run(server.behind)
		w.pass(stuckAfter + 3*sec)
		server.forget()
		w.pass(20 * sec)
		if most := inFlightWhileStuck * DefaultConcurrentEvictions; server.mostOpen() > most+2 {
			t.Errorf("%d calls were open at once after the first were stuck, want %d at most", server.mostOpen(), most)
		}
	})
}

func TestAnEvictionThatIsAbortedIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, req := newSlots(16), PodRequest{Name: "p"}
		all := slots.room()
		slots.take()
		slots.begin(t.Context(), req, "n", &attempt{})
		time.Sleep(stuckAfter - sec) //nolint:forbidigo // virtual time in a synctest bubble
		slots.withdraw(req)
		time.Sleep(2 * sec) //nolint:forbidigo // virtual time in a synctest bubble
		slots.mu.Lock()
		if got := slots.room(); got != all {
			t.Errorf("there is room for %d, want %d", got, all)
		}
		slots.mu.Unlock()
		slots.done(req)
	})
}

// A webhook that takes its time and then allows it: what was begun is not given up for what comes after it. 64 at a
// time need 313 s.
func TestSlowDeletesOfOneNodeComeToTheirEnd(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb == "delete" {
				return 10 * sec, nil
			}
			return 0, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		for i := range 2000 {
			w.addPod(fmt.Sprintf("p-%d", i))
		}
		w.run(server.behind)
		w.pass(6 * time.Minute)
		if got := len(w.deleted()); got != 2000 {
			t.Errorf("%d of 2000 pods left within 6 minutes", got)
		}
	})
}

func TestANodeWhoseEvictionsHangMakesRoomForTheSlowOnesOfAnother(t *testing.T) {
	playMany(t, func(_ *testing.T, w *world) {
		hang := hangingDeletes(30 * sec)
		server := w.slow(func(verb, name string) (time.Duration, error) {
			if name == "slow" {
				return sec, nil
			}
			return hang(verb, name)
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addStampedNode("m", "k:NoExecute")
		for i := range 2000 {
			w.addPod(fmt.Sprintf("stuck-%d", i))
		}
		w.addPod("slow", tolerating("k", 20), onNode("m"))
		w.run(server.behind)
		w.pass(time.Minute)
		w.wantWithin("slow", 19*sec)
	})
}

func TestTheOrderOfThoseThatAreDue(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	inOrder := map[string]int{
		"1: the first of a node, due first":             turnOf(0, at, 0),
		"2: the first of another node, due later":       turnOf(0, at.Add(sec), 0),
		"3: the first of a third, due as late, greater": turnOf(0, at.Add(sec), 1_000_000),
		"4: the second of a node, due long ago":         turnOf(1, at.Add(-hour), -1_000_000),
		"5: a retry, failed once":                       turnOfRetry(1, at.Add(sec)),
		"6: a retry, failed as often, later":            turnOfRetry(1, at.Add(2*sec)),
		"7: a retry, failed twice, long ago":            turnOfRetry(2, at.Add(-hour)),
	}
	var names []string
	for name := range inOrder {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return inOrder[b] - inOrder[a] })
	if !slices.IsSorted(names) {
		t.Errorf("the order is %q", names)
	}
	if turn, first := turnIn(turnOf(7, at, -1)); turn != 7 || !first {
		t.Errorf("the pod of turn 7 is of turn %d; a first try: %t", turn, first)
	}
	if _, first := turnIn(turnOfRetry(1, at)); first {
		t.Error("a retry is taken for a first try")
	}
}

// slowToReturn is a queue that another worker takes the same request from before Done returns.
type slowToReturn struct {
	priorityqueue.PriorityQueue[PodRequest]
}

func (q slowToReturn) Done(req PodRequest) {
	q.PriorityQueue.Done(req)
	synctest.Wait()
}

func TestAnEvictionThatIsBegunAgainAtOnceKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := newSlots(2)
		q := queue{PriorityQueue: slowToReturn{priorityqueue.New[PodRequest]("")}, slots: slots, turns: &turns{}}
		req := PodRequest{Name: "p"}
		work := func(takes time.Duration) {
			got, _, _ := q.GetWithPriority()
			try, _ := slots.begin(t.Context(), got, "n", &attempt{})
			time.Sleep(takes) //nolint:forbidigo // virtual time in a synctest bubble
			if err := slots.end(try); err != nil {
				t.Errorf("aborted: %v", err)
			}
			q.Done(got)
		}
		q.Add(req)
		go work(2 * patience) // it hangs
		synctest.Wait()
		q.Add(req) // the pod has to leave again
		go work(patience / 2)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time in a synctest bubble
		synctest.Wait()
		if taken, hanging := len(slots.free), slots.hangingInAll(); taken != 0 || hanging != 0 {
			t.Errorf("%d slots are taken and %d evictions hang when all are over", taken, hanging)
		}
		q.ShutDown()
	})
}

// accounts is a queue with few slots whose workers' tries hang, fail, are slow to end and panic, at random.
type accounts struct {
	queue

	draw chan int // random numbers
}

// work is one worker of the queue.
func (a accounts) work(ctx context.Context) {
	for {
		req, _, shutdown := a.GetWithPriority()
		if shutdown {
			return
		}
		a.try(ctx, req)
		a.Done(req)
	}
}

func (a accounts) try(ctx context.Context, req PodRequest) {
	if <-a.draw%10 == 0 {
		return // not yet
	}
	try, ctx := a.slots.begin(ctx, req, fmt.Sprint("n", <-a.draw%5), &attempt{failures: <-a.draw % 3})
	for range <-a.draw % 3 {
		a.slots.step(try)
		select {
		case <-time.After(time.Duration(<-a.draw%9000+1) * ms):
		case <-apicall.Aborted(ctx):
		}
	}
	if <-a.draw%20 == 0 {
		return // as after a panic
	}
	if a.slots.end(try) != nil && <-a.draw%3 == 0 { // it finds out what became of it
		<-time.After(time.Duration(<-a.draw%20_000+1) * ms)
	}
}

// check checks that what hangs is counted, and returns how many slots are taken.
func (a accounts) check(t *testing.T) int {
	t.Helper()
	a.slots.mu.Lock()
	defer a.slots.mu.Unlock()
	hanging, all := map[string]int{}, 0
	for _, try := range a.slots.open {
		if try.hangs {
			hanging[try.node]++
			all++
		}
	}
	if !maps.Equal(hanging, a.slots.hanging) || all > cap(a.slots.free)*inFlightPerSlot {
		t.Errorf("%v are counted as hanging, and %v hang", a.slots.hanging, hanging)
	}
	return len(a.slots.free)
}

func TestNoSlotIsLostOverRandomHistories(t *testing.T) {
	const histories, count, requests = 30, 4, 1500
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			inner := priorityqueue.New[PodRequest]("")
			a := accounts{queue{PriorityQueue: inner, slots: newSlots(count), turns: &turns{}}, make(chan int)}
			ctx, end := context.WithCancel(t.Context())
			go func() {
				for r := rand.New(rand.NewPCG(seed, 3)); ; {
					select {
					case a.draw <- r.IntN(1 << 30):
					case <-ctx.Done():
						return
					}
				}
			}()
			for range count * inFlightPerSlot {
				go a.work(ctx)
			}
			for i := range requests {
				a.Add(PodRequest{Name: fmt.Sprint(<-a.draw % 300)})
				if i%3 == 0 {
					a.slots.withdraw(PodRequest{Name: fmt.Sprint(<-a.draw % 300)})
				}
				<-time.After(time.Duration(<-a.draw%60+1) * ms)
				a.check(t)
			}
			<-time.After(5 * time.Minute)
			synctest.Wait()
			// The workers that wait for a request have a slot each.
			if taken := a.check(t); taken != count || len(a.slots.open) != 0 || len(a.slots.hanging) != 0 {
				t.Errorf("seed %d: %d slots are taken, %d tries are open, %v hang", seed, taken, len(a.slots.open), a.slots.hanging)
			}
			a.ShutDown()
			synctest.Wait()
			if taken := a.check(t); taken != 0 {
				t.Errorf("seed %d: %d slots are taken after the end", seed, taken)
			}
			end()
		})
	}
}

func TestUnderALimitOfOurOwnWhatIsStuckMakesRoom(t *testing.T) {
	for _, perSecond := range []rate.Limit{20, 50, 200} {
		t.Run(fmt.Sprint(perSecond, " calls a second"), func(t *testing.T) {
			playMany(t, func(t *testing.T, w *world) {
				server := w.slow(hangingDeletes(30 * sec))
				w.addStuckPods(600)
				w.run(server.behind, func(c *Config) { c.Limiter = rate.NewLimiter(perSecond, 1) })
				w.pass(15 * sec)
				for range 7 {
					server.forget()
					w.pass(15 * sec)
					if most := (inFlightWhileStuck + 1) * DefaultConcurrentEvictions; server.mostOpen() > most {
						t.Errorf("%d calls were open at once, want %d at most", server.mostOpen(), most)
					}
				}
			})
		})
	}
}

// What waits for our own limit does not hang: more evictions would only wait, too.
func TestUnderALimitOfOurOwnTheFirstPodLeavesEarlyAndNoEvictionIsAborted(t *testing.T) {
	for _, perSecond := range []int{20, 200} {
		t.Run(fmt.Sprint(perSecond, " calls a second"), func(t *testing.T) {
			playMany(t, func(t *testing.T, w *world) {
				const pods = 1000
				server := w.slow(func(string, string) (time.Duration, error) { return 20 * ms, nil })
				for i := range 10 {
					w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
				}
				for i := range pods {
					w.addPod(fmt.Sprint("p-", i), onNode(fmt.Sprint("n", i%10)))
				}
				w.run(server.behind, func(c *Config) { c.Limiter = rate.NewLimiter(rate.Limit(perSecond), 1) })
				w.pass(time.Minute * 200 / time.Duration(perSecond))
				at := w.did("delete ")
				if len(at) != pods {
					t.Errorf("%d of %d pods left", len(at), pods)
				}
				if first := 3 * sec * 20 / time.Duration(perSecond); at[0] > first {
					t.Errorf("the first pod left after %v, want within %v", at[0], first)
				}
				// Two calls a pod, and reads of its node: one serves for half a second.
				if all := pods * 7 / 2 * sec / time.Duration(perSecond); at[len(at)-1] > all {
					t.Errorf("the last pod left after %v, want within %v", at[len(at)-1], all)
				}
				if aborted, _ := w.metric("taintkeeper_retries_total", "Aborted"); aborted != 0 {
					t.Errorf("%v evictions were aborted", aborted)
				}
			})
		})
	}
}

// Nothing tells the slow one from those that hang until they have failed once.
func TestWhereOneEvictionOfEachOfManyNodesHangsTheSlowOneOfAnotherLeavesOnceTheyHaveFailed(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		hang := hangingDeletes(30 * sec)
		server := w.slow(func(verb, name string) (time.Duration, error) {
			if name == "slow" {
				return sec, nil
			}
			return hang(verb, name)
		})
		w.addStuckPods(inFlightWhileStuck * DefaultConcurrentEvictions)
		w.addStampedNode("m", "k:NoExecute")
		w.addPod("slow", tolerating("k", 2), onNode("m"))
		w.run(server.behind)
		w.pass(10 * time.Minute)
		if at := w.did("delete slow"); len(at) != 1 || at[0] > time.Minute {
			t.Errorf("deleted at %v, want within a minute", at)
		}
	})
}
