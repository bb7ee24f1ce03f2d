// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

var (
	noon  = time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	grace = readiness.Grace{Monitor: 50 * time.Second, Startup: time.Minute}
	rates = readiness.Policy{Rate: 0.1, SecondaryRate: 0.01, FullDisruptionRate: 0.1, LargeZone: 50, UnhealthyShare: 0.55}
)

// node returns a ready node in a zone.
func node(zone, name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{
			corev1.LabelTopologyZone: zone, corev1.LabelHostname: name,
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// pod returns a ready pod of a workload. It tolerates unreachable nodes for some seconds.
func pod(node, kind, owner, name string, seconds int64) *corev1.Pod {
	bound := metav1.NewTime(noon.Add(-time.Hour))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: bound, Labels: map[string]string{"app": owner},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: bound},
		}},
	}
}

// small returns a cluster with two nodes in zone a and three in zone b.
func small(pods ...*corev1.Pod) *state.Cluster {
	return &state.Cluster{
		Nodes:   []*corev1.Node{node("a", "a1"), node("a", "a2"), node("b", "b1"), node("b", "b2"), node("b", "b3")},
		Pods:    pods,
		Renewed: map[string]time.Time{"a1": noon, "a2": noon, "b1": noon, "b2": noon, "b3": noon},
	}
}

// play plays steps for 30 minutes.
func play(t *testing.T, cluster *state.Cluster, steps ...string) *cliv1alpha1.SimulationReport {
	t.Helper()
	return playOptions(t, cluster, course.Options{}, steps...)
}

func playOptions(
	t *testing.T, cluster *state.Cluster, options course.Options, steps ...string,
) *cliv1alpha1.SimulationReport {
	t.Helper()
	scenario, err := course.Parse([]byte("{kind: Simulation, until: 30m, steps: [" + strings.Join(steps, ", ") + "]}"))
	if err != nil {
		t.Fatal(err)
	}
	options.At, options.Grace, options.Policy, options.StartDelay = noon, grace, rates, 5*time.Second
	report, err := course.Play(t.Context(), cluster, scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// story returns the story of a report, one line per event.
func story(report *cliv1alpha1.SimulationReport) (lines []string) {
	for _, event := range report.Story {
		line := event.At.Duration.String()
		if event.Ends != nil {
			line += "-" + event.Ends.Duration.String()
		}
		lines = append(lines, line+" "+event.Message)
	}
	return lines
}

func checkStory(t *testing.T, report *cliv1alpha1.SimulationReport, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, story(report)); diff != "" {
		t.Errorf("another story (-want +got):\n%s", diff)
	}
}

func TestANodeThatFallsSilentLosesItsPodsAndComesBack(t *testing.T) {
	report := play(t, small(pod("b1", "ReplicaSet", "web", "web-1", 60), pod("a1", "ReplicaSet", "web", "web-2", 60)),
		"{at: 10s, silent: {nodes: [b1]}}", "{at: 10m, back: {nodes: [b1]}}")
	checkStory(t, report,
		"10s node b1 falls silent",
		"1m0s node b1 is unreachable",
		"1m0s node b1 is tainted NoExecute by node health",
		"2m0s 1 pod leaves node b1 because of node.kubernetes.io/unreachable:NoExecute",
		"10m0s node b1 is back",
	)
	want := []cliv1alpha1.SimulatedWorkload{{
		Owner: cliv1alpha1.Owner{Kind: "ReplicaSet", Name: "web"}, Namespace: "shop", Replicas: 2, Lowest: 1, AtEnd: 2,
		LowestAt:  metav1.Duration{Duration: time.Minute},
		LowestFor: metav1.Duration{Duration: 65 * time.Second}, // until the successor is ready
		Steps: []cliv1alpha1.SimulatedReplicas{
			{At: metav1.Duration{Duration: time.Minute}, Ready: 1},
			{At: metav1.Duration{Duration: 125 * time.Second}, Ready: 2},
		},
	}}
	if diff := cmp.Diff(want, report.Workloads); diff != "" {
		t.Errorf("other workloads (-want +got):\n%s", diff)
	}
	last := report.Nodes[0].Steps[len(report.Nodes[0].Steps)-1]
	if report.Nodes[0].Name != "b1" || len(last.Taints) > 0 || last.At.Duration != 10*time.Minute {
		t.Errorf("the nodes are %+v, want b1, without taints from 10m on", report.Nodes)
	}
}

func TestTheReportSaysWhichClusterAndWhichTaintsThereWere(t *testing.T) {
	cluster := small(pod("b1", "ReplicaSet", "web", "web-1", 60))
	cluster.Location = state.Location{Context: "ops", Cluster: "prod", Server: "https://prod"}
	cluster.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoExecute}}
	report := play(t, cluster, "{at: 1m, taint: {nodes: [a1], taints: [new=taint:NoSchedule]}}")
	if is := (state.Location{Context: report.Context, Cluster: report.Cluster, Server: report.Server}); is != cluster.Location {
		t.Errorf("the report is of %s, want %s", is, cluster.Location)
	}
	want := []cliv1alpha1.SimulatedNode{
		{Name: "a1", Zone: "a", Before: []string{}, Steps: []cliv1alpha1.SimulatedTaints{
			{At: metav1.Duration{Duration: time.Minute}, Taints: []string{"new=taint:NoSchedule"}},
		}},
		{Name: "b1", Zone: "b", Before: []string{"old:NoExecute"}}, // its pod leaves
	}
	if diff := cmp.Diff(want, report.Nodes); diff != "" {
		t.Errorf("other nodes (-want +got):\n%s", diff)
	}
}

