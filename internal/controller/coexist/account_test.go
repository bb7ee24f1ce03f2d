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

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// annotate writes a record as another replica would.
func (s *scene) annotate(r builtin.Record) {
	s.t.Helper()
	account := s.account()
	if account.Annotations == nil {
		account.Annotations = map[string]string{}
	}
	maps.Copy(account.Annotations, map[string]string{
		BacklogSince: r.Since.UTC().Format(time.RFC3339), BacklogUntil: r.Until.UTC().Format(time.RFC3339), BacklogSpared: r.Spared,
	})
	s.must(s.client.CoreV1().ServiceAccounts(namespace).Update(s.t.Context(), account, metav1.UpdateOptions{}))
}

// slack is how much longer than computed the hold lasts at least.
const slack = 2 * time.Minute

func (s *scene) extend(by builtin.NodeTries) {
	by.Node, by.From = "n", time.Now()
	s.renewer.config.Account.extend(by)
}

// storm makes pods of node n due, and untaint spares it.
func (s *scene) storm(tries int) { s.extend(builtin.NodeTries{Begun: tries}) }
func (s *scene) untaint()        { s.extend(builtin.NodeTries{Spared: time.Now(), Stays: true}) }

func (s *scene) record() error { return s.renewer.config.Account.record(s.t.Context()) }

// conflicts answers every so many patches of the ServiceAccount with a conflict, at most some times.
func (s *scene) conflicts(every, most int32) {
	var calls atomic.Int32
	s.refusal.Store(new(func() error {
		if call := calls.Add(1); call%every != 1%every || call/every >= most {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("serviceaccounts"), ServiceAccount, errors.New("changed"))
	}))
}

func TestAStormIsRecordedOnceForAllItsPods(t *testing.T) {
	play(t, func(s *scene) {
		patches := func() (patches int) {
			for _, action := range s.client.Actions() {
				if action.Matches("patch", "serviceaccounts") {
					patches++
				}
			}
			return patches
		}
		s.pass(time.Second)
		s.must(nil, s.record())
		if _, ok := s.account().Annotations[BacklogUntil]; ok {
			t.Errorf("without a pod that is due the annotations are %v", s.account().Annotations)
		}
		before := patches()
		s.storm(10)
		for range 100 {
			s.must(nil, s.record())
		}
		if patches := patches() - before; patches != 1 {
			t.Errorf("%d patches, want one", patches)
		}
		if found := s.found(); found.Until.Before(time.Now().Add(slack)) || found.Since.After(time.Now()) {
			t.Errorf("recorded are %+v", found)
		}
	})
}

// The built-in may restart at any time while a policy, a budget or a webhook keeps pods that are due.
func TestWhilePodsAreDueEachRenewalRecordsThatTheBuiltInMayTryThemAllAgain(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.extend(builtin.NodeTries{Begun: 100, Due: 100})
		s.pass(time.Minute)
		// Whether a hand-back makes the built-in look again is not a matter of a restart that nobody saw.
		if working := s.renewer.config.Account.Working(); working != 0 {
			t.Errorf("after a minute it works for another %v", working)
		}
		s.pass(time.Hour)
		if until := s.found().Until; until.Before(time.Now().Add(slack + 50*time.Second)) {
			t.Errorf("after an hour the record ends in %v", time.Until(until))
		}
		s.untaint()
		s.pass(time.Millisecond)
		if found := s.found(); found.Spared != "n" || found.Until.Before(time.Now().Add(slack)) {
			t.Errorf("after the untaint the record is %+v", found)
		}
	})
}

func TestASparedNodeIsRecordedAtOnceAndNotWithTheNextRenewal(t *testing.T) {
	for name, refused := range map[string]time.Duration{"at once": 0, "once it can be": time.Minute} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Second)
				s.refuse(refused > 0, errors.New("no connection"))
				s.storm(10)
				s.untaint()
				if s.pass(time.Millisecond); refused > 0 {
					s.pass(refused)
					s.refuse(false, nil)
					s.pass(2 * retryEvery)
				}
				if spared := s.found().Spared; spared != "n" {
					t.Errorf("%q is recorded as spared, want n", spared)
				}
			})
		})
	}
}

func TestTheHoldGrowsByATimeInWhichTheAPIServerStoodStill(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.storm(100)
		s.pass(renewEvery)
		before := s.found().Until
		s.refuse(true, errors.New("etcd does not answer"))
		s.pass(40 * time.Second)
		s.refuse(false, nil)
		s.pass(2 * retryEvery)
		if grown := s.found().Until.Sub(before); grown < 40*time.Second || grown > 50*time.Second {
			t.Errorf("it grew by %v, want the 40 s", grown)
		}
	})
}

