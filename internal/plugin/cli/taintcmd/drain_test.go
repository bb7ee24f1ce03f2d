// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// drains adds evictions and field selectors of lists to the fake API server. An evicted pod leaves immediately, unless
// refuse returns a reason.
func (s *taintScene) drains(refuse func(pod string) error) {
	s.client.Resources = []*metav1.APIResourceList{{
		GroupVersion: "v1",
		APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"}},
	}}
	s.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		if err := refuse(eviction.Name); err != nil {
			return true, nil, err
		}
		return true, nil, s.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), eviction.Namespace, eviction.Name)
	})
	s.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := action.(clienttesting.ListActionImpl)
		node, ok := list.ListRestrictions.Fields.RequiresExactMatch("spec.nodeName")
		if !ok {
			return false, nil, nil
		}
		all, err := s.client.Tracker().List(list.Resource, corev1.SchemeGroupVersion.WithKind("Pod"), list.Namespace)
		if err != nil {
			return true, nil, err
		}
		on := &corev1.PodList{}
		for _, pod := range all.(*corev1.PodList).Items {
			if pod.Spec.NodeName == node && list.ListRestrictions.Labels.Matches(labels.Set(pod.Labels)) {
				on.Items = append(on.Items, pod)
			}
		}
		return true, on, nil
	})
}

func allowed(string) error { return nil }

func overrun(string) error {
	return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
}

func controlled(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true),
		}}
		pod.Labels = map[string]string{"app": name}
	}
}

func (s *taintScene) mustHavePods(want ...string) {
	s.Helper()
	list, err := s.client.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	var got []string
	for _, pod := range list.Items {
		got = append(got, pod.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestDrainEvictsWithinBudgetsBeforeTheNodeIsTainted(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.drains(func(pod string) error {
			if s.taints("n") != nil {
				s.Errorf("%s is evicted when the node is tainted already", pod)
			}
			if !s.node("n").Spec.Unschedulable {
				s.Errorf("%s is evicted when the node is not cordoned yet", pod)
			}
			if pod == "web" && time.Since(virtualStart) < time.Minute {
				return overrun(pod)
			}
			return nil
		})
		s.in = "y\n"
		s.must(s.taint("n", "m:NoExecute", "--drain", "--timeout", "5m"))
		s.mustHave("n", "m:NoExecute +1m0s")
		s.mustHavePods("agent", "other")
		s.mustSay(s.err.String(),
			"--drain cordons 1 node first and evicts 2 pods within PodDisruptionBudgets. The plan covers the pods that are left.\n",
			"Note: Node n: ignoring DaemonSet-managed Pods: default/agent.\n",
			"1 of 1 pod on 1 node leaves, at once.\n",
			"node/n cordoned\n", "pod/tolerates -n default evicted\n", "pod/web -n default evicted\nnode/n drained\n",
			"Cordoned: n. Undo this with: kubectl uncordon n\n")
		if refusals := strings.Count(s.err.String(), "violate the pod's disruption budget"); refusals != 1 {
			s.Errorf("the output says %d times that the budget refuses:\n%s", refusals, s.err.String())
		}
	}, taintedNode("n"), podOnNode("n", "web", controlled("ReplicaSet", "web")), podOnNode("elsewhere", "other"),
		podOnNode("n", "tolerates", controlled("ReplicaSet", "web"), toleratingTaint(3600)),
		podOnNode("n", "agent", controlled("DaemonSet", "agent")),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"}})
}

func TestANodeThatIsNotDrainedInTimeIsNotTainted(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.drains(func(pod string) error {
			if pod == "web" {
				return overrun(pod)
			}
			return nil
		})
		s.mustFail(s.taint("a", "b", "m:NoExecute", "--yes", "--drain", "--timeout", "58s"),
			`node a: neither drained nor tainted: error when evicting pods/"web" -n "default": global timeout reached: 58s`)
		s.mustSay(s.err.String(), "Cordoned: a, b. Undo this with: kubectl uncordon a b\n")
		s.mustHave("a")
		s.mustHave("b", "m:NoExecute +1m0s")
		s.mustHavePods("web")
	}, taintedNode("a"), taintedNode("b"), podOnNode("a", "web", controlled("ReplicaSet", "web")), podOnNode("b", "job", controlled("Job", "job")))
}