// The room of a pod and the name of a StatefulSet's pod are free when the pod is gone.
func TestAPodThatLeavesMayUseItsGracePeriod(t *testing.T) {
	const tainted, silent = "{at: 1m, taint: {nodes: [b1], taints: ['k:NoExecute']}}", "{at: 0s, silent: {nodes: [b1]}}"
	const others = "{at: 0s, taint: {nodes: [b2], taints: ['k:NoExecute']}}"
	for name, test := range map[string]struct {
		grace  int64
		leaves time.Duration // when it was to be gone, since the start; 0 if it is not terminating
		steps  []string
		ready  time.Duration // when its successor is
		says   string
	}{
		"of a minute":                           {60, 0, []string{tainted}, 2*time.Minute + 5*time.Second, "1m0s StatefulSet shop/db has 0 of 1 replica, for at most 1m5s"},
		"of none":                               {0, 0, []string{tainted}, time.Minute + 5*time.Second, "1m0s StatefulSet shop/db has 0 of 1 replica, for 5s"},
		"of none on a silent node":              {0, 0, []string{silent}, 115 * time.Second, "50s StatefulSet shop/db has 0 of 1 replica, for 1m5s"},
		"from when its kubelet is back":         {60, 0, []string{silent, "{at: 10m, back: {nodes: [b1]}}"}, 11*time.Minute + 5*time.Second, "50s StatefulSet shop/db has 0 of 1 replica, for at most 10m15s"},
		"while its kubelet is silent and back":  {60, 0, []string{tainted, "{at: 90s, silent: {nodes: [b1]}}", "{at: 110s, back: {nodes: [b1]}}"}, 2*time.Minute + 5*time.Second, "1m0s StatefulSet shop/db has 0 of 1 replica, for at most 1m5s"},
		"while the API server is down":          {60, 0, []string{tainted, "{at: 90s, apiServerDown: 10m}"}, 11*time.Minute + 35*time.Second, "1m0s StatefulSet shop/db has 0 of 1 replica, for at most 10m35s"},
		"which its deletion timestamp includes": {60, 20 * time.Second, []string{others}, 25 * time.Second, ""},
		"which may be over":                     {60, -time.Hour, []string{others}, 5 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := pod("b1", "StatefulSet", "db", "db-0", 60)
			cluster := small(db)
			if db.Spec.TerminationGracePeriodSeconds = &test.grace; test.leaves != 0 {
				db.DeletionTimestamp, db.DeletionGracePeriodSeconds = new(metav1.NewTime(noon.Add(test.leaves))), &test.grace
				cluster.Pods = append(cluster.Pods, pod("b2", "StatefulSet", "db", "db-1", 60))
			}
			report := play(t, cluster, test.steps...)
			steps := report.Workloads[0].Steps
			i := slices.IndexFunc(steps, func(step cliv1alpha1.SimulatedReplicas) bool { return step.Ready == 1 })
			if i < 0 || steps[i].At.Duration != test.ready {
				t.Errorf("the replicas are %+v, want the successor to be ready at %s", steps, test.ready)
			}
			if lines := story(report); test.says != "" && !slices.Contains(lines, test.says) {
				t.Errorf("the story is %q, want %q in it", lines, test.says)
			}
		})
	}
}

