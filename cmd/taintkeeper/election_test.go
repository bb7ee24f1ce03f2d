// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func TestTheLeaseSaysWhichVersionLeads(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                "v1.2.3",
		"(devel)":               "devel",
		"v1.2.3-4-gabc+dirty":   "v1.2.3-4-gabc_dirty",
		"a version with spaces": "",
		strings.Repeat("a", 64): "",
	} {
		if got := labelOf(version); got != want {
			t.Errorf("the label of version %q is %q, want %q", version, got, want)
		}
	}
}

func TestTheLeaderSaysOnTheLeaseWhatItRuns(t *testing.T) {
	for flags, want := range map[string]v1alpha1.Leader{
		"":                              {Controllers: []string{"eviction", "node-taint-rule"}},
		"--coexist":                     {Controllers: []string{"eviction", "node-taint-rule"}, Coexists: true},
		"--controllers=node-taint-rule": {Controllers: []string{"node-taint-rule"}},
		"--controllers=*":               {Controllers: []string{"eviction", "node-health", "node-taint-rule"}, MonitorGrace: 50 * time.Second},
		"--controllers=-node-health,*":  {Controllers: []string{"eviction", "node-taint-rule"}}, // as the built-in leaves it
		"--controllers=node-health,eviction --node-monitor-grace-period=90s": {
			Controllers: []string{"eviction", "node-health"}, MonitorGrace: 90 * time.Second,
		},
	} {
		o := parse(t, strings.Fields(flags)...)
		lock := &electionLock{}
		if err := lock.connect(&rest.Config{Host: "http://127.0.0.1:1"}, noEvents{}, o); err != nil {
			t.Fatal(err)
		}
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Labels: lock.Interface.(*resourcelock.LeaseLock).Labels},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(lock.Identity())},
		}
		if errs := metav1validation.ValidateLabels(lease.Labels, nil); len(errs) > 0 {
			t.Errorf("%q: %v", flags, errs)
		}
		want.Version = labelOf(version)
		if got := v1alpha1.LeaderOf(lease); got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q: it says %v, want %v", flags, got, want)
		}
	}
}

func TestAProcessThatChangesNothingHasNoLease(t *testing.T) {
	for _, flag := range []string{"--shadow", "--dry-run", "--leader-elect=false"} {
		lock := &electionLock{}
		if err := lock.connect(&rest.Config{}, noEvents{}, parse(t, flag)); err != nil || lock.Interface != nil {
			t.Errorf("%s: %v, %v", flag, lock.Interface, err)
		}
	}
}

// noEvents discards the events of an election.
type noEvents struct{ recorder.Provider }

func (noEvents) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }
