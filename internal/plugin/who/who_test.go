// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package who_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

var at = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// fact leaves a trace in a cluster.
type fact func(*state.Cluster)

// lease returns a Lease in kube-system that was renewed at the given time before the question.
func lease(name, holder string, ago time.Duration, labels map[string]string) fact {
	return leaseIn(metav1.NamespaceSystem, name, holder, ago, labels)
}

func leaseIn(namespace, name, holder string, ago time.Duration, labels map[string]string) fact {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(at.Add(-ago))),
			},
		})
	}
}

// leads returns the Lease of a leader that says which controllers it runs.
func leads(controllers ...string) fact {
	leader := v1alpha1.Leader{Version: "v1.2.3", Controllers: controllers}
	return lease("taintkeeper", "a_1", time.Second, leader.Labels("a_1"))
}

// old returns the Lease of a leader that says nothing.
func old(ago time.Duration) fact { return lease("taintkeeper", "a_1", ago, nil) }

// pod returns a pod of Taintkeeper with a label that says its mode, unless that is empty.
func pod(mode string, ready corev1.ConditionStatus) fact {
	return func(cluster *state.Cluster) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tk", Name: "pod", Labels: map[string]string{v1alpha1.NameLabel: v1alpha1.Name}}}
		if mode != "" {
			pod.Labels[v1alpha1.ModeLabel] = mode
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		cluster.Pods = append(cluster.Pods, state.SlimPod(pod))
	}
}

func clock(ago time.Duration) fact {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddEvictionClock(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.EvictionClock, Annotations: map[string]string{v1alpha1.EvictionClockAnnotation: at.Add(-ago).Format(time.RFC3339)},
		}})
	}
}

// evicted returns an event of an eviction by Taintkeeper.
func evicted(ago time.Duration) fact {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddEvent(&corev1.Event{
			Reason: v1alpha1.EventEviction, LastTimestamp: metav1.NewTime(at.Add(-ago)),
			InvolvedObject: corev1.ObjectReference{UID: "u"}, Message: v1alpha1.MarkingText + "a/b",
		})
	}
}

func unread(cluster *state.Cluster) { cluster.Signs.LeasesKnown = false }

