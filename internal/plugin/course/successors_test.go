// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

const disk = "disk.example.com"

// withDisk gives all pods of a cluster the volume of one claim.
func withDisk(cluster *state.Cluster, mode corev1.PersistentVolumeAccessMode) *state.Cluster {
	modes := []corev1.PersistentVolumeAccessMode{mode}
	cluster.Volumes = []*corev1.PersistentVolume{{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: disk}},
		},
	}}
	cluster.Claims = []*corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: "pv"},
	}}
	for _, pod := range cluster.Pods {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
	return cluster
}

// attached is the VolumeAttachment of a volume.
func attached(attacher, volume, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
		Attacher: attacher, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
	}}
}

func TestASuccessorWaitsUntilItsVolumeIsDetachedFromASilentNode(t *testing.T) {
	const (
		lost   = "50s ReplicaSet shop/ledger has 0 of 1 replica, "
		waits  = "1m50s 1 pod waits for a volume still attached to node b1, which is silent: ReplicaSet shop/ledger"
		silent = "{at: 0s, silent: {nodes: [b1]}}"
		once   = corev1.ReadWriteOnce
	)
	for name, test := range map[string]struct {
		mode     corev1.PersistentVolumeAccessMode
		change   func(*state.Cluster)
		step     string // after b1 falls silent
		want     string // how long no replica is ready
		waits    bool
		assuming bool
	}{
		"until the end":                                  {once, nil, silent, "until the end", true, true},
		"of a single pod, too":                           {corev1.ReadWriteOncePod, nil, silent, "until the end", true, true},
		"until the node is back":                         {once, nil, "{at: 10m, back: {nodes: [b1]}}", "for at most 9m45s", true, true},
		"until it is out of service":                     {once, nil, "{at: 8m, taint: {nodes: [b1], taints: ['node.kubernetes.io/out-of-service=x:NoExecute']}}", "for 7m15s", true, true},
		"not if it can be shared":                        {corev1.ReadWriteMany, nil, silent, "for 1m5s", false, false},
		"not if nothing attaches it":                     {once, func(c *state.Cluster) { c.Volumes[0].Spec.CSI = nil }, silent, "for 1m5s", false, false},
		"with its VolumeAttachment":                      {once, func(c *state.Cluster) { c.Attachments = append(c.Attachments, attached(disk, "pv", "b1")) }, silent, "until the end", true, false},
		"not if its driver has none":                     {once, func(c *state.Cluster) { c.Attachments = append(c.Attachments, attached("other", "x", "b1")) }, silent, "for 1m5s", false, false},
		"not in a cluster that has no VolumeAttachments": {once, func(c *state.Cluster) { c.Location.Server = "https://prod" }, silent, "for 1m5s", false, false},
		"if the reader must not list VolumeAttachments": {once, func(c *state.Cluster) {
			c.Location.Server = "https://prod"
			c.Unknown = []state.Unknown{{Resource: state.Attachments.Resource}}
		}, silent, "until the end", true, false},
	} {
		for _, whereTo := range []bool{false, true} {
			if test.mode == corev1.ReadWriteOncePod && whereTo {
				continue // the scheduler waits until the old pod is gone
			}
			t.Run(name, func(t *testing.T) {
				cluster := withDisk(small(pod("b1", "ReplicaSet", "ledger", "ledger-1", 60)), test.mode)
				for _, node := range cluster.Nodes {
					node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
				}
				if test.change != nil {
					test.change(cluster)
				}
				report := playOptions(t, cluster, course.Options{WhereTo: whereTo}, silent, test.step)
				checkWaits(t, report, lost+test.want, map[bool]string{true: waits}[test.waits], test.assuming)
			})
		}
	}
}