func TestARoomIsFreeWhenThePodIsGone(t *testing.T) {
	is := func(node, owner string) *corev1.Pod {
		all := pod(node, "ReplicaSet", owner, owner, 60)
		all.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
		}}}
		return all
	}
	cluster := small(is("a1", "stays"), is("a2", "first"), is("b1", "then"))
	cluster.Nodes = cluster.Nodes[:3]
	for _, node := range cluster.Nodes {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("9"), corev1.ResourceCPU: resource.MustParse("4")}
	}
	report := playOptions(t, cluster, course.Options{WhereTo: true},
		"{at: 0s, taint: {nodes: [a2], taints: ['k:NoExecute']}}", "{at: 1m, taint: {nodes: [a2], taints: ['k-']}}",
		"{at: 2m, taint: {nodes: [b1], taints: ['k:NoExecute']}}", "{at: 2m10s, taint: {nodes: [b1], taints: ['k-']}}")
	got := map[string]string{}
	for _, told := range report.Pods {
		if told.WaitsUntil != nil {
			got[told.Name] = told.Node + " at " + told.WaitsUntil.Duration.String()
		}
	}
	if diff := cmp.Diff(map[string]string{"first~2": "a2 at 1m0s", "then~2": "b1 at 2m30s"}, got); diff != "" {
		t.Errorf("successors find room (-want +got):\n%s", diff)
	}
}

// A controller cannot create the successor of a pod that still counts in a ResourceQuota.
func TestAQuotaDelaysSuccessors(t *testing.T) {
	const pods, cpu = "Quota shop/q allows no more pods.", "Quota shop/q allows no more requests.cpu."
	only := func(name corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: name, Operator: operator, Values: values},
		}}}
	}
	scoped := func(scope corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{scope}}
	}
	class := corev1.ResourceQuotaScopePriorityClass
	for name, test := range map[string]struct {
		spec  corev1.ResourceQuotaSpec
		hard  corev1.ResourceList // 2 pods if nil
		waits string
	}{
		"of pods":                           {waits: pods},
		"of objects":                        {hard: corev1.ResourceList{"count/pods": resource.MustParse("2")}, waits: "Quota shop/q allows no more count/pods."},
		"with room":                         {hard: corev1.ResourceList{"pods": resource.MustParse("3")}},
		"of requests":                       {hard: corev1.ResourceList{"requests.cpu": resource.MustParse("2500m")}, waits: cpu},
		"of requests that fit":              {hard: corev1.ResourceList{"cpu": resource.MustParse("3"), "limits.cpu": resource.MustParse("1")}},
		"of what the pods do not request":   {hard: corev1.ResourceList{"requests.memory": resource.MustParse("0"), "services": resource.MustParse("0")}},
		"of pods without requests":          {spec: scoped(corev1.ResourceQuotaScopeBestEffort)},
		"of pods with requests":             {spec: scoped(corev1.ResourceQuotaScopeNotBestEffort), waits: pods},
		"of pods with a deadline":           {spec: scoped(corev1.ResourceQuotaScopeTerminating)},
		"of pods without a deadline":        {spec: scoped(corev1.ResourceQuotaScopeNotTerminating), waits: pods},
		"of another priority":               {spec: only(class, corev1.ScopeSelectorOpIn, "low", "")},
		"of this priority":                  {spec: only(class, corev1.ScopeSelectorOpIn, "low", "high"), waits: pods},
		"of all priorities but this":        {spec: only(class, corev1.ScopeSelectorOpNotIn, "high")},
		"of pods with any priority":         {spec: only(class, corev1.ScopeSelectorOpExists), waits: pods},
		"of pods without a priority":        {spec: only(class, corev1.ScopeSelectorOpDoesNotExist)},
		"of a scope that nobody here knows": {spec: scoped("Other")},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := small(pod("b1", "ReplicaSet", "web", "web-1", 60), pod("b2", "ReplicaSet", "web", "web-2", 60))
			for _, pod := range cluster.Pods {
				pod.Spec.PriorityClassName = "high"
				pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}}}
			}
			if test.spec.Hard = test.hard; test.hard == nil {
				test.spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
			}
			cluster.Quotas = []*corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}, Spec: test.spec}}
			ready := 5 * time.Second
			if test.waits != "" {
				ready += 30 * time.Second
			}
			report := play(t, cluster, "{at: 0s, taint: {nodes: [b1], taints: ['k:NoExecute']}}")
			if w := report.Workloads[0]; w.Lowest != 1 || w.LowestFor.Duration != ready {
				t.Errorf("%+v, want one replica for %s", w, ready)
			}
			i := slices.IndexFunc(report.Pods, func(told cliv1alpha1.SimulatedPod) bool { return told.Name == "web-1~2" })
			if i >= 0 && report.Pods[i].Reason != test.waits || i < 0 && test.waits != "" {
				t.Errorf("the pods are %+v, want the successor to wait because of %q", report.Pods, test.waits)
			}
			planned := planFor(t, cluster, cluster.Nodes[2:3], "k:NoExecute")
			if got := planned.Workloads[0].Lowest; got != 1 {
				t.Errorf("in the plan, %d are ready at the lowest, want 1", got)
			}
		})
	}
}

