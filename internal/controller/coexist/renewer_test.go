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
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

const namespace = "kube-system"

// evictor is the state of this process's evictions, as a test sets it. Its watches bring something every minute unless
// they are silent.
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
	return []string{strconv.FormatInt(e.heard.Unix()/60, 10)}
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

func (s *scene) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

// age returns how old the clock is; false if there is none.
func (s *scene) age() (time.Duration, bool) {
	s.t.Helper()
	account, err := s.client.CoreV1().ServiceAccounts(namespace).Get(s.t.Context(), ServiceAccount, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	value, ok := account.Annotations[Annotation]
	if !ok {
		return 0, false
	}
	renewed, err := time.Parse(time.RFC3339, value)
	if err != nil {
		s.t.Fatal(err)
	}
	return time.Since(renewed), true
}

func (s *scene) wantRenewed() {
	s.t.Helper()
	if age, ok := s.age(); !ok || age > renewEvery+time.Second {
		s.t.Errorf("the clock is there: %t, and %v old; want it renewed every %v", ok, age, renewEvery)
	}
}

func (s *scene) wantNotRenewedFor(d time.Duration) {
	s.t.Helper()
	if age, ok := s.age(); ok && age < d-renewEvery {
		s.t.Errorf("the clock is %v old, want it not renewed for %v", age, d)
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
	for name, trouble := range map[string]struct{ begin, end func(s *scene) }{
		"its caches are not complete": {
			func(s *scene) { s.evictor.set(func(e *evictor) { e.unsynced = true }) },
			func(s *scene) { s.evictor.set(func(e *evictor) { e.unsynced = false }) },
		},
		"it begins no eviction": {
			func(s *scene) { s.evictor.set(func(e *evictor) { e.stalled = true }) },
			func(s *scene) { s.evictor.set(func(e *evictor) { e.stalled = false }) },
		},
		"a watch is silent": {
			func(s *scene) {
				s.evictor.set(func(e *evictor) { e.silent = true })
				s.pass(silentFor)
			},
			func(s *scene) {
				s.evictor.set(func(e *evictor) { e.silent = false })
			},
		},
		"it may not delete pods anymore": {
			func(s *scene) { s.denied.Store("delete", true) },
			func(s *scene) { s.denied.Delete("delete") },
		},
		"it may not set their condition": {
			func(s *scene) { s.denied.Store("patch", true) },
			func(s *scene) { s.denied.Delete("patch") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.wantRenewed()
				trouble.begin(s)
				s.pass(validFor)
				s.wantNotRenewedFor(validFor)
				trouble.end(s)
				s.pass(renewEvery + time.Second)
				s.wantRenewed()
			})
		})
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
				s := &scene{client: fake.NewClientset(), evictor: &evictor{}}
				renewer, err := New(s.config())
				if err != nil {
					t.Fatal(err)
				}
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

func TestAnAPIServerThatDoesNotAnswerGetsNoRenewal(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		s.hangs.Store(true)
		s.pass(validFor)
		s.wantNotRenewedFor(validFor)
		s.hangs.Store(false)
		s.pass(renewEvery + time.Second)
		s.wantRenewed()
	})
}

func TestAReplicaThatHasLostTheLeadRenewsNoMore(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		s.stop()
		s.pass(time.Minute)
		s.wantNotRenewedFor(time.Minute)
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

func (s *scene) handBack() (touched bool) {
	s.t.Helper()
	if _, err := s.client.CoreV1().Nodes().Create(s.t.Context(), taintedNode(), metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.evictor.set(func(e *evictor) { e.overdue = map[string]int{"n": 1, "gone": 1} })
	if err := s.renewer.HandBack(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	node, err := s.client.CoreV1().Nodes().Get(s.t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if since := time.Since(node.Spec.Taints[1].TimeAdded.Time); since < time.Hour-time.Second {
		s.t.Errorf("the NoSchedule taint is touched, too: it is %v old", since)
	}
	return time.Since(node.Spec.Taints[0].TimeAdded.Time) < 20*time.Second
}

func TestAShutdownWithoutAStandbyHandsTheEvictionsBackAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		s.stop()
		if !s.handBack() {
			t.Error("the taint of the node with due pods is not touched")
		}
		if age, ok := s.age(); ok {
			t.Errorf("the clock is still there, %v old", age)
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
		t.Run(name, func(t *testing.T) {
			taints := taintedNode().Spec.Taints
			taints[0].TimeAdded = test.added
			got := touched(taints, at)
			if added := got[0].TimeAdded.UTC().Format(time.RFC3339); added != test.want {
				t.Errorf("timeAdded is %s, want %s", added, test.want)
			}
		})
	}
}

func TestTheAPIServersHaveASecondToSeeThatTheClockIsGoneBeforeTheBuiltInTriesAgain(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		s.stop()
		patched := map[string]time.Time{}
		s.client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patched[action.GetResource().Resource] = time.Now()
			return false, nil, nil
		})
		s.handBack()
		if after := patched["nodes"].Sub(patched["serviceaccounts"]); after < seenAfter {
			t.Errorf("the taints are touched %v after the clock is gone", after)
		}
	})
}

// underLease makes the ClockRenewer one of a replica that was elected.
func underLease(c *Config) { c.Lease, c.TakeOver = "taintkeeper", 5*time.Second }

func (s *scene) lease(transitions int32) {
	s.t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "taintkeeper"}}
	lease.Spec.LeaseTransitions = &transitions
	leases := s.client.CoordinationV1().Leases(namespace)
	_, err := leases.Update(s.t.Context(), lease, metav1.UpdateOptions{})
	if err != nil {
		_, err = leases.Create(s.t.Context(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAShutdownUnderAnElectionHandsBackWhenNoReplicaTakesOver(t *testing.T) {
	play(t, func(s *scene) {
		s.lease(3)
		s.pass(time.Minute)
		s.stop()
		if !s.handBack() {
			t.Error("no replica took over, but the taint of the node with due pods is not touched")
		}
	}, underLease)
}

func TestAShutdownWithAStandbyHandsNothingBack(t *testing.T) {
	play(t, func(s *scene) {
		s.lease(3)
		s.pass(time.Minute)
		s.stop()
		go func() {
			s.pass(2 * time.Second)
			s.lease(4)
		}()
		if s.handBack() {
			t.Error("another took over, and the taint of the node with due pods is touched")
		}
		if _, ok := s.age(); !ok {
			t.Error("the clock is taken away from the one who took over")
		}
	}, underLease)
}

// It could not tell whether another replica has taken over when it stops.
func TestTheClockIsNotRenewedBeforeTheLeaseWasReadUnderWhichTheProcessLeads(t *testing.T) {
	play(t, func(s *scene) {
		var readable atomic.Bool
		s.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !readable.Load(), nil, errors.New("etcdserver: request timed out")
		})
		s.lease(3)
		s.pass(20 * time.Second)
		if _, ok := s.age(); ok {
			t.Error("the clock is renewed although the Lease could not be read")
		}
		readable.Store(true)
		s.pass(2 * time.Second)
		if _, ok := s.age(); !ok {
			t.Error("the clock is not renewed although the Lease can be read")
		}
		s.stop()
		if !s.handBack() {
			t.Error("no replica took over, but the taint of the node with due pods is not touched")
		}
	}, underLease)
}

func TestAReplicaThatNeverLedHandsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
			return true, nil, errors.New("refused")
		})
		s := &scene{client: client, evictor: &evictor{}}
		renewer, err := New(s.config())
		if err != nil {
			t.Fatal(err)
		}
		if err := renewer.HandBack(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