// checkWaits checks that a story has the given lines, of which waits is empty if no pod waits, and that what is left at
// the end is reported.
func checkWaits(t *testing.T, report *cliv1alpha1.SimulationReport, lost, waits string, assuming bool) {
	t.Helper()
	lines := story(report)
	waited := slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "for a volume") })
	if !slices.Contains(lines, lost) || waits != "" && !slices.Contains(lines, waits) || waited != (waits != "") {
		t.Errorf("the story is %q, want %q and %q", lines, lost, waits)
	}
	atEnd := strings.HasSuffix(lost, "until the end")
	named := slices.ContainsFunc(report.Pods, func(pod cliv1alpha1.SimulatedPod) bool {
		return pod.Volume == "Volume pv (claim shop/data) is still attached to node b1, which is silent."
	})
	if named != atEnd || (report.Summary.Unattached == 1) != atEnd {
		t.Errorf("the pods are %+v, want one to wait at the end: %t", report.Pods, atEnd)
	}
	notes := strings.Join(report.Notes, " ")
	if assumes := strings.Contains(notes, "the simulation assumes that a volume"); assumes != (assuming && atEnd) {
		t.Errorf("the notes are %q, want an assumption: %t", notes, assuming && atEnd)
	}
}

func TestAVolumeThatIsNoLongerNeededIsDetachedFromASilentNodeAfterSixMinutes(t *testing.T) {
	for at, alone := range map[string]bool{"6m": true, "6m10s": false} {
		t.Run(at, func(t *testing.T) {
			waits := pod("a1", "ReplicaSet", "ledger", "ledger-2", 60) // its predecessor was deleted by force
			waits.Status.Conditions[1].Status = corev1.ConditionFalse
			cluster := withDisk(small(waits), corev1.ReadWriteOnce)
			cluster.Pods = append(cluster.Pods, pod("b2", "ReplicaSet", "ledger", "ledger-3", 60))
			cluster.Attachments = append(cluster.Attachments, attached(disk, "pv", "b1"))
			cluster.Nodes[2].Status.Conditions[0].Status = corev1.ConditionUnknown
			lines := story(play(t, cluster, "{at: "+at+", taint: {nodes: [b2], taints: ['k:NoExecute']}}"))
			// The other replica leaves before the pod has its volume and is ready, or after that.
			if strings.Contains(strings.Join(lines, "\n"), "has 0 of 1 replica, for 5s") != alone {
				t.Errorf("the story is %q, want no ready replica for 5s: %t", lines, alone)
			}
		})
	}
}

func TestAVolumeIsDetachedWhenThePodIsGoneIfItsKubeletIsAlive(t *testing.T) {
	cluster := withDisk(small(pod("b1", "ReplicaSet", "ledger", "ledger-1", 60)), corev1.ReadWriteOnce)
	checkStory(t, play(t, cluster, "{at: 1m, taint: {nodes: [b1], taints: ['k:NoExecute']}}"),
		"1m0s node b1: taint k:NoExecute set",
		"1m0s 1 pod leaves node b1 because of k:NoExecute",
		"1m0s 1 pod waits for a volume still attached to node b1, where pod ledger-1 uses it: ReplicaSet shop/ledger",
		"1m0s ReplicaSet shop/ledger has 0 of 1 replica, for at most 35s",
	)
}

func TestAPlanWarnsOfASuccessorThatWaitsForAVolumeOnASilentNode(t *testing.T) {
	cluster := withDisk(small(pod("b1", "ReplicaSet", "ledger", "ledger-1", 60)), corev1.ReadWriteOnce)
	for _, node := range cluster.Nodes {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	}
	b1 := cluster.Nodes[2]
	for _, test := range []struct {
		ready corev1.ConditionStatus
		want  []cliv1alpha1.PlacementWarning
	}{
		{ready: corev1.ConditionTrue},
		{ready: corev1.ConditionUnknown, want: []cliv1alpha1.PlacementWarning{{
			Type: cliv1alpha1.WarningVolume, Message: "Volume pv (claim shop/data) is still attached to node b1, which is silent.",
		}}},
	} {
		t.Run("its node is ready: "+string(test.ready), func(t *testing.T) {
			b1.Status.Conditions[0].Status = test.ready
			after := tainted(b1.DeepCopy(), "k")
			outcome, err := course.Retaint(t.Context(), cluster, []*corev1.Node{after}, course.Options{At: noon, WhereTo: true})
			if err != nil {
				t.Fatal(err)
			}
			where := outcome.WhereTo["ledger-1"]
			if diff := cmp.Diff(test.want, where.Warnings); where.Node == "" || diff != "" {
				t.Errorf("it goes to node %q with other warnings (-want +got):\n%s", where.Node, diff)
			}
		})
	}
}