func TestNoNodeIsCordonedIfKubectlWouldRefuseToDrainIt(t *testing.T) {
	emptyDir := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		says string
		flag string
	}{
		"it has no controller": {podOnNode("n", "p"), "node n: cannot delete Pods that declare no controller (use --force to override): default/p", "--force"},
		"it has an emptyDir": {podOnNode("n", "p", controlled("ReplicaSet", "web"), emptyDir),
			"node n: cannot delete Pods with local storage (use --delete-emptydir-data to override): default/p", "--delete-emptydir-data"},
		"it is not selected": {podOnNode("n", "p"), "declare no controller", "--pod-selector=app=web"},
	} {
		t.Run(name, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				s.drains(allowed)
				s.mustFail(s.taint("n", "m:NoExecute", "--yes", "--drain"), test.says)
				s.mustHave("n")
				if s.node("n").Spec.Unschedulable {
					s.Error("the node is cordoned")
				}
				s.must(s.taint("n", "m:NoExecute", "--yes", "--drain", test.flag))
				s.mustHave("n", "m:NoExecute +0s")
			}, taintedNode("n"), test.pod)
		})
	}
}

func TestAllNodesAreCordonedBeforeTheFirstIsDrained(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.drains(func(pod string) error {
			if !s.node("b").Spec.Unschedulable {
				s.Errorf("node b takes pods when %s is evicted", pod)
			}
			return nil
		})
		s.must(s.taint("--all", "m:NoExecute", "--yes", "--drain"))
	}, taintedNode("a"), taintedNode("b"), podOnNode("a", "p", controlled("ReplicaSet", "web")))
}

func TestTheTaintOfACordonIsNotPlannedAgain(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.in = "y\n"
		s.drains(func(string) error {
			node := taintedNode("n", "node.kubernetes.io/unschedulable:NoSchedule")
			node.Spec.Unschedulable = true
			return s.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), node, "")
		})
		s.must(s.taint("n", "m:NoExecute", "--drain"))
		s.mustHave("n", "m:NoExecute +0s", "node.kubernetes.io/unschedulable:NoSchedule")
		if strings.Contains(s.err.String(), "planned again") {
			s.Error(s.err.String())
		}
	}, taintedNode("n"), podOnNode("n", "p", controlled("ReplicaSet", "web")))
}

func TestADrainCanBeInterrupted(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.drains(overrun)
		ctx, stop := context.WithCancel(s.Context())
		s.later(time.Minute, stop)
		err := s.run(ctx, (*options).taintCommand, []string{"a", "b", "m:NoExecute", "--yes", "--drain"})
		s.mustFail(err, "node a: interrupted: neither drained nor tainted\n", "interrupted: not changed: b")
		s.mustSay(s.err.String(), "Cordoned: a, b. Undo this with: kubectl uncordon a b\n")
		s.mustHave("a")
		s.mustHave("b")
		if took := time.Since(virtualStart); took > 70*time.Second {
			s.Errorf("it takes %s", took)
		}
	}, taintedNode("a"), taintedNode("b"), podOnNode("a", "p", controlled("ReplicaSet", "web")))
}

func TestADryRunDrainsNothing(t *testing.T) {
	for _, how := range []string{"client", "server"} {
		t.Run(how, func(t *testing.T) {
			playTaint(t, func(s *taintScene) {
				s.drains(func(pod string) error { return errors.New(pod + " is evicted") })
				s.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if len(action.(clienttesting.PatchActionImpl).PatchOptions.DryRun) == 0 {
						s.Error("the node is patched")
					}
					return true, taintedNode("n", "m:NoExecute"), nil
				})
				s.must(s.taint("n", "m:NoExecute", "--drain", "--dry-run="+how))
				s.mustSay(s.err.String(), "--drain cordons 1 node first and evicts 1 pod")
			}, taintedNode("n"), podOnNode("n", "p", controlled("ReplicaSet", "web")))
		})
	}
}

func TestANodeThatWasCordonedBeforeStaysOutOfTheUndo(t *testing.T) {
	before := taintedNode("b")
	before.Spec.Unschedulable = true
	playTaint(t, func(s *taintScene) {
		s.drains(allowed)
		s.must(s.taint("a", "b", "m:NoExecute", "--yes", "--drain"))
		s.mustSay(s.err.String(), "Undo this with: kubectl uncordon a\n")
	}, taintedNode("a"), before)
}
