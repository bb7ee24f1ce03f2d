// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/builtin"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// account returns the ServiceAccount as the API server has it.
func (s *scene) account() *corev1.ServiceAccount {
	s.t.Helper()
	account, err := s.client.CoreV1().ServiceAccounts(namespace).Get(s.t.Context(), ServiceAccount, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return account
}

// annotate writes the ServiceAccount as another replica would.
func (s *scene) annotate(annotations map[string]string) {
	s.t.Helper()
	account := s.account()
	if account.Annotations == nil {
		account.Annotations = map[string]string{}
	}
	maps.Copy(account.Annotations, annotations)
	if _, err := s.client.CoreV1().ServiceAccounts(namespace).Update(s.t.Context(), account, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// slack is how much longer than computed the hold lasts at least.
const slack = 2 * time.Minute

// storm makes pods of node n due.
func (s *scene) storm(tries int) {
	s.renewer.config.Account.extend(builtin.NodeTries{Node: "n", Begun: tries, From: time.Now()})
}

// untaint spares node n.
func (s *scene) untaint() {
	s.renewer.config.Account.extend(builtin.NodeTries{Node: "n", Spared: time.Now(), Stays: true})
}

func (s *scene) record() error { return s.renewer.config.Account.record(s.t.Context()) }

func (s *scene) patches() (patches int) {
	for _, action := range s.client.Actions() {
		if action.Matches("patch", "serviceaccounts") {
			patches++
		}
	}
	return patches
}

// refuse answers patches of the ServiceAccount with an error, as long as the function returns one. If the function is
// nil, they are accepted again.
func (s *scene) refuse(with func() error) {
	if with == nil {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&with)
}

func TestAStormIsRecordedOnceForAllItsPods(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		before := s.patches()
		s.storm(10)
		for range 100 {
			if err := s.record(); err != nil {
				t.Fatal(err)
			}
		}
		if patches := s.patches() - before; patches != 1 {
			t.Errorf("%d patches, want one", patches)
		}
		found := recordOf(s.account().Annotations)
		if found.Until.Before(time.Now().Add(slack)) || found.Since.After(time.Now()) {
			t.Errorf("recorded are %+v", found)
		}
	})
}

func TestWithoutPodsThatAreDueNothingIsRecorded(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Minute)
		if err := s.record(); err != nil {
			t.Fatal(err)
		}
		if _, ok := s.account().Annotations[BacklogUntil]; ok {
			t.Errorf("the annotations are %v", s.account().Annotations)
		}
	})
}

// The built-in may restart at any time while a policy, a budget or a webhook keeps pods that are due.
func TestWhilePodsAreDueEachRenewalRecordsThatTheBuiltInMayTryThemAllAgain(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.renewer.config.Account.extend(builtin.NodeTries{Node: "n", Begun: 100, From: time.Now(), Due: 100})
		s.pass(time.Hour)
		if until := recordOf(s.account().Annotations).Until; until.Before(time.Now().Add(slack + 50*time.Second)) {
			t.Errorf("after an hour the record ends in %v", time.Until(until))
		}
		s.untaint()
		s.pass(time.Millisecond)
		if found := recordOf(s.account().Annotations); found.Spared != "n" || found.Until.Before(time.Now().Add(slack)) {
			t.Errorf("after the untaint the record is %+v", found)
		}
	})
}

// Working decides whether a hand-back makes the built-in look again. Nobody sees a restart, and without one it has
// given up.
func TestWhetherTheBuiltInStillWorksIsNotAMatterOfARestartThatNobodySaw(t *testing.T) {
	play(t, func(s *scene) {
		s.renewer.config.Account.extend(builtin.NodeTries{Node: "n", Begun: 100, From: time.Now(), Due: 100})
		s.pass(time.Minute)
		if working := s.renewer.config.Account.Working(); working != 0 {
			t.Errorf("it works for another %v", working)
		}
	})
}

func TestASparedNodeIsRecordedAtOnceAndNotWithTheNextRenewal(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.storm(10)
		s.untaint()
		s.pass(time.Millisecond)
		if spared := s.account().Annotations[BacklogSpared]; spared != "n" {
			t.Errorf("%q is recorded as spared, want n", spared)
		}
	})
}

func TestASparedNodeThatCannotBeRecordedAtFirstIsRecordedLater(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.refuse(func() error { return errors.New("no connection") })
		s.storm(10)
		s.untaint()
		s.pass(time.Minute)
		s.refuse(nil)
		s.pass(2 * retryEvery)
		if spared := s.account().Annotations[BacklogSpared]; spared != "n" {
			t.Errorf("%q is recorded as spared, want n", spared)
		}
	})
}

func TestTheHoldGrowsByATimeInWhichTheAPIServerStoodStill(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.storm(100)
		s.pass(renewEvery)
		before := recordOf(s.account().Annotations).Until
		s.refuse(func() error { return errors.New("etcd does not answer") })
		s.pass(40 * time.Second)
		s.refuse(nil)
		s.pass(2 * retryEvery)
		grown := recordOf(s.account().Annotations).Until.Sub(before)
		if grown < 40*time.Second || grown > 50*time.Second {
			t.Errorf("it grew by %v, want the 40 s", grown)
		}
	})
}

