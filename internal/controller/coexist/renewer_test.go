// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

func TestMain(m *testing.M) { bubble.Main(m) }

const namespace = "kube-system"

// evictor is the state of this process's evictions, as a test sets it. Its two watches bring something every minute
// unless one is silent.
type evictor struct {
	mu       sync.Mutex
	unsynced bool
	silent   bool
	stalled  bool
	overdue  map[string]int
	heard    time.Time
}

func (e *evictor) set(change func(*evictor)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *evictor) HasSynced() bool            { e.mu.Lock(); defer e.mu.Unlock(); return !e.unsynced }
func (e *evictor) Stalled(time.Duration) bool { e.mu.Lock(); defer e.mu.Unlock(); return e.stalled }

func (e *evictor) Overdue() map[string]eviction.Overdue {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]eviction.Overdue{}
	for node, pods := range e.overdue {
		all[node] = eviction.Overdue{Pods: pods, Since: time.Now()}
	}
	return all
}

func (e *evictor) Spares(live *corev1.Node) bool { return len(taints.NoExecute(live.Spec.Taints)) == 0 }

func (e *evictor) Versions() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.silent {
		e.heard = time.Now()
	}
	minute := func(at time.Time) string { return strconv.FormatInt(at.Unix()/60, 10) }
	return []string{minute(e.heard), minute(time.Now())}
}

// scene is a ClockRenewer in virtual time.
type scene struct {
	t       *testing.T
	client  *fake.Clientset
	evictor *evictor
	renewer *ClockRenewer
	stop    func()
	hangs   atomic.Bool
	denied  sync.Map                     // verbs that this process is not allowed to use
	refusal atomic.Pointer[func() error] // of patches of the ServiceAccount
}

func play(t *testing.T, test func(s *scene), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServiceAccount}}
		s := &scene{t: t, client: fake.NewClientset(account), evictor: &evictor{}}
		s.client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
			review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
			if s.hangs.Load() {
				return true, nil, context.DeadlineExceeded
			}
			_, denied := s.denied.Load(review.Spec.ResourceAttributes.Verb)
			review.Status.Allowed = !denied
			return true, review, nil
		})
		s.client.PrependReactor("patch", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
			refuse := s.refusal.Load()
			if refuse == nil {
				return false, nil, nil
			}
			err := (*refuse)()
			return err != nil, nil, err
		})
		config := s.config()
		for _, apply := range change {
			apply(&config)
		}
		renewer, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		s.renewer = renewer
		s.stop = bubble.Run(t, "the ClockRenewer", renewer.Run)
		test(s)
	})
}

func (s *scene) config() Config {
	clock := &timeline.Clock{}
	return Config{
		Client: s.client, Clock: clock, Pods: podcache.New(s.client, clock), Evictor: s.evictor,
		Account:   newAccount(s.client, clock),
		Namespace: namespace, Logger: logr.Discard(),
	}
}

// newAccount makes an Account that sees neither nodes nor pods.
func newAccount(client kubernetes.Interface, clock *timeline.Clock) *Account {
	caches := caches.New(client, clock, false)
	return NewAccount(AccountConfig{
		Client: client, Clock: clock, Nodes: caches.Nodes, Pods: caches.Pods, Namespace: namespace,
	})
}

