// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
	"github.com/taintkeeper/taintkeeper/taints"
)

var now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// node returns a node with 4 CPUs in a zone.
func node(name, zone string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: zone,
		}},
		Status: corev1.NodeStatus{Allocatable: resources("4")},
	}
	for _, change := range change {
		change(node)
	}
	return node
}

func resources(cpu string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}

func tainted(spec string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		taint, err := taints.Parse(spec)
		if err != nil {
			panic(err)
		}
		taint.TimeAdded = &metav1.Time{Time: now.Add(-time.Hour)}
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
}

// pod returns a pod of Deployment "app" on a node. It requests 1 CPU.
func pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Labels:          map[string]string{"app": "app"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "app", UID: "app", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: node,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"),
			}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range change {
		change(pod)
	}
	return pod
}

func asking(cpu string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
}

func owned(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name, pod.OwnerReferences[0].UID = kind, name, types.UID(name)
		pod.Labels["app"] = name
	}
}

// storing gives a node an image of 500 MiB.
func storing(image string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: 500 << 20}}
	}
}

func running(image string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image }
}

var tolerating = statetest.Tolerating

func selecting(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

// apart keeps a pod off the nodes of other pods of its application.
func apart(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: onNodeOf("app")}}
}

func apartByZone(pod *corev1.Pod) {
	apart(pod)
	pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = corev1.LabelTopologyZone
}

func unreachable(node *corev1.Node) {
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
}

func nearDB(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: onNodeOf("db")}}
}

func onNodeOf(app string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func spread(action corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: action,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app"}},
		}}
	}
}

func claiming(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: source})
	}
}

// boundVolume adds claim "data", bound to volume "pv", which only nodes with the label can reach.
func boundVolume(key, value string) func(*state.Cluster) {
	return func(cluster *state.Cluster) {
		cluster.Claims = append(cluster.Claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
		cluster.Volumes = append(cluster.Volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "data"},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
				}}}},
			},
		})
	}
}

// placed plans a taint for node "n" and asks where its pods would go.
func placed(t testing.TB, cluster *state.Cluster) *cliv1alpha1.TaintPlan {
	t.Helper()
	return placedAsking(t, cluster, 0)
}