// A pod on a silent node counts until the node is back.
func TestAQuotaThatIsUsedUpKeepsSuccessorsWaiting(t *testing.T) {
	cluster := small(pod("b1", "ReplicaSet", "web", "web-1", 60))
	cluster.Quotas = []*corev1.ResourceQuota{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}}
	for _, node := range cluster.Nodes {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("9")}
	}
	report := playOptions(t, cluster, course.Options{WhereTo: true}, "{at: 0s, silent: {nodes: [b1]}}")
	if got := report.Pods[1]; got.Reason != "Quota shop/q allows no more pods." || got.WaitsUntil != nil || report.Summary.Nowhere != 1 {
		t.Errorf("the pods are %+v, and %d have no room", report.Pods, report.Summary.Nowhere)
	}
	outcome, err := course.Retaint(t.Context(), cluster, []*corev1.Node{tainted(cluster.Nodes[2].DeepCopy(), "k")},
		course.Options{At: noon, WhereTo: true, Questions: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome.WhereTo["web-1"]; got.Node == "" || outcome.Late != 1 {
		t.Errorf("the successor goes to %+v, %d of them late; want it to wait until the pod is gone", got, outcome.Late)
	}
}

func TestAJobMakesSuccessorsUntilItFails(t *testing.T) {
	const silent = "{at: 0s, silent: {nodes: [b1]}}"
	limited := func(limit int32, policy batchv1.PodReplacementPolicy) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{UID: "job"},
			Spec:       batchv1.JobSpec{BackoffLimit: &limit, PodReplacementPolicy: &policy},
		}
	}
	indexed := func(failed int) *batchv1.Job { // one index may fail for the second time
		job := limited(math.MaxInt32, batchv1.TerminatingOrFailed)
		job.Spec.BackoffLimitPerIndex, job.Spec.MaxFailedIndexes = new(int32(1)), new(int32(1))
		job.Status.FailedIndexes = new([]string{"", "7-7"}[failed])
		return job
	}
	for name, test := range map[string]struct {
		job   *batchv1.Job
		later int64 // seconds for which the second pod tolerates the taint; the first tolerates it for 60
		steps []string
		want  map[string]string // successors
	}{
		"that leave one after the other": {
			limited(1, batchv1.TerminatingOrFailed), 120, []string{silent}, map[string]string{"p": "p~2", "p~2": "", "q": ""},
		},
		"that leave together": {
			limited(1, batchv1.TerminatingOrFailed), 60, []string{silent}, map[string]string{"p": "", "q": ""},
		},
		"that do not fail on an unreachable node": {
			limited(6, batchv1.Failed), 60, []string{silent}, map[string]string{"p": "", "q": ""},
		},
		"that fail when their node is back": {
			limited(6, batchv1.Failed), 60, []string{silent, "{at: 10m, back: {nodes: [b1]}}"}, map[string]string{"p": "p~2", "q": "q~2"},
		},
		"whose indexes fail apart": {
			indexed(0), 60, []string{silent}, map[string]string{"p": "", "q": "q~2"},
		},
		"of which too many indexes fail": {
			indexed(1), 60, []string{silent}, map[string]string{"p": "", "q": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := small(pod("b1", "Job", "job", "p", 60), pod("b1", "Job", "job", "q", test.later))
			for i, pod := range cluster.Pods {
				pod.Labels[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(i)
			}
			cluster.Pods[0].Annotations = map[string]string{batchv1.JobIndexFailureCountAnnotation: "1"}
			cluster.Jobs = []*batchv1.Job{test.job}
			got := map[string]string{}
			for _, pod := range play(t, cluster, test.steps...).Pods {
				got[pod.Name] = pod.Successor
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("other successors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStepsThatCannotHappenAreNotedAndNotTold(t *testing.T) {
	const silence = "{at: 0s, silent: {nodes: [b1, b1]}}"
	for name, test := range map[string]struct {
		steps []string
		want  []string // notes
		told  int      // lines in the story
	}{
		"a node falls silent twice": {
			[]string{silence, "{at: 10s, silent: {nodes: [b1]}}"},
			[]string{"Step 2 changes nothing because its nodes are silent already."}, 3,
		},
		"a node is back that was not silent": {
			[]string{"{at: 10s, back: {nodes: [b1]}}"}, []string{"Step 1 changes nothing because its nodes are not silent."}, 0,
		},
		"all nodes are back, of which one was silent": {[]string{silence, "{at: 10m, back: {all: true}}"}, nil, 4},
		"no node has the taint": {
			[]string{"{at: 10s, taint: {all: true, taints: [k-]}}"},
			[]string{`Step 1 skips 5 nodes: cannot remove taint "k": the node has no such taint; check the key and the effect.`}, 0,
		},
		"an outage within an outage does not end it": {
			[]string{"{at: 0s, apiServerDown: 10m}", "{at: 1m, apiServerDown: 1m}", "{at: 5m, taint: {nodes: [a1], taints: ['k:NoExecute']}}"},
			[]string{
				"Step 2 changes nothing because the API server is already down at that time.",
				"Step 3 is skipped: the API server is down at that time, so taints cannot be changed.",
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := play(t, small(), test.steps...)
			if diff := cmp.Diff(test.want, report.Notes); diff != "" || len(report.Story) != test.told {
				t.Errorf("the story is %q, want %d lines; other notes (-want +got):\n%s", story(report), test.told, diff)
			}
		})
	}
}

func TestAScenarioThatIsWrongGetsOneSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "the scenario has no kind: set it to Simulation",
		"{kind: EvictionPolicy, spec: {}}": `read the scenario: it has kind "EvictionPolicy", but should have kind Simulation; pass objects of the cluster with -f`,
		"[]":                               "read the scenario: cannot unmarshal array into Go value of type v1alpha1.Simulation",
		"kind: {a":                         "read the scenario: line 1: did not find expected ',' or '}'",
		"{until: 5}":                       "read the scenario: cannot unmarshal number into Go struct field Simulation.until of type string",
		"{until: 5d}":                      `read the scenario: unknown unit "d" in duration "5d": write it as 90s, 45m or 2h30m`,
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silnt: {}}]}":                                 `read the scenario: unknown field "silnt"`,
		"{kind: Simulation, until: 1m, until: 2m}":                                                    `read the scenario: line 1: key "until" already set in map`,
		"# one\n---\n{kind: Simulation}\n---\n{kind: Simulation}":                                     "read the scenario: it has several documents, but should have one",
		"{kind: Simulation, until: -1m, steps: [{at: 1s, silent: {all: true}}]}":                      "until: say when the simulation ends, such as 45m",
		"{kind: Simulation, until: 9999h, steps: [{at: 1s, silent: {all: true}}]}":                    "until: 9999h0m0s is too long: at most 8760h0m0s can be simulated",
		"{kind: Simulation, until: 1m, steps: []}":                                                    "steps: the list is empty, so nothing would happen",
		"{kind: Simulation, until: 1m, steps: [{at: -1s, silent: {all: true}}]}":                      "step 1: at: -1s is before the start",
		"{kind: Simulation, until: 1m, steps: [{at: 2m, silent: {all: true}}]}":                       "step 1: at: 2m0s is after the end, which is at 1m0s",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {}}]}":                                "step 1: silent: set exactly one of nodes, selector and all",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {nodes: b1}}]}":                       "read the scenario: cannot unmarshal string into Go struct field SimulationNodes.steps.silent.nodes of type []string",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {nodes: ['']}}]}":                     "step 1: silent: a name in nodes is empty",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {selector: ' '}}]}":                   `step 1: silent: selector " " selects all nodes: set all instead`,
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {all: true}, apiServerDown: 1m}]}":    "step 1: set exactly one of silent, back, taint and apiServerDown",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, apiServerDown: 0s}]}":                         "step 1: apiServerDown: 0s must be more than 0s, and at most 8760h0m0s",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, apiServerDown: 9999h}]}":                      "step 1: apiServerDown: 9999h0m0s must be more than 0s, and at most 8760h0m0s",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, taint: {all: true}}]}":                        "step 1: taint: list at least one taint, such as maintenance=now:NoExecute",
		"{kind: Simulation, until: 1m, steps: [{at: 1s, taint: {all: true, taints: ['k:NoExec']}}]}":  `step 1: parse taint "k:NoExec": there is no effect "NoExec": use NoSchedule, PreferNoSchedule or NoExecute`,
		"{kind: Simulation, until: 1m, steps: [{at: 1s, silent: {nodes: [b1], selector: zone=b}}]}":   "step 1: silent: set exactly one of nodes, selector and all",
		"{kind: Simulation, apiVersion: v1, until: 1m, steps: [{at: 1s, silent: {selector: 'a=b'}}]}": `the scenario has apiVersion "v1", but should have cli.taintkeeper.dev/v1alpha1`,
	} {
		if _, err := course.Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: the error is %v, want %s", text, err, want)
		}
	}
}