// A leader that was suspended and resumes must not overwrite what its successor has recorded.
func TestAWriteOverAnotherReplicasIsRefusedAndMergesBoth(t *testing.T) {
	for name, isNew := range map[string]bool{"a new leader": true, "a leader that resumes": false} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.pass(time.Second)
				s.storm(1)
				s.must(nil, s.record())
				second := time.Now().Truncate(time.Second)
				foreign := builtin.Record{Since: second.Add(-time.Minute), Until: second.Add(8 * time.Minute), Spared: "a b"}
				s.annotate(foreign)
				if isNew {
					next := s.config().Account
					next.extend(builtin.NodeTries{Node: "n", Begun: 1, From: time.Now(), Spared: time.Now(), Stays: true})
					s.must(nil, next.record(s.t.Context()))
					foreign.Spared = "a b n"
				} else {
					s.conflicts(1000, 1)
					s.pass(renewEvery)
				}
				got := s.found()
				if !got.Since.Equal(foreign.Since) || got.Until.Before(foreign.Until) || got.Until.After(foreign.Until.Add(2*time.Second)) || got.Spared != foreign.Spared {
					t.Errorf("the record is %+v, want all of %+v", got, foreign)
				}
			})
		})
	}
}

// The answers to writes are lost, in a storm that began before this process: each is met by a conflict with its own
// record.
func TestAConflictWithItsOwnRecordLengthensNoHold(t *testing.T) {
	play(t, func(s *scene) {
		clock, account := s.renewer.config.Clock, s.renewer.config.Account
		clock.Heard(time.Now().Truncate(time.Second), time.Now())
		account.extend(builtin.NodeTries{Node: "n", Begun: 100, From: clock.Now().Add(-5 * time.Second)})
		s.must(nil, s.record())
		s.conflicts(3, 1000) // a write, a read, and the write again
		before := account.Backlog()
		for range 4 {
			s.must(nil, account.Renew(t.Context()))
		}
		if after := account.Backlog(); after.Evictions > before.Evictions || after.Until.After(before.Until) {
			t.Errorf("before %+v, after four conflicts %+v", before, after)
		}
	})
}

func TestWhileNothingCanBeRecordedTheErrorSaysWhatToDo(t *testing.T) {
	play(t, func(s *scene) {
		s.pass(time.Second)
		s.must(nil, s.client.CoreV1().ServiceAccounts(namespace).Delete(s.t.Context(), ServiceAccount, metav1.DeleteOptions{}))
		s.storm(1)
		err := s.record()
		if want := "ServiceAccount taintkeeper-eviction-clock not found in namespace kube-system: apply config/coexistence.yaml, or set --coexist=false"; err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	})
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
			s.refuse(true, apierrors.NewForbidden(corev1.Resource("serviceaccounts"), ServiceAccount, nil))
		}, []string{`"until"="2000-01-01T00:03:55Z"`, `"sparedNodes"="n"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var said string
			play(t, func(s *scene) {
				s.pass(time.Minute)
				test.before(s)
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
	want := func(until, evictions, spared float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
		}
		for name, value := range map[string]float64{
			"taintkeeper_built_in_backlog_until_timestamp_seconds": until,
			"taintkeeper_built_in_backlog_evictions":               evictions,
			"taintkeeper_spared_nodes":                             spared,
		} {
			if is, ok := got[name]; !ok || is != value {
				t.Errorf("%s is %v (there: %t), want %v", name, is, ok, value)
			}
		}
	}
	play(t, func(s *scene) {
		in := func(d time.Duration) float64 { return float64(time.Now().Add(d).Unix()) }
		s.pass(time.Second)
		want(0, 0, 0)
		s.storm(100) // 0.55 s each, and two minutes of slack
		s.untaint()
		s.pass(time.Millisecond)
		want(in(175*time.Second), 100, 1)
		for i := range 1000 {
			s.renewer.config.Account.extend(builtin.NodeTries{Node: strconv.Itoa(i), Spared: time.Now(), Stays: true})
		}
		want(in(175*time.Second), 100, -1)
		s.pass(10 * time.Minute)
		want(0, 0, 0)
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

// The API server's clock is known to lie between two others. What is written and what is read hold for each of them.
func TestARecordHoldsWhicheverClockTheAPIServerHas(t *testing.T) {
	play(t, func(s *scene) {
		clock := s.renewer.config.Clock
		clock.Heard(time.Now().Add(time.Minute).Truncate(time.Second), time.Now().Add(-500*time.Millisecond))
		least, most := clock.Ahead()
		if most-least < 500*time.Millisecond {
			t.Fatalf("its clock is ahead by %v to %v, which is too certain for this test", least, most)
		}
		r := builtin.Record{Since: clock.Now(), Until: clock.Now().Add(time.Minute)}
		written := recordOf(textsOf(s.renewer.config.Account.annotationsOf(r)))
		if written.Since.After(r.Since.Add(least)) || written.Until.Before(r.Until.Add(most)) {
			t.Errorf("written are %+v of %+v", written, r)
		}
		if read := moved(r, least, most); !read.Since.Equal(r.Since.Add(-most)) || !read.Until.Equal(r.Until.Add(-least)) {
			t.Errorf("read are %+v of %+v, want what begins earliest and ends latest", read, r)
		}
	})
}

func textsOf(annotations map[string]any) map[string]string {
	all := map[string]string{}
	for key, value := range annotations {
		all[key] = value.(string)
	}
	return all
}