// placedAsking does the same, but nodes may be asked so many questions only.
func placedAsking(t testing.TB, cluster *state.Cluster, questions int) *cliv1alpha1.TaintPlan {
	t.Helper()
	edit, err := taints.ParseEdit("k:NoExecute")
	if err != nil {
		t.Fatal(err)
	}
	request := plan.Request{Edit: edit, Overwrite: taints.OverwriteExisting, At: now, WhereTo: true, Questions: questions}
	for _, node := range cluster.Nodes {
		if strings.HasPrefix(node.Name, "n") {
			request.Nodes = append(request.Nodes, node)
		}
	}
	made, err := plan.Make(t.Context(), cluster, request)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// story says where each pod goes, in one line.
func story(made *cliv1alpha1.TaintPlan) string {
	var all []string
	for i := range made.Pods {
		pod := &made.Pods[i]
		if pod.WhereTo == nil {
			continue
		}
		where := pod.WhereTo
		words := fmt.Sprintf("%s: %s of %s", pod.Name, where.Node, strings.Join(where.Nodes, "+"))
		switch {
		case where.Reason != "":
			words = pod.Name + ": " + where.Reason
		case where.Bound:
			words = fmt.Sprintf("%s: at most %s", pod.Name, strings.Join(where.Nodes, "+"))
		case where.Fits == 0:
			words = pod.Name + ": nowhere"
		}
		all = append(all, words)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func TestASuccessorGoesWhereTheSchedulersFiltersLetIt(t *testing.T) {
	a, b, n := node("a", "1"), node("b", "2"), node("n", "1")
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
		more  func(*state.Cluster)
		want  string
		warns string // a part of a warning; empty if there is none
	}{
		"to the node that has its image": {
			nodes: []*corev1.Node{a, node("b", "2", storing("registry.example/app:1")), n}, pods: []*corev1.Pod{pod("p", "n", running("registry.example/app:1"))},
			want: "p: b of a+b",
		},
		"to the zone of its volume": {
			nodes: []*corev1.Node{a, b, node("c", "2"), n}, pods: []*corev1.Pod{pod("p", "n", claiming("data"))}, more: boundVolume(corev1.LabelTopologyZone, "1"),
			want: "p: a of a",
		},
		"nowhere, if nothing has room": {
			nodes: []*corev1.Node{a, n}, pods: []*corev1.Pod{pod("p", "n", asking("3")), pod("q", "a", asking("2"))},
			want: "p: nowhere", warns: "0 of 2 nodes take it: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).",
		},
		"nowhere, if its volume is bound to the node": {
			nodes: []*corev1.Node{a, b, n}, pods: []*corev1.Pod{pod("p", "n", claiming("data"))}, more: boundVolume(corev1.LabelHostname, "n"),
			want: "p: nowhere", warns: "Volume pv (claim default/data) can be reached only from node n.",
		},
		"nowhere, if the zone of its volume is full": {
			nodes: []*corev1.Node{a, b, n}, pods: []*corev1.Pod{pod("p", "n", claiming("data")), pod("q", "a", asking("4"))}, more: boundVolume(corev1.LabelTopologyZone, "1"),
			want: "p: nowhere", warns: "Volume pv (claim default/data) is bound to zone 1, where no node takes the pod.",
		},
		"back, if it tolerates the taint for a while": {
			nodes: []*corev1.Node{n, node("o", "1", tainted("x:NoSchedule"))}, pods: []*corev1.Pod{pod("p", "n", tolerating("k", 300))},
			want: "p: n of n", warns: "It goes back to n and must leave again after 5m: it tolerates k:NoExecute only for a while.",
		},
		"perhaps back": {
			nodes: []*corev1.Node{a, n, node("o", "1")}, pods: []*corev1.Pod{pod("p", "n", tolerating("k", 300)), pod("q", "n", tolerating("k"), asking("2"))},
			want: "p: a of a+n+o", warns: "It may go back to n and must leave again after 5m",
		},
		"to another node that it must leave": {
			nodes: []*corev1.Node{node("a", "1", tainted("x:NoExecute")), n}, pods: []*corev1.Pod{pod("p", "n", tolerating("x", 60))},
			want: "p: a of a", warns: "It goes to a and must leave again after 60s: it tolerates x:NoExecute only for a while.",
		},
		"away from its zone, with a warning": {
			nodes: []*corev1.Node{b, n}, pods: []*corev1.Pod{pod("p", "n"), pod("q", "b")},
			want: "p: b of b", warns: "Zone spread broken: the 2 replicas of Job default/app would all be in zone 2, and are in 2 zones now.",
		},
		"unevenly, if it only prefers to be even": {
			nodes: []*corev1.Node{b, n}, pods: []*corev1.Pod{pod("p", "n", spread(corev1.ScheduleAnyway)), pod("q", "b", spread(corev1.ScheduleAnyway))},
			want: "p: b of b", warns: "with a skew of 2, more than its maxSkew of 1",
		},
		"a DaemonSet's only to its own node": {
			nodes: []*corev1.Node{a, n}, pods: []*corev1.Pod{pod("p", "n", owned("DaemonSet", "d"), tolerating("k", 30))},
			want: "p: n of n", warns: "It goes back to n and must leave again after 30s",
		},
		"a DaemonSet's not at all, if it does not tolerate the taint": {
			nodes: []*corev1.Node{a, n}, pods: []*corev1.Pod{pod("p", "n", owned("DaemonSet", "d"))},
			want: "p: Its node does not take a pod of its DaemonSet: 1 node(s) had untolerated taint(s).",
		},
		"a StatefulSet's not at all from a node that is unreachable": {
			nodes: []*corev1.Node{a, node("n", "1", unreachable)}, pods: []*corev1.Pod{pod("p", "n", owned("StatefulSet", "db"))},
			want: "p: Its node is unreachable, so the pod stays Terminating. Its StatefulSet creates no successor until the pod object is deleted.",
		},
		"a StatefulSet's from a node that is unreachable and out of service": {
			nodes: []*corev1.Node{a, node("n", "1", unreachable, tainted(corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute"))},
			pods:  []*corev1.Pod{pod("p", "n", owned("StatefulSet", "db"))},
			want:  "p: a of a",
		},
		"a DaemonSet's not at all from a node that is unreachable": {
			nodes: []*corev1.Node{a, node("n", "1", unreachable)},
			pods:  []*corev1.Pod{pod("p", "n", owned("DaemonSet", "d"), tolerating("k", 30), tolerating(corev1.TaintNodeUnreachable, 60))},
			want:  "p: Its node is unreachable, so the pod stays Terminating. Its DaemonSet creates no successor until the pod object is deleted.",
		},
		"apart from its like that is terminating on a node that is unreachable": {
			nodes: []*corev1.Node{a, b, node("n", "1", unreachable)}, pods: []*corev1.Pod{pod("p", "n", apartByZone)},
			want: "p: b of b",
		},
		"without a controller there is none": {
			nodes: []*corev1.Node{a, n}, pods: []*corev1.Pod{pod("p", "n", func(pod *corev1.Pod) { pod.OwnerReferences = nil })},
			want: "p: It has no controller, so nothing creates a successor.",
		},
		"a finished pod needs none": {
			nodes: []*corev1.Node{a, n}, pods: []*corev1.Pod{pod("p", "n", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })},
			want: "p: It has finished, so it needs no successor.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{Nodes: test.nodes, Pods: test.pods}
			if test.more != nil {
				test.more(cluster)
			}
			made := placed(t, cluster)
			if got := story(made); got != test.want {
				t.Errorf("it goes\n\t%s, want\n\t%s", got, test.want)
			}
			warned := fmt.Sprint(made.Pods[0].WhereTo.Warnings)
			if test.warns == "" && warned != "[]" || !strings.Contains(warned, test.warns) {
				t.Errorf("the warnings are\n\t%s, want\n\t%s", warned, test.warns)
			}
		})
	}
}

// TestWorkloadsAreSpreadByDefault has a zone c without pods of the workload, with less room than the other zones.
func TestWorkloadsAreSpreadByDefault(t *testing.T) {
	of := func(apiVersion, kind string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.OwnerReferences[0] = metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "web", Controller: new(true)}
		}
	}
	ordinal := func(pod *corev1.Pod) { pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name }
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
	inTier := func(pod *corev1.Pod) { pod.Labels["tier"] = "web" }
	for name, test := range map[string]struct {
		owned  []func(*corev1.Pod) // for both pods
		change func(first *corev1.Pod)
		more   func(*state.Cluster)
		want   string
	}{
		"of a ReplicaSet":            {owned: []func(*corev1.Pod){of("apps/v1", "ReplicaSet")}, want: "c"},
		"of a StatefulSet":           {owned: []func(*corev1.Pod){of("apps/v1", "StatefulSet"), ordinal}, want: "c"},
		"of a ReplicationController": {owned: []func(*corev1.Pod){of("v1", "ReplicationController")}, want: "c"},
		"of nothing that spreads":    {owned: []func(*corev1.Pod){of("batch/v1", "Job")}, want: "a"},
		"of a Service": {
			owned: []func(*corev1.Pod){of("batch/v1", "Job")}, want: "c",
			more: func(cluster *state.Cluster) {
				cluster.Services = []*corev1.Service{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
					Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "app"}},
				}}
			},
		},
		"with one pod that has a label of its own": {
			owned: []func(*corev1.Pod){of("apps/v1", "ReplicaSet")}, want: "c",
			change: func(first *corev1.Pod) { first.Labels["debug"] = "yes" },
		},
		"by the selector of the files": {
			owned: []func(*corev1.Pod){of("apps/v1", "ReplicaSet"), inTier}, want: "a",
			more: func(cluster *state.Cluster) {
				// It also selects those in zone c, so that zone a has the fewest.
				cluster.Selectors = map[types.UID]*metav1.LabelSelector{"web": web}
				for _, pod := range cluster.Pods[2:] {
					inTier(pod)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []*corev1.Pod{pod("p", "n", test.owned...), pod("q", "a", test.owned...)}
			if test.change != nil {
				test.change(pods[1])
			}
			for i := range 2 {
				busy := pod(fmt.Sprintf("busy%d", i), "c", asking("500m"), owned("Job", "busy"))
				pods = append(pods, busy)
			}
			cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "1"), node("c", "3"), node("n", "2")}, Pods: pods}
			cluster.Pods[1].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
			if test.more != nil {
				test.more(cluster)
			}
			if got, want := story(placed(t, cluster)), fmt.Sprintf("p: %s of a+c", test.want); got != want {
				t.Errorf("it goes\n\t%s, want\n\t%s", got, want)
			}
		})
	}
}