func TestWhetherTaintkeeperRunsAndEvicts(t *testing.T) {
	const (
		exception = "EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."
		so        = ", so " + exception
		absent    = "Taintkeeper is not running, or runs without leader election" + so
		tooOld    = "It is not known whether Taintkeeper evicts (Lease kube-system/taintkeeper does not say what a_1 runs: upgrade Taintkeeper). If it does not, " + exception
		podAlone  = "It is not known whether Taintkeeper is running (pod tk/pod is ready, but no leader renews a Lease, as with --leader-elect=false or an older version, which you must upgrade). If it is not, " + exception
		enforce   = cliv1alpha1.ModeEnforce
	)
	for name, test := range map[string]struct {
		facts []fact
		mode  cliv1alpha1.Mode
		says  string // about policies; empty if it evicts
	}{
		"a leader renews its Lease":                 {[]fact{leads("eviction")}, enforce, ""},
		"its clock is 20 s behind":                  {[]fact{lease("taintkeeper", "a_1", 20*time.Second, (&v1alpha1.Leader{Controllers: []string{"eviction"}}).Labels("a_1"))}, enforce, ""},
		"it was last renewed a while ago":           {[]fact{old(time.Minute)}, "", "Taintkeeper is not running (Lease kube-system/taintkeeper was last renewed 60s ago)" + so},
		"nobody holds it":                           {[]fact{lease("taintkeeper", "", time.Second, nil)}, "", "Taintkeeper is not running (no replica holds Lease kube-system/taintkeeper)" + so},
		"a release that was moved left its Lease":   {[]fact{leaseIn("old", "taintkeeper", "", 0, nil), leads("eviction")}, enforce, ""},
		"there is no Lease":                         {nil, "", absent},
		"Leases are not known":                      {[]fact{unread}, "", "It is not known whether Taintkeeper is running. If it is not, " + exception},
		"the Lease has another name":                {[]fact{lease("mine", "a_1", time.Second, (&v1alpha1.Leader{Controllers: []string{"eviction"}}).Labels("a_1"))}, enforce, ""},
		"another program has such a Lease":          {[]fact{lease("mine", "a_1", time.Second, nil)}, "", absent},
		"rules alone":                               {[]fact{leads("node-taint-rule")}, enforce, "Taintkeeper runs without the eviction controller" + so},
		"an older version leads":                    {[]fact{old(time.Second)}, enforce, tooOld},
		"an older version leads and has evicted":    {[]fact{old(time.Second), evicted(9 * time.Minute)}, enforce, ""},
		"an older version leads and evicted before": {[]fact{old(time.Second), evicted(11 * time.Minute)}, enforce, tooOld},
		"an older version renews the clock":         {[]fact{old(time.Second), clock(time.Second)}, enforce, ""},
		"it elects no leader":                       {[]fact{pod("", corev1.ConditionTrue)}, "", podAlone},
		"it elects no leader and has a stale Lease": {[]fact{pod(v1alpha1.LabelEnforce, corev1.ConditionTrue), old(time.Hour)}, "", podAlone},
		"the leader has stopped and is still ready": {
			[]fact{pod(v1alpha1.LabelEnforce, corev1.ConditionTrue), lease("taintkeeper", "pod_1", time.Hour, nil)}, "",
			"Taintkeeper is not running (Lease kube-system/taintkeeper was last renewed 60m ago)" + so,
		},
		"it elects no leader and is not ready": {[]fact{pod("", corev1.ConditionFalse)}, "", absent},
		"it elects no leader and has evicted":  {[]fact{pod("", corev1.ConditionTrue), evicted(time.Minute)}, enforce, ""},
		"it elects no leader and follows nodes": {
			[]fact{leaseIn(corev1.NamespaceNodeLease, v1alpha1.NodeHealthLease, "taintkeeper", time.Second, nil)}, enforce,
			"It is not known whether Taintkeeper evicts (nothing shows whether it runs the controller eviction). If it does not, " + exception,
		},
		"it renews the eviction clock": {[]fact{unread, clock(time.Second)}, enforce, ""},
		"the eviction clock is stale":  {[]fact{clock(time.Minute)}, "", absent},
		"shadow mode":                  {[]fact{pod(v1alpha1.LabelShadow, corev1.ConditionTrue)}, cliv1alpha1.ModeShadow, "Taintkeeper runs in shadow mode" + so},
		"shadow mode after enforcing":  {[]fact{pod(v1alpha1.LabelShadow, corev1.ConditionTrue), lease("taintkeeper", "", time.Hour, nil)}, cliv1alpha1.ModeShadow, "Taintkeeper runs in shadow mode" + so},
		"a dry run":                    {[]fact{pod(v1alpha1.LabelDryRun, corev1.ConditionTrue)}, cliv1alpha1.ModeDryRun, "Taintkeeper runs in dry-run mode" + so},
		"a dry run next to a leader":   {[]fact{pod(v1alpha1.LabelDryRun, corev1.ConditionTrue), leads("eviction")}, enforce, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{Signs: state.Signs{LeasesKnown: true}}
			for _, fact := range test.facts {
				fact(cluster)
			}
			known := who.Ask(cluster, at)
			if known.Process.Mode != test.mode {
				t.Errorf("the mode is %q, want %q", known.Process.Mode, test.mode)
			}
			if says := known.NotEvicting(1); says != test.says {
				t.Errorf("about policies it says %q, want %q", says, test.says)
			}
			if evicts := known.Eviction.Taintkeeper.State == who.Running; evicts != (test.says == "") {
				t.Errorf("it evicts: %t, but it says %q", evicts, test.says)
			}
		})
	}
}
