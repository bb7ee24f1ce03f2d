// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

func TestOnlyTheFlagsOfTheTwoProgramsAreKeptFromACommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		container corev1.Container
		want      []string
	}{
		"kube-controller-manager":     {corev1.Container{Name: "c", Command: []string{"/usr/bin/kube-controller-manager", "--controllers=*", "--kubeconfig=secret"}}, []string{"kube-controller-manager", "--controllers=*"}},
		"behind a shell's arguments":  {corev1.Container{Command: []string{"/go-runner"}, Args: []string{"kube-controller-manager", "--leader-elect=true"}}, []string{"kube-controller-manager", "--leader-elect=true"}},
		"which Lease is its leader's": {corev1.Container{Command: []string{"kube-controller-manager", "--leader-elect-resource-namespace=control", "--leader-elect-lease-duration=9s"}}, []string{"kube-controller-manager", "--leader-elect-resource-namespace=control"}},
		"an image's entrypoint":       {corev1.Container{Name: "taintkeeper", Args: []string{"--coexist", "--log-format=json"}}, []string{"taintkeeper", "--coexist"}},
		"a program of a user":         {corev1.Container{Name: "c", Command: []string{"serve", "--controllers=*", "--password=x"}}, nil},
		"another image's entrypoint":  {corev1.Container{Name: "kube-controller-manager", Args: []string{"--shadow"}}, []string{"kube-controller-manager", "--shadow"}},
		"an entrypoint of a user":     {corev1.Container{Name: "c", Args: []string{"--shadow"}}, nil},
		"the first program counts":    {corev1.Container{Command: []string{"taintkeeper", "--coexist", "kube-controller-manager"}}, []string{"taintkeeper", "--coexist"}},
		"a name alone is no program":  {corev1.Container{Name: "taintkeeper", Command: []string{"sleep", "--shadow"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			slim := plan.SlimPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{test.container}}})
			if got := slim.Spec.Containers[0]; !slices.Equal(got.Command, test.want) || got.Args != nil {
				t.Errorf("kept %q and %q, want %q", got.Command, got.Args, test.want)
			}
		})
	}
}

func TestOnlyManagersOfTaintsAndConditionsOfANodeAreKept(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	slim := plan.SlimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "nobody"},
		entry("kubectl", `{"f:spec":{"f:unschedulable":{},"f:taints":{}}}`),
		entry("kubelet", `{"f:status":{"f:conditions":{}}}`),
		entry("kube-controller-manager", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`),
		entry("kube-controller-manager", `{"f:spec":{"f:podCIDR":{}}}`),
	}}})
	var kept []string
	for i := range slim.ManagedFields {
		managed := &slim.ManagedFields[i]
		kept = append(kept, managed.Manager+" "+managed.FieldsV1.GetRawString())
		if plan.WritesTaints(managed) == plan.WritesConditions(managed) {
			t.Errorf("%s is about both, or neither", managed.Manager)
		}
	}
	want := []string{`kubectl {"f:spec":{"f:taints":{}}}`, `kube-controller-manager {"f:status":{"f:conditions":{}}}`}
	if !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

func TestAnEvictionEventIsAttributedToTheControllerThatWroteIt(t *testing.T) {
	for name, test := range map[string]struct {
		event corev1.Event
		want  string
	}{
		"the built-in names no UID":     {corev1.Event{Reason: v1alpha1.EventEviction}, plan.ControllerManager},
		"ours names the UID of the pod": {corev1.Event{Reason: v1alpha1.EventEviction, InvolvedObject: corev1.ObjectReference{UID: "u"}}, plan.Taintkeeper},
		"ours, by its manager":          {corev1.Event{Reason: v1alpha1.EventEviction, ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "taintkeeper"}}}}, plan.Taintkeeper},
		"a dry run evicts nobody":       {corev1.Event{Reason: v1alpha1.EventEviction, Message: "Marking for deletion Pod a/b (dry run)"}, ""},
		"another reason":                {corev1.Event{Reason: "Scheduled"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var signs plan.Signs
			signs.AddEvent(&test.event)
			for _, who := range []string{plan.ControllerManager, plan.Taintkeeper} {
				if got := signs.Evictions[who].Count == 1; got != (who == test.want) {
					t.Errorf("it is an event of %s: %t", who, got)
				}
			}
		})
	}
}

func TestOnlyLeasesAndServiceAccountsOfTheTwoProgramsAreKept(t *testing.T) {
	var signs plan.Signs
	for _, name := range []string{plan.Taintkeeper, plan.ControllerManager, "kube-scheduler", v1alpha1.EvictionClock} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if (&plan.Cluster{}).IsOfController(lease) {
			signs.AddLease(lease)
		}
		signs.AddEvictionClock(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			v1alpha1.EvictionClockAnnotation: "now", "of-others": "x",
		}}})
	}
	if len(signs.Leases) != 2 || signs.Leases[0].Name != plan.Taintkeeper || signs.Leases[1].Name != plan.ControllerManager {
		t.Errorf("the Leases are %v", signs.Leases)
	}
	if len(signs.EvictionClocks) != 1 || signs.EvictionClocks[0].Name != v1alpha1.EvictionClock || len(signs.EvictionClocks[0].Annotations) != 1 {
		t.Errorf("the eviction clocks are %v", signs.EvictionClocks)
	}
}

func TestTheFlagsOfPodsSayWhichLeaseTheirReplicasUse(t *testing.T) {
	with := func(words ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Command: words})
		}
	}
	over := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"without flags":              {pod("p", with(plan.Taintkeeper)), "taintkeeper in "},
		"both flags":                 {pod("p", with(plan.Taintkeeper, "--leader-elect-resource-name=a", "--leader-elect-resource-namespace=b")), "a in b"},
		"a flag without a value":     {pod("p", with(plan.Taintkeeper, "--leader-elect-resource-name=")), "taintkeeper in "},
		"behind other containers":    {pod("p", with(), with(plan.ControllerManager), with(plan.Taintkeeper, "--leader-elect-resource-name=a")), "a in "},
		"of another program":         {pod("p", with(plan.ControllerManager, "--leader-elect-resource-name=a")), "taintkeeper in "},
		"of a pod that has finished": {pod("p", with(plan.Taintkeeper, "--leader-elect-resource-name=a"), over), "taintkeeper in "},
	} {
		lease, namespace := (&plan.Cluster{Pods: []*corev1.Pod{test.pod}}).Election(plan.Taintkeeper)
		if got := lease + " in " + namespace; got != test.want {
			t.Errorf("%s: the Lease is %q, want %q", name, got, test.want)
		}
	}
}