func TestSuccessorsArePlacedOneAfterTheOther(t *testing.T) {
	important := func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(1000)) }
	small := func(node *corev1.Node) { node.Status.Allocatable = resources("1") }
	toN2 := selecting(corev1.LabelHostname, "n2")
	offN2 := func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n2"}},
			}}},
		}}}
	}
	withoutUID := func(pod *corev1.Pod) { pod.UID = "" }
	a, b, n, busy := node("a", "1"), node("b", "1"), node("n", "1"), pod("busy", "a", asking("3"))
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		"the one that matters most first": {
			[]*corev1.Node{a, n}, []*corev1.Pod{busy, pod("p", "n"), pod("q", "n", important)}, "p: nowhere; q: a of a",
		},
		"the one that leaves earlier first": {
			[]*corev1.Node{a, node("n", "1", tainted("x:NoSchedule"))},
			[]*corev1.Pod{busy, pod("p", "n", tolerating("k", 60)), pod("q", "n", tolerating("k", 30))}, "p: nowhere; q: a of a",
		},
		"pods that are due already leave together": {
			[]*corev1.Node{a, node("n", "1", tainted("x:NoExecute"))},
			[]*corev1.Pod{busy, pod("p", "n", tolerating("x", 60)), pod("q", "n", tolerating("x", 120), important)}, "p: nowhere; q: a of a",
		},
		"pods that already wait for a node come first": {
			[]*corev1.Node{a, n},
			[]*corev1.Pod{pod("p", "n", asking("3")), pod("waits", "", asking("3"), owned("ReplicaSet", "other"), tolerating("k", 60))}, "p: nowhere",
		},
		"a pod waits for the room of another": {
			[]*corev1.Node{node("n", "1", small), node("n2", "1", small)}, []*corev1.Pod{
				pod("q", "n", asking("600m"), tolerating("k", 60), toN2), pod("p", "n2", asking("800m"), tolerating("k", 30), offN2),
				pod("r", "n2", asking("200m"), tolerating("k")),
			}, "p: n of n; q: n2 of n2",
		},
		"what is placed counts for those that keep apart": {
			[]*corev1.Node{a, b, n}, []*corev1.Pod{pod("p", "n", apart), pod("q", "n", apart), pod("r", "n", apart)},
			"p: a of a+b; q: b of b; r: nowhere",
		},
		"pods of a file may lack UIDs": {
			[]*corev1.Node{a, n}, []*corev1.Pod{pod("p", "n", withoutUID), pod("q", "n", withoutUID)}, "p: a of a; q: a of a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{Nodes: test.nodes}
			for _, pod := range test.pods {
				state.Pods.Add(cluster, pod)
			}
			if got := story(placed(t, cluster)); got != test.want {
				t.Errorf("they go\n\t%s, want\n\t%s", got, test.want)
			}
		})
	}
}