func TestWhetherAnOperatorReplacesAPodIsUnknown(t *testing.T) {
	const why = "Its owner %s pg is not a controller of Kubernetes, so it is not known whether it creates another pod."
	for _, test := range []struct {
		kind, version string
		unknown       bool
	}{
		{"Cluster", "postgresql.cnpg.io/v1", true},
		{"StatefulSet", "apps.kruise.io/v1beta1", true},
		{"StatefulSet", "apps/v1", false},
	} {
		t.Run(test.version, func(t *testing.T) {
			cluster := small(pod("b1", test.kind, "pg", "pg-1", 60))
			cluster.Pods[0].OwnerReferences[0].APIVersion = test.version
			report := play(t, cluster, "{at: 1m, taint: {nodes: [b1], taints: ['k:NoExecute']}}")
			want := cliv1alpha1.SimulatedPod{NoSuccessor: fmt.Sprintf(why, test.kind)}
			lasts := "for an unknown time"
			if !test.unknown {
				want, lasts = cliv1alpha1.SimulatedPod{Successor: "pg-1~2"}, "for at most 35s"
			}
			checkStory(t, report,
				"1m0s node b1: taint k:NoExecute set",
				"1m0s 1 pod leaves node b1 because of k:NoExecute",
				"1m0s "+test.kind+" shop/pg has 0 of 1 replica, "+lasts,
			)
			got := report.Pods[0]
			if got.Successor != want.Successor || got.NoSuccessor != want.NoSuccessor || report.Workloads[0].Unknown != test.unknown {
				t.Errorf("pod %+v of workload %+v, want %q or %q", got, report.Workloads[0], want.Successor, want.NoSuccessor)
			}
			outcome, err := course.Retaint(t.Context(), cluster, []*corev1.Node{tainted(cluster.Nodes[2].DeepCopy(), "k")},
				course.Options{At: noon, WhereTo: true})
			if err != nil {
				t.Fatal(err)
			}
			if where := outcome.WhereTo["pg-1"]; where.Reason != want.NoSuccessor || where.NoSuccessor {
				t.Errorf("its successor goes to %+v, want %q", where, want.NoSuccessor)
			}
		})
	}
}