func TestNodesOfAScenarioMustExist(t *testing.T) {
	for step, want := range map[string]string{
		"{at: 1s, silent: {nodes: [b1, b8, b9]}}":                                                       "step 1: the cluster has no nodes b8, b9",
		"{at: 1s, silent: {nodes: [b8]}}, {at: 1s, back: {nodes: [b9]}}, {at: 2s, back: {nodes: [b8]}}": "step 1 (also 3): the cluster has no node b8\nstep 2: the cluster has no node b9",
		"{at: 1s, back: {selector: no-label-like-this}}":                                                "step 1: no node matches the selector",
	} {
		scenario, err := course.Parse([]byte("{kind: Simulation, until: 30m, steps: [" + step + "]}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := course.Play(t.Context(), small(), scenario, course.Options{At: noon, Grace: grace, Policy: rates}); err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", step, err, want)
		}
		want = "the cluster has no nodes, so nothing would happen"
		if _, err := course.Play(t.Context(), &state.Cluster{}, scenario, course.Options{At: noon}); err == nil || err.Error() != want {
			t.Errorf("without nodes: the error is %v, want %s", err, want)
		}
	}
}

func policyOf(spec v1alpha1.EvictionPolicySpec) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec}
}

// webs returns pods of one workload on a node.
func webs(n int, node string) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, pod(node, "ReplicaSet", "web", fmt.Sprintf("web-%d", i), 60))
	}
	return pods
}