func TestAPodWaitsForThoseThatItNeeds(t *testing.T) {
	important := func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(1000)) }
	for name, needed := range map[string][]func(*corev1.Pod){
		"that leave with it":  {owned("ReplicaSet", "db")},
		"that leave after it": {owned("ReplicaSet", "db"), tolerating("k", 60)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{node("a", "1"), node("b", "1"), node("n", "1")},
				Pods: []*corev1.Pod{
					pod("db", "n", append(needed, asking("1500m"), selecting(corev1.LabelHostname, "b"))...),
					pod("p0", "n", nearDB, important), pod("p1", "n", nearDB, important), pod("p2", "n", nearDB, important),
				},
			}
			made := placed(t, cluster)
			if got, want := story(made), "db: b of b; p0: b of b; p1: b of b; p2: nowhere"; got != want {
				t.Errorf("they go\n\t%s, want\n\t%s", got, want)
			}
			if notes := strings.Join(made.Notes, " "); !strings.Contains(notes, "fit one after other pods are placed or leave: 2.") {
				t.Errorf("no note says so: %s", notes)
			}
		})
	}
}

func TestAnAnswerForAnEqualPodIsABoundOnceEnoughIsAsked(t *testing.T) {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "1"), node("b", "1"), node("n", "1")}}
	for i := range 3 {
		cluster.Pods = append(cluster.Pods, pod(fmt.Sprintf("p%d", i), "n"))
	}
	cluster.Pods = append(cluster.Pods, pod("q", "n", asking("2")))
	made := placedAsking(t, cluster, 1)
	want := "p0: a of a+b; p1: at most a+b; p2: at most a+b; q: The scheduler was not asked about it, because the run time is limited, and 1 pod before it used up that limit."
	if got := story(made); got != want {
		t.Errorf("they go\n\t%s, want\n\t%s", got, want)
	}
	if made.Summary.Bounds != 2 || !strings.Contains(strings.Join(made.Notes, " "), "only an upper bound on the number of nodes that fit is known, because the run time is limited: 2") {
		t.Errorf("the plan does not say so: %+v, %q", made.Summary, made.Notes)
	}
}

