// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

func TestTheReportIsWrittenWithinTenSecondsOfAChangeEachMinuteAndAtTheEnd(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 20)
		w.run()
		wantWrites := func(want ...time.Duration) {
			t.Helper()
			var got []time.Duration
			for _, write := range w.writes {
				got = append(got, write.at)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("it is written after %v, want %v", got, want)
			}
		}
		w.Until(12 * sec)
		w.taint("k:NoExecute")
		w.Until(73 * sec)
		w.evict("p")
		w.Until(165 * sec)
		// It begins, the pod must leave, it is due, a sign of life a minute later, it was evicted, and so on.
		wantWrites(10*sec, 20*sec, 40*sec, 80*sec, 140*sec)
		w.Stop()
		wantWrites(10*sec, 20*sec, 40*sec, 80*sec, 140*sec, 165*sec)

		last := w.writes[len(w.writes)-1].data
		report, err := v1alpha1.ParseShadowReport(&corev1.ConfigMap{Data: last})
		w.Must(nil, err)
		const sentence = "evicted 41 s late: the built-in controller restarted its countdown of 20 s at 00:00:53, probably because the process restarted; it should have begun at 00:00:12"
		if len(report.Differences) != 1 || *report.Differences[0].Seconds != 41 || report.Differences[0].Sentence != sentence {
			t.Errorf("it reports %+v, want one difference of 41 s: %s", report.Differences, sentence)
		}
		if !strings.Contains(last["summary"], sentence) || !strings.Contains(last["summary"], "     1  evicted after they were due") {
			t.Errorf("the summary is\n%s", last["summary"])
		}
		if first := w.writes[0].data[v1alpha1.ShadowReportKey]; !strings.Contains(first, `"differences": []`) || !strings.Contains(first, `"kind": "ShadowReport"`) {
			t.Errorf("without a difference the list is not empty:\n%s", first)
		}
	})
}

func TestAReportThatCannotBeWrittenIsLoggedOncePerReasonAndWrittenLater(t *testing.T) {
	play(t, func(w *world) {
		w.refusal.Store(new(errors.New("connection refused")))
		w.run()
		w.Until(2 * time.Minute)
		var forbidden error = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, v1alpha1.ShadowConfigMap, nil)
		w.refusal.Store(&forbidden)
		w.Until(4 * time.Minute)
		if len(w.log) != 2 || len(w.writes) > 0 {
			t.Errorf("it logs %q, want two lines", w.log)
		}
		w.refusal.Store(nil)
		w.Until(4*time.Minute + 11*sec)
		if len(w.writes) != 1 {
			t.Errorf("%d writes, want one soon after it is possible", len(w.writes))
		}
	})
}

func TestTheReportKeepsTheNewestDifferencesOnePerPod(t *testing.T) {
	play(t, func(w *world) {
		w.run()
		c := w.comparison
		c.mu.Lock()
		for i := range 300 {
			c.report(&expected{pod: &podcache.Pod{UID: types.UID(fmt.Sprint(i))}}, v1alpha1.ShadowNever, "", w.Start)
		}
		c.report(&expected{pod: &podcache.Pod{UID: "150"}}, v1alpha1.ShadowLate, "", w.Start)
		c.mu.Unlock()
		all := c.Report().Differences
		newest, oldest := all[0], all[len(all)-1]
		if len(all) != mostDifferences || newest.UID != "150" || newest.Outcome != v1alpha1.ShadowLate || oldest.UID != "100" {
			t.Errorf("%d from %+v to %+v", len(all), newest, oldest)
		}
	})
}

func TestTheMetricsAreWellFormed(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 0)
		w.addPod("q", 3600)
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Until(20 * sec)
		if problems, err := testutil.GatherAndLint(w.Registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		const gauges = `
# HELP taintkeeper_shadow_overdue_pods Pods that must leave their node because of its taints and that the built-in controller has not evicted yet.
# TYPE taintkeeper_shadow_overdue_pods gauge
taintkeeper_shadow_overdue_pods 1
# HELP taintkeeper_shadow_pending_pods Pods that must leave later because of taints.
# TYPE taintkeeper_shadow_pending_pods gauge
taintkeeper_shadow_pending_pods 1
`
		if err := testutil.GatherAndCompare(w.Registry, strings.NewReader(gauges), "taintkeeper_shadow_overdue_pods", "taintkeeper_shadow_pending_pods"); err != nil {
			t.Error(err)
		}
		w.evict("p")
		w.Until(time.Minute)
		if got := testutil.CollectAndCount(w.comparison.lateness); got != 1 {
			t.Errorf("%d histograms", got)
		}
	})
}