func (s *scene) must(_ any, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

// account returns the ServiceAccount as the API server has it.
func (s *scene) account() *corev1.ServiceAccount {
	s.t.Helper()
	account, err := s.client.CoreV1().ServiceAccounts(namespace).Get(s.t.Context(), ServiceAccount, metav1.GetOptions{})
	s.must(nil, err)
	return account
}

func (s *scene) found() builtin.Record { return recordOf(s.account().Annotations) }

// age returns how old the clock is; false if there is none.
func (s *scene) age() (time.Duration, bool) {
	s.t.Helper()
	value, ok := s.account().Annotations[Annotation]
	if !ok {
		return 0, false
	}
	renewed, err := time.Parse(time.RFC3339, value)
	s.must(nil, err)
	return time.Since(renewed), true
}

func (s *scene) wantRenewed() {
	s.t.Helper()
	if age, ok := s.age(); !ok || age > renewEvery+time.Second {
		s.t.Errorf("the clock is there: %t, and %v old; want it renewed every %v", ok, age, renewEvery)
	}
}

func TestTheClockIsRenewedEvery5Seconds(t *testing.T) {
	play(t, func(s *scene) {
		for range 60 {
			s.pass(7 * time.Second)
			s.wantRenewed()
		}
	})
}

func TestTheClockIsRenewedOnlyWhileThisProcessCanEvict(t *testing.T) {
	set := func(change func(e *evictor, trouble bool)) func(s *scene, trouble bool) {
		return func(s *scene, trouble bool) { s.evictor.set(func(e *evictor) { change(e, trouble) }) }
	}
	denied := func(verb string) func(s *scene, trouble bool) {
		return func(s *scene, trouble bool) {
			if s.denied.Store(verb, true); !trouble {
				s.denied.Delete(verb)
			}
		}
	}
	for name, trouble := range map[string]func(s *scene, is bool){
		"its caches are not complete": set(func(e *evictor, is bool) { e.unsynced = is }),
		"it begins no eviction":       set(func(e *evictor, is bool) { e.stalled = is }),
		"one of its watches is silent": func(s *scene, is bool) {
			if s.evictor.set(func(e *evictor) { e.silent = is }); is {
				s.pass(silentFor)
			}
		},
		"it may not delete pods anymore":   denied("delete"),
		"it may not set their condition":   denied("patch"),
		"the API server does not answer":   func(s *scene, is bool) { s.hangs.Store(is) },
		"the API server refuses the write": func(s *scene, is bool) { s.refuse(is, errors.New("no")) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.wantRenewed()
				trouble(s, true)
				s.pass(validFor)
				if age, ok := s.age(); ok && age < validFor-renewEvery {
					s.t.Errorf("the clock is %v old, want it not renewed for %v", age, validFor)
				}
				trouble(s, false)
				s.pass(renewEvery + time.Second)
				s.wantRenewed()
			})
		})
	}
}

// refuse answers patches of the ServiceAccount with an error, until they are accepted again.
func (s *scene) refuse(is bool, err error) {
	if s.refusal.Store(nil); is {
		s.refusal.Store(new(func() error { return err }))
	}
}

// As long as it holds the Lease no standby can take over.
func TestAProcessThatCannotEvictGivesUpTheLead(t *testing.T) {
	for name, test := range map[string]struct {
		begin func(*evictor)
		after time.Duration
	}{
		"it begins no eviction": {func(e *evictor) { e.stalled = true }, 0},
		"a watch is silent":     {func(e *evictor) { e.silent = true }, silentFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, client: fake.NewClientset(), evictor: &evictor{}}
				renewer, err := New(s.config())
				s.must(nil, err)
				s.evictor.set(test.begin)
				began := time.Now()
				err = renewer.Run(t.Context())
				if took := time.Since(began); err == nil || took > test.after+giveUpAfter+2*renewEvery {
					t.Errorf("it gave up the lead after %v: %v", took, err)
				}
			})
		})
	}
}

func TestMarksOfTheBuiltInAreCountedOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		marked := &podcache.Pod{Flags: podcache.MarkedByBuiltIn}
		for _, change := range []podcache.Change{
			{Before: &podcache.Pod{}, After: marked}, {Before: marked, After: marked}, {After: marked}, {Before: marked},
		} {
			s.renewer.observe(change)
		}
		s.hangs.Store(true)
		s.pass(time.Minute)
		s.renewer.observe(podcache.Change{Before: &podcache.Pod{}, After: marked})
		for clock, want := range map[string]float64{clockFresh: 1, clockStale: 1} {
			if got := testutil.ToFloat64(s.renewer.metrics.foreignMarks.WithLabelValues(clock)); got != want {
				t.Errorf("%v marks while the clock is %s, want %v", got, clock, want)
			}
		}
	})
}

// taintedNode returns a node with a NoExecute taint that was added an hour ago, and another taint.
func taintedNode() *corev1.Node {
	before := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &before},
			{Key: "k", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &before},
		}},
	}
}

// handBack hands back with a due pod on node "n" and on one that is gone, and reports whether the NoExecute taint of
// node "n" was touched.
func (s *scene) handBack() (touched bool) {
	s.t.Helper()
	nodes := s.client.CoreV1().Nodes()
	s.must(nodes.Create(s.t.Context(), taintedNode(), metav1.CreateOptions{}))
	s.evictor.set(func(e *evictor) { e.overdue = map[string]int{"n": 1, "gone": 1} })
	s.must(nil, s.renewer.HandBack(s.t.Context()))
	node, err := nodes.Get(s.t.Context(), "n", metav1.GetOptions{})
	s.must(nil, err)
	if since := time.Since(node.Spec.Taints[1].TimeAdded.Time); since < time.Hour-time.Second {
		s.t.Errorf("the NoSchedule taint is touched, too: it is %v old", since)
	}
	return time.Since(node.Spec.Taints[0].TimeAdded.Time) < 20*time.Second
}

// underLease makes the ClockRenewer one of a replica that was elected.
func underLease(c *Config) { c.Lease, c.TakeOver = "taintkeeper", 5*time.Second }

func (s *scene) lease(transitions int32) {
	s.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "taintkeeper"}}
	lease.Spec.LeaseTransitions = &transitions
	leases := s.client.CoordinationV1().Leases(namespace)
	if _, err := leases.Update(s.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		s.must(leases.Create(s.t.Context(), lease, metav1.CreateOptions{}))
	}
}

// The built-in tries 100 pods for 55 s. A second try for one of them deletes whatever pod has taken its name.
func TestAHandBackTakesTheClockAwayLeavesTheHoldAndMakesTheBuiltInTryNoPodTwiceAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		storm   int // pods
		after   time.Duration
		touched bool
	}{
		"nothing was due before":         {0, 0, true},
		"the built-in still tries pods":  {100, 10 * time.Second, false},
		"for another 2 s":                {100, 53 * time.Second, true},
		"it has tried them and given up": {100, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.storm(test.storm)
				s.pass(test.after)
				s.stop()
				began, before, patched := time.Now(), s.found(), map[string]time.Time{}
				s.client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
					patched[action.GetResource().Resource] = time.Now()
					return false, nil, nil
				})
				if touched := s.handBack(); touched != test.touched {
					t.Errorf("the taint of the node with due pods is touched: %t, want %t", touched, test.touched)
				}
				if _, ok := s.age(); ok {
					t.Error("the clock is still there")
				}
				if got := s.found(); test.storm > 0 && !got.Since.Equal(before.Since) || got.Until.Before(before.Until) {
					t.Errorf("the record is %+v, want what there was: %+v", got, before)
				}
				// API servers have a second to see that the clock is gone before the built-in tries again.
				over := began.Add(time.Duration(test.storm)*550*time.Millisecond - test.after)
				if at := patched["nodes"]; test.touched && (at.Sub(began) < seenAfter || at.Before(over.Add(seenAfter-time.Second))) {
					t.Errorf("the taints are touched %v after the hand-back began", at.Sub(began))
				}
			})
		})
	}
}