func TestPodsThatCountOthersUseUpTheirOwnLimitOnly(t *testing.T) {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "1"), node("b", "1"), node("n", "1")}, Pods: []*corev1.Pod{
		pod("p", "n", spread(corev1.DoNotSchedule)), pod("q", "n", apart), pod("r", "n"), pod("s", "n", asking("2")),
	}}
	want := "p: a of a+b; q: The scheduler was not asked about it, because the run time is limited, and 1 pod before it used up that limit. A pod with spread constraints or pod affinity is compared with all pods.; " +
		"r: b of a+b; s: The scheduler was not asked about it, because the run time is limited, and 1 pod before it used up that limit."
	if got := story(placedAsking(t, cluster, 1)); got != want {
		t.Errorf("they go\n\t%s, want\n\t%s", got, want)
	}
}

func TestEqualPodsGetTheAnswersThatTheyWouldGetOneByOne(t *testing.T) {
	build := func(change func(i int, pod *corev1.Pod)) *state.Cluster {
		cluster := &state.Cluster{Nodes: []*corev1.Node{node("n", "1", func(node *corev1.Node) { node.Status.Allocatable = resources("400") })}}
		for i := range 7 {
			cluster.Nodes = append(cluster.Nodes, node(fmt.Sprintf("a%d", i), fmt.Sprint(i%3)))
			cluster.Pods = append(cluster.Pods, pod(fmt.Sprintf("busy%d", i), fmt.Sprintf("a%d", i), asking(fmt.Sprintf("%dm", 500*i))))
		}
		for i := range 40 {
			cluster.Pods = append(cluster.Pods, pod(fmt.Sprintf("p%02d", i), "n", func(pod *corev1.Pod) { change(i, pod) }))
		}
		return cluster
	}
	grouped := story(placed(t, build(func(int, *corev1.Pod) {})))
	alone := story(placed(t, build(func(i int, pod *corev1.Pod) { pod.Labels["number"] = fmt.Sprint(i) })))
	if grouped != alone {
		t.Errorf("equal pods go\n\t%s, and pods with a label each\n\t%s", grouped, alone)
	}
}