func TestPoliciesHoldPods(t *testing.T) {
	for name, test := range map[string]struct {
		spec  v1alpha1.EvictionPolicySpec
		steps []string
		left  []time.Duration // when those of the 4 pods that leave do so
		held  int
	}{
		"a hold with a deadline": {
			spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: 2 * time.Minute}},
			left: []time.Duration{3 * time.Minute, 3 * time.Minute, 3 * time.Minute, 3 * time.Minute},
		},
		"a hold": {spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}, held: 4},
		"a pace": {
			spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 2, Per: metav1.Duration{Duration: time.Minute}, Scope: v1alpha1.ScopeCluster}},
			left: []time.Duration{time.Minute, time.Minute, 2 * time.Minute, 2 * time.Minute},
		},
		"a breaker that trips, and closes when the taint is gone": {
			spec:  v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2)}},
			steps: []string{"{at: 5m, taint: {nodes: [b1], taints: ['k-']}}"},
		},
		"a breaker that does not trip": {
			spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(4)}},
			left: []time.Duration{2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		},
		"a budget that allows one to be missing": { // each successor takes 5 s to be ready
			spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict},
			left: []time.Duration{60 * time.Second, 65 * time.Second, 70 * time.Second, 75 * time.Second},
		},
		"a dry run": {
			spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, DryRun: true},
			left: []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := small(webs(4, "b1")...)
			cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(test.spec)}
			one := intstr.FromInt32(1)
			cluster.Budgets = []*policyv1.PodDisruptionBudget{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			}}
			report := play(t, cluster, append([]string{"{at: 1m, taint: {nodes: [b1], taints: ['k:NoExecute']}}"}, test.steps...)...)
			var left []time.Duration
			for _, pod := range report.Pods {
				if pod.LeavesAt != nil {
					left = append(left, pod.LeavesAt.Duration)
				}
			}
			if diff := cmp.Diff(test.left, left); diff != "" || report.Summary.Held != test.held {
				t.Errorf("%d are held, want %d; pods leave at other times (-want +got):\n%s\nthe story is %q", report.Summary.Held, test.held, diff, story(report))
			}
		})
	}
}