func TestAShutdownWithAStandbyHandsNothingBack(t *testing.T) {
	for name, standby := range map[string]bool{"a standby leads after 2 s": true, "no replica takes over": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				// It could not tell whether another has taken over if it did not know the Lease under which it leads.
				s.pass(20 * time.Second)
				if _, ok := s.age(); ok {
					t.Error("the clock is renewed although the Lease could not be read")
				}
				s.lease(3)
				s.pass(time.Minute)
				s.stop()
				go func() {
					if s.pass(2 * time.Second); standby {
						s.lease(4)
					}
				}()
				if touched := s.handBack(); touched == standby {
					t.Errorf("the taint of the node with due pods is touched: %t", touched)
				}
				if _, ok := s.age(); ok != standby {
					t.Errorf("the clock is still there: %t", ok)
				}
			}, underLease)
		})
	}
}

func TestAReplicaThatNeverLedHandsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, client: fake.NewClientset(), evictor: &evictor{}}
		renewer, err := New(s.config())
		s.must(nil, err)
		if err := renewer.HandBack(t.Context()); err != nil || len(s.client.Actions()) > 0 {
			t.Errorf("%v, and %d calls", err, len(s.client.Actions()))
		}
	})
}

func TestAHandBackThatFailsForManyNodesIsReportedInOneSentence(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		s.stop()
		s.evictor.set(func(e *evictor) {
			e.overdue = map[string]int{}
			for i := range 1000 {
				e.overdue[fmt.Sprintf("n%d", i)] = 1
			}
		})
		s.client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("refused")
		})
		err := s.renewer.HandBack(s.t.Context())
		if err == nil || !strings.Contains(err.Error(), "1000 of 1000 nodes") || strings.Count(err.Error(), "refused") != 1 {
			t.Errorf("told as %v", err)
		}
	})
}

func TestATaintThatIsHandedBackChangesEvenIfItIsOfThisVerySecond(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for name, test := range map[string]struct {
		added *metav1.Time
		want  string
	}{
		"it has no timeAdded":       {nil, "2026-01-02T03:04:05Z"},
		"it is older":               {&metav1.Time{Time: at.Add(-time.Second)}, "2026-01-02T03:04:05Z"},
		"it is of this very second": {&metav1.Time{Time: at.Truncate(time.Second)}, "2026-01-02T03:04:06Z"},
	} {
		taints := taintedNode().Spec.Taints
		taints[0].TimeAdded = test.added
		if added := touched(taints, at)[0].TimeAdded.UTC().Format(time.RFC3339); added != test.want {
			t.Errorf("%s: timeAdded is %s, want %s", name, added, test.want)
		}
	}
}

// This process sees nothing any longer, and reads the nodes: a node without the taint, or without a node, is spared.
func TestANodeThatIsUntaintedWhileTheLeaderStopsIsSpared(t *testing.T) {
	for name, test := range map[string]struct {
		storm   int
		exists  bool
		untaint time.Duration // from the beginning of the hand-back on
	}{
		"in a storm":                           {100, true, 0},
		"its pods came due only then":          {0, true, 0},
		"it is deleted":                        {0, false, 0},
		"just before its taint is handed back": {0, true, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.storm(test.storm)
				s.stop()
				nodes, node := s.client.CoreV1().Nodes(), taintedNode()
				if test.exists {
					s.must(nodes.Create(s.t.Context(), node, metav1.CreateOptions{}))
				}
				untaint := func() {
					node.Spec.Taints = node.Spec.Taints[1:]
					s.must(nodes.Update(s.t.Context(), node, metav1.UpdateOptions{}))
				}
				switch {
				case test.untaint > 0:
					time.AfterFunc(test.untaint, untaint)
				case test.exists:
					untaint()
				}
				due := time.Now()
				s.evictor.set(func(e *evictor) { e.overdue = map[string]int{"n": 100} })
				s.must(nil, s.renewer.HandBack(context.WithoutCancel(s.t.Context())))
				if got := s.found(); got.Spared != "n" || got.Since.After(due) {
					t.Errorf("the record is %+v, want n to be spared, since %v at the latest", got, due)
				}
			})
		})
	}
}