func TestVolumesThatWaitForTheirPodAreChosenOneByOne(t *testing.T) {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("a", "1"), node("n", "1")},
		Pods:  []*corev1.Pod{pod("p", "n", claiming("p")), pod("q", "n", claiming("q"))},
		StorageClasses: []*storagev1.StorageClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
		}},
		Volumes: []*corev1.PersistentVolume{{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		}},
	}
	for _, name := range []string{"p", "q"} {
		cluster.Claims = append(cluster.Claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("local"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		})
	}
	made := placed(t, cluster)
	if got, want := story(made), "p: a of a; q: nowhere"; got != want {
		t.Errorf("they go %s, want %s", got, want)
	}
}

func TestNotesSayWhatTheSchedulerIsNotAsked(t *testing.T) {
	claims := func(pod *corev1.Pod) { pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }
	other := func(pod *corev1.Pod) { pod.Spec.SchedulerName = "volcano" }
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{node("a", "1"), node("n", "1")},
		Pods:  []*corev1.Pod{pod("p", "n", claiming("unknown")), pod("q", "n", claims), pod("r", "n", other)},
	}
	notes := strings.Join(placed(t, cluster).Notes, "\n")
	for _, part := range []string{
		"It does not take into account resource claims (DRA)",
		"volumes that are unknown, or created with the pod: 1.",
		"Pods that leave with resource claims (DRA): 1.",
		"name another scheduler: 1.",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("no note says %q:\n%s", part, notes)
		}
	}
}

func TestAnInterruptionEndsIt(t *testing.T) {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "1"), node("n", "1")}, Pods: []*corev1.Pod{pod("p", "n")}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	edit, err := taints.ParseEdit("k:NoExecute")
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Make(ctx, cluster, plan.Request{Nodes: cluster.Nodes[1:], Edit: edit, At: now, WhereTo: true})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the error is %v, want an interruption", err)
	}
}

// A file may contain what the API server would not accept.
func TestAPodThatTheSchedulerCannotBeAskedAboutKeepsNoOtherFromItsNode(t *testing.T) {
	broken := func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}},
		}}
	}
	made := placed(t, &state.Cluster{
		Nodes: []*corev1.Node{node("a", "1"), node("n", "1")},
		Pods:  []*corev1.Pod{pod("p", "n", broken, owned("ReplicaSet", "broken")), pod("q", "n")},
	})
	if got := story(made); !strings.HasPrefix(got, "p: The scheduler cannot be asked: ") || !strings.HasSuffix(got, "; q: a of a") {
		t.Errorf("they go %s", got)
	}
}

// above lets a pod tolerate the taint sla if its value is above 4.
func above(pod *corev1.Pod) {
	pod.Spec.Tolerations = append(pod.Spec.Tolerations,
		corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "4"})
}

// p tolerates the taint of node n0 with Gt. The room that q leaves there is for p, which waits for it.
func TestAPodThatWaitsIsAskedAboutAgainWhenItToleratesATaintWithGt(t *testing.T) {
	p := func(pod *corev1.Pod) {
		tolerating("k", 10)(pod)
		above(pod)
		selecting(corev1.LabelTopologyZone, "b")(pod)
	}
	made := placed(t, &state.Cluster{
		Nodes: []*corev1.Node{node("n", "a"), node("n0", "b", tainted("sla=5:NoSchedule"))},
		Pods:  []*corev1.Pod{pod("p", "n", p), pod("q", "n0", asking("4"), tolerating("k", 60))},
	})
	if got, want := story(made), "p: n0 of n0; q: n of n"; got != want {
		t.Errorf("they go %s, want %s", got, want)
	}
}