// prior gives a pod a priority.
func prior(priority int32, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

// narrow returns nodes n1, n2 and so on, with room for one pod each, and these pods.
func narrow(nodes []string, pods ...*corev1.Pod) *state.Cluster {
	cluster := &state.Cluster{Pods: pods}
	for _, name := range nodes {
		n := node("a", name)
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	return cluster
}

const drainN1 = "{at: 1m, taint: {nodes: [n1], taints: ['k:NoExecute']}}"

func TestAPodOfHigherPriorityPreemptsOthers(t *testing.T) {
	critical := func() *corev1.Pod { return prior(1000, pod("n1", "ReplicaSet", "critical", "critical-1", 60)) }
	never := critical()
	never.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	for name, test := range map[string]struct {
		leaves    *corev1.Pod
		others    []*corev1.Pod
		budget    string // allows no disruption of the pods of this ReplicaSet
		preempted string // the ReplicaSet
	}{
		"the only one": {
			critical(), []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", "batch",
		},
		"not if its policy is Never": {never, []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", ""},
		"not those of equal priority": {
			critical(), []*corev1.Pod{prior(1000, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "", "",
		},
		"those of the lowest priority": {critical(), []*corev1.Pod{
			prior(5, pod("n2", "ReplicaSet", "some", "some-1", 60)), prior(1, pod("n3", "ReplicaSet", "batch", "batch-1", 60)),
		}, "", "batch"},
		"rather those whose budget allows it": {critical(), []*corev1.Pod{
			prior(1, pod("n2", "ReplicaSet", "some", "some-1", 60)), prior(1, pod("n3", "ReplicaSet", "batch", "batch-1", 60)),
		}, "some", "batch"},
		"those whose budget does not, if there are no others": {
			critical(), []*corev1.Pod{prior(0, pod("n2", "ReplicaSet", "batch", "batch-1", 60))}, "batch", "batch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []string{"n1", "n2", "n3"}[:1+len(test.others)]
			cluster := narrow(nodes, append([]*corev1.Pod{test.leaves}, test.others...)...)
			if test.budget != "" {
				cluster.Budgets = []*policyv1.PodDisruptionBudget{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "budget"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": test.budget}}, MinAvailable: new(intstr.FromInt32(1)),
					},
				}}
			}
			report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
			if test.preempted == "" {
				checkStory(t, report,
					"1m0s node n1: taint k:NoExecute set",
					"1m0s 1 pod leaves node n1 because of k:NoExecute",
					"1m0s 1 pod finds no room: ReplicaSet shop/critical",
					"1m0s ReplicaSet shop/critical has 0 of 1 replica, until the end",
				)
				return
			}
			node := nodes[len(nodes)-1]
			checkStory(t, report,
				"1m0s node n1: taint k:NoExecute set",
				"1m0s 1 pod leaves node n1 because of k:NoExecute",
				"1m0s 1 pod leaves node "+node+", preempted by ReplicaSet shop/critical",
				"1m0s 1 pod finds no room: ReplicaSet shop/"+test.preempted,
				"1m0s ReplicaSet shop/"+test.preempted+" has 0 of 1 replica, until the end",
				"1m0s ReplicaSet shop/critical has 0 of 1 replica, for at most 35s",
			)
			if report.Summary.Preempted != 1 || report.Summary.Left != 2 {
				t.Errorf("%d of %d pods that leave are preempted, want 1 of 2", report.Summary.Preempted, report.Summary.Left)
			}
		})
	}
}

func TestNoMorePodsArePreemptedThanNeeded(t *testing.T) {
	cluster := narrow([]string{"n1", "n2"},
		prior(1000, pod("n1", "ReplicaSet", "critical", "critical-1", 60)),
		prior(3, pod("n2", "ReplicaSet", "c", "c-1", 60)), prior(1, pod("n2", "ReplicaSet", "a", "a-1", 60)),
		prior(2, pod("n2", "ReplicaSet", "b", "b-1", 60)))
	cluster.Nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("3")
	report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
	for _, pod := range report.Pods {
		if (pod.PreemptedBy != "") != (pod.Name == "a-1") {
			t.Errorf("pod %s is preempted by %q, want a-1 alone to be", pod.Name, pod.PreemptedBy)
		}
	}
}

func TestPodsPreemptOneAfterTheOther(t *testing.T) {
	cluster := narrow([]string{"n1", "n2", "n3"},
		prior(1000, pod("n1", "ReplicaSet", "x", "x-1", 60)), prior(1000, pod("n1", "ReplicaSet", "y", "y-1", 60)),
		prior(1000, pod("n1", "ReplicaSet", "z", "z-1", 60)),
		prior(0, pod("n2", "ReplicaSet", "a", "a-1", 60)), prior(0, pod("n3", "ReplicaSet", "b", "b-1", 60)))
	cluster.Nodes[0].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("3")
	report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
	by := map[string]string{}
	for _, pod := range report.Pods {
		if pod.PreemptedBy != "" {
			by[pod.Name] = pod.PreemptedBy
		}
	}
	want := map[string]string{"a-1": "shop/x-1~2", "b-1": "shop/y-1~2"}
	if !maps.Equal(by, want) || report.Summary.Nowhere != 3 {
		t.Errorf("pods are preempted by %v and %d find no room, want %v, and z and both of them to find none", by, report.Summary.Nowhere, want)
	}
}