func TestANewLeaderKeepsWhatItFinds(t *testing.T) {
	play(t, func(s *scene) {
		s.annotate(map[string]string{
			BacklogSince:  time.Now().Add(-time.Minute).UTC().Format(time.RFC3339),
			BacklogUntil:  time.Now().Add(9 * time.Minute).UTC().Format(time.RFC3339),
			BacklogSpared: "a b",
		})
		found := recordOf(s.account().Annotations)
		next := s.config().Account
		next.extend(builtin.NodeTries{Node: "n", Begun: 1, From: time.Now(), Spared: time.Now(), Stays: true})
		if err := next.record(s.t.Context()); err != nil {
			t.Fatal(err)
		}
		got := recordOf(s.account().Annotations)
		if !got.Since.Equal(found.Since) || got.Until.Before(found.Until) || got.Until.After(found.Until.Add(2*time.Second)) || got.Spared != "a b n" {
			t.Errorf("the record is %+v, want %+v with one more try and node n", got, found)
		}
	})
}

// A leader that was suspended and resumes must not overwrite what its successor has recorded.
func TestAWriteOverAnotherReplicasIsRefusedAndMergesBoth(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.storm(1)
		if err := s.record(); err != nil {
			t.Fatal(err)
		}
		foreign := builtin.Record{Since: time.Now().Add(-time.Minute).Truncate(time.Second), Until: time.Now().Add(8 * time.Minute).Truncate(time.Second), Spared: "other"}
		s.annotate(map[string]string{
			BacklogSince: foreign.Since.UTC().Format(time.RFC3339), BacklogUntil: foreign.Until.UTC().Format(time.RFC3339),
			BacklogSpared: foreign.Spared,
		})
		var conflicts atomic.Int32
		s.refuse(func() error {
			if conflicts.Add(1) > 1 {
				return nil
			}
			return apierrors.NewConflict(corev1.Resource("serviceaccounts"), ServiceAccount, errors.New("changed"))
		})
		s.pass(renewEvery)
		if got := recordOf(s.account().Annotations); !got.Since.Equal(foreign.Since) || !got.Until.Equal(foreign.Until) || got.Spared != "other" {
			t.Errorf("the record is %+v, want all of %+v", got, foreign)
		}
	})
}

func TestWhileNothingCanBeRecordedTheErrorSaysWhatToDo(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		if err := s.client.CoreV1().ServiceAccounts(namespace).Delete(s.t.Context(), ServiceAccount, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.storm(1)
		err := s.record()
		if want := "ServiceAccount taintkeeper-eviction-clock not found in namespace kube-system: apply config/coexistence.yaml, or set --coexist=false"; err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	})
}

// The built-in tries 100 pods for 55 s. A second try for one of them deletes whatever pod has taken its name.
func TestAHandBackTakesTheClockAwayLeavesTheHoldAndMakesTheBuiltInTryNoPodTwiceAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		after   time.Duration
		touched bool
	}{
		"the built-in still tries pods":  {10 * time.Second, false},
		"for another 2 s":                {53 * time.Second, true},
		"it has tried them and given up": {time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.storm(100)
				s.pass(test.after)
				s.stop()
				before := recordOf(s.account().Annotations)
				if touched := s.handBack(); touched != test.touched {
					t.Errorf("the taint of the node with due pods is touched: %t, want %t", touched, test.touched)
				}
				if _, ok := s.age(); ok {
					t.Error("the clock is still there")
				}
				if got := recordOf(s.account().Annotations); !got.Since.Equal(before.Since) || got.Until.Before(before.Until) {
					t.Errorf("the record is %+v, want what there was: %+v", got, before)
				}
			})
		})
	}
}

func TestANodeThatIsUntaintedWhileTheLeaderStopsIsSpared(t *testing.T) {
	for name, storm := range map[string]int{"in a storm": 100, "its pods came due only then": 0} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Minute)
				s.storm(storm)
				s.stop()
				node := taintedNode()
				node.Spec.Taints = node.Spec.Taints[1:]
				if _, err := s.client.CoreV1().Nodes().Create(s.t.Context(), node, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				due := time.Now()
				s.evictor.set(func(e *evictor) { e.overdue = map[string]int{"n": 100} })
				if err := s.renewer.HandBack(context.WithoutCancel(s.t.Context())); err != nil {
					t.Fatal(err)
				}
				got := recordOf(s.account().Annotations)
				if got.Spared != "n" || got.Since.After(due) {
					t.Errorf("the record is %+v, want n to be spared, since %v at the latest", got, due)
				}
			})
		})
	}
}