func TestABreakerWithTheDefaultsSeesAnOutageThatNodeHealthTaintsNodeByNode(t *testing.T) {
	cluster := &state.Cluster{Policies: []*v1alpha1.EvictionPolicy{policyOf(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromString("20%")},
	})}}
	var silent []string
	for i := range 50 { // 20 of 50 are no disruption of the zone
		name := fmt.Sprint("n", i)
		cluster.Nodes = append(cluster.Nodes, node("c", name))
		if i >= 20 {
			continue
		}
		silent = append(silent, name)
		for j := range 5 {
			cluster.Pods = append(cluster.Pods, pod(name, "ReplicaSet", "web", fmt.Sprintf("web-%d-%d", i, j), 300))
		}
	}
	report := play(t, cluster, "{at: 10s, silent: {nodes: ["+strings.Join(silent, ", ")+"]}}")
	if report.Summary.Held != 100 {
		t.Errorf("%d of 100 pods are held: %q", report.Summary.Held, story(report))
	}
}

// randomCluster returns a cluster in which the nodes of zone a have no NoExecute taints.
func randomCluster(random *rand.Rand) *state.Cluster {
	cluster := &state.Cluster{}
	for i := range 2 + random.IntN(6) {
		cluster.Nodes = append(cluster.Nodes, node("b", fmt.Sprintf("b%d", i)), node("a", fmt.Sprintf("a%d", i)))
	}
	for i := range 30 {
		on := cluster.Nodes[random.IntN(len(cluster.Nodes))]
		is := pod(on.Name, []string{"ReplicaSet", "StatefulSet", "Job"}[random.IntN(3)], fmt.Sprint("w", random.IntN(5)), fmt.Sprint("p", i), random.Int64N(600))
		if random.IntN(3) == 0 {
			is.Spec.Tolerations = append(is.Spec.Tolerations, corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: new(random.Int64N(300)), Effect: corev1.TaintEffectNoExecute})
		}
		cluster.Pods = append(cluster.Pods, is)
	}
	return cluster
}

func TestTheLastPlaceGoesToTheSuccessorThatIsCreatedFirst(t *testing.T) {
	cluster := narrow([]string{"n1", "n2"}, pod("n1", "StatefulSet", "a-db", "a-db-0", 60), pod("n1", "ReplicaSet", "web", "web-1", 60))
	cluster.Nodes[0].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2")
	report := playOptions(t, cluster, course.Options{WhereTo: true}, drainN1)
	checkStory(t, report,
		"1m0s node n1: taint k:NoExecute set",
		"1m0s 2 pods leave node n1 because of k:NoExecute",
		"1m0s StatefulSet shop/a-db has 0 of 1 replica, until the end", // its successor waits until the old pod is gone
		"1m0s ReplicaSet shop/web has 0 of 1 replica, for 5s",
		"1m30s 1 pod finds no room: StatefulSet shop/a-db",
	)
}