// whatLogSays returns what a hand-back logs about the backlog.
func whatLogSays(t *testing.T, before func(s *scene)) (said string) {
	t.Helper()
	var mu sync.Mutex
	play(t, func(s *scene) {
		s.pass(time.Minute)
		before(s)
		s.stop()
		s.pass(time.Second)
		_ = s.renewer.HandBack(context.WithoutCancel(s.t.Context())) // another test checks what it returns
	}, func(c *Config) {
		c.Logger = funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(line, "backlog") {
				said = line
			}
		}, funcr.Options{})
	})
	return said
}

func TestAHandBackSaysWhatIsLeftOfTheBuiltInsBacklog(t *testing.T) {
	storm := func(s *scene) {
		s.storm(100)
		s.untaint()
		s.pass(time.Millisecond)
	}
	for name, test := range map[string]struct {
		before func(s *scene)
		want   []string
	}{
		"nothing":                     {func(*scene) {}, []string{"has no backlog of evictions"}},
		"pods that are due or spared": {storm, []string{`"until"="2000-01-01T00:03:55Z"`, `"evictionsAtMost"=99`, `"sparedNodes"="n"`}},
		"the right to hand back is gone": {func(s *scene) {
			storm(s)
			s.refuse(func() error { return apierrors.NewForbidden(corev1.Resource("serviceaccounts"), ServiceAccount, nil) })
		}, []string{`"until"="2000-01-01T00:03:55Z"`, `"sparedNodes"="n"`}},
	} {
		t.Run(name, func(t *testing.T) {
			said := whatLogSays(t, test.before)
			for _, want := range test.want {
				if !strings.Contains(said, want) {
					t.Errorf("the log says %q, want %s in it", said, want)
				}
			}
		})
	}
}

func TestTheMetricsSayWhatIsLeftOfTheBuiltInsBacklog(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	want := func(until, evictions, spared string) {
		t.Helper()
		for name, value := range map[string]string{
			"taintkeeper_built_in_backlog_until_timestamp_seconds": until,
			"taintkeeper_built_in_backlog_evictions":               evictions,
			"taintkeeper_spared_nodes":                             spared,
		} {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
			if i < 0 {
				t.Fatalf("no metric %s", name)
			}
			if got := strconv.FormatFloat(families[i].GetMetric()[0].GetGauge().GetValue(), 'f', -1, 64); got != value {
				t.Errorf("%s is %s, want %s", name, got, value)
			}
		}
	}
	play(t, func(s *scene) {
		s.pass(time.Second)
		want("0", "0", "0")
		s.storm(100) // 0.55 s each, and two minutes of slack
		s.untaint()
		s.pass(time.Millisecond)
		want(strconv.FormatInt(time.Now().Add(175*time.Second).Unix(), 10), "100", "1")
		for i := range 1000 {
			s.renewer.config.Account.extend(builtin.NodeTries{Node: strconv.Itoa(i), Spared: time.Now(), Stays: true})
		}
		want(strconv.FormatInt(time.Now().Add(175*time.Second).Unix(), 10), "100", "-1")
		s.pass(10 * time.Minute)
		want("0", "0", "0")
	}, func(c *Config) { c.Registerer = registry })
}

// In a storm one answer comes from an API server whose clock is an hour ahead.
func TestOneWrongDateDoesNotEndTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &timeline.Clock{}
		clock.Heard(time.Now().Truncate(time.Second), time.Now())
		a := newAccount(fake.NewClientset(), clock)
		a.extend(builtin.NodeTries{Node: "n", Begun: 200, From: clock.Now(), Spared: clock.Now(), Stays: true})
		clock.Heard(time.Now().Add(time.Hour).Truncate(time.Second), time.Now())
		if a.isRecorded() {
			t.Error("what was never written counts as recorded")
		}
		a.extend(builtin.NodeTries{Node: "m", Begun: 1, From: clock.Now()})
		if left := a.Backlog(); !slices.Equal(left.Spared, []string{"n"}) || left.Evictions != 201 {
			t.Errorf("after a Date of an hour ahead the backlog is %+v", left)
		}
	})
}

// The answers to writes are lost, in a storm that began before this process: each is met by a conflict with its own
// record.
func TestAConflictWithItsOwnRecordLengthensNoHold(t *testing.T) {
	play(t, func(s *scene) {
		clock, account := s.renewer.config.Clock, s.renewer.config.Account
		clock.Heard(time.Now().Truncate(time.Second), time.Now())
		account.extend(builtin.NodeTries{Node: "n", Begun: 100, From: clock.Now().Add(-5 * time.Second)})
		if err := s.record(); err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int32
		s.refuse(func() error {
			if calls.Add(1)%3 == 1 { // a write, a read, and the write again
				return apierrors.NewConflict(corev1.Resource("serviceaccounts"), ServiceAccount, errors.New("changed"))
			}
			return nil
		})
		before := account.Backlog()
		for range 4 {
			if err := account.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if after := account.Backlog(); after.Evictions > before.Evictions || after.Until.After(before.Until) {
			t.Errorf("before %+v, after four conflicts %+v", before, after)
		}
	})
}
