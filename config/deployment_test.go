// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"regexp"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// theOne returns the object of a type in a manifest.
func theOne[T client.Object](t *testing.T, manifest []byte) T {
	t.Helper()
	found := all[T](t, manifest)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), found)
	}
	return found[0]
}

// all returns the objects of a type in a manifest.
func all[T client.Object](t *testing.T, manifest []byte) (found []T) {
	t.Helper()
	objects, err := Objects(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if match, ok := object.(T); ok {
			found = append(found, match)
		}
	}
	return found
}

// shipped is the Deployment as it is applied.
func shipped(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return theOne[*appsv1.Deployment](t, Deployment)
}

var commentedOut = regexp.MustCompile(`(?m)^( *)# (- key:|  operator:|  effect:)`)

// withNodeHealth is the Deployment with the tolerations in it that are for node health.
func withNodeHealth(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return theOne[*appsv1.Deployment](t, commentedOut.ReplaceAll(Deployment, []byte("$1$2")))
}

func TestTheDeploymentRunsAsTheAccountThatHasTheRights(t *testing.T) {
	d := shipped(t)
	if want := []byte("name: " + d.Spec.Template.Spec.ServiceAccountName + "\n"); !bytes.Contains(RBAC, want) || d.Namespace != "kube-system" {
		t.Errorf("rbac.yaml has no service account %s in %s", d.Spec.Template.Spec.ServiceAccountName, d.Namespace)
	}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

// failed is a node that is not ready, in one of its two ways.
func failed(key string) []corev1.Taint {
	return []corev1.Taint{taint(key, corev1.TaintEffectNoSchedule), taint(key, corev1.TaintEffectNoExecute)}
}

const (
	controlPlane       = "node-role.kubernetes.io/control-plane"
	criticalAddonsOnly = "CriticalAddonsOnly"
)

func TestAReplicaLeavesANodeThatFailed(t *testing.T) {
	since := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod := verdict.Pod{Tolerations: shipped(t).Spec.Template.Spec.Tolerations, Bound: since.Add(-time.Hour)}
		v := verdict.Rule{}.Decide(pod, []verdict.Taint{{Taint: taint(key, corev1.TaintEffectNoExecute), Since: since}})
		if want := since.Add(30 * time.Second); !v.Leaves || !v.Due.Equal(want) {
			t.Errorf("%s: leaves %t at %v, want 30 s after the taint, to be replaced on another node", key, v.Leaves, v.Due)
		}
	}
}

func TestAReplicaStaysWhateverElseIsTainted(t *testing.T) {
	for _, key := range []string{"maintenance", controlPlane, criticalAddonsOnly} {
		pod := verdict.Pod{Tolerations: shipped(t).Spec.Template.Spec.Tolerations}
		if v := (verdict.Rule{}).Decide(pod, []verdict.Taint{{Taint: taint(key, corev1.TaintEffectNoExecute)}}); v.Leaves {
			t.Errorf("a replica leaves nodes with the taint %s, so nothing evicts once all nodes have it", key)
		}
	}
}

func TestWhereTheSchedulerPutsAReplica(t *testing.T) {
	for _, tt := range []struct {
		name   string
		taints []corev1.Taint
		want   bool
	}{
		{"a node without taints", nil, true},
		{"a node of the control plane", []corev1.Taint{taint(controlPlane, corev1.TaintEffectNoSchedule)}, true},
		{"a control plane node that sends pods away", []corev1.Taint{taint(controlPlane, corev1.TaintEffectNoExecute)}, true},
		{"a node for the add-ons of the cluster", []corev1.Taint{taint(criticalAddonsOnly, corev1.TaintEffectNoSchedule)}, true},
		{"a node that a user sends pods away from", []corev1.Taint{taint("maintenance", corev1.TaintEffectNoExecute)}, true},
		{"an unreachable node", failed(corev1.TaintNodeUnreachable), false},
		{"a node that is not ready", failed(corev1.TaintNodeNotReady), false},
		{"an unreachable node of the control plane", append(failed(corev1.TaintNodeUnreachable), taint(controlPlane, corev1.TaintEffectNoSchedule)), false},
		{"a cordoned node", []corev1.Taint{taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)}, false},
		{"a node with a full disk", []corev1.Taint{taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)}, false},
		{"a node short of memory", []corev1.Taint{taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)}, false},
		{"a node short of process ids", []corev1.Taint{taint(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)}, false},
		{"a node that is dedicated to others", []corev1.Taint{taint("dedicated", corev1.TaintEffectNoSchedule)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			untolerated, found := taints.Matcher{}.Untolerated(tt.taints, shipped(t).Spec.Template.Spec.Tolerations)
			if found == tt.want {
				t.Errorf("it may run there: %t, want %t (taint %s)", !found, tt.want, untolerated.ToString())
			}
		})
	}
}

// TestWithNodeHealthAReplicaMayComeToANodeThatIsNew is about taints that new nodes have from the beginning, and that
// only node health removes: in a cluster whose nodes are all new it must be able to start.
func TestWithNodeHealthAReplicaMayComeToANodeThatIsNew(t *testing.T) {
	pod := withNodeHealth(t).Spec.Template.Spec
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable} {
		if _, found := (taints.Matcher{}).Untolerated([]corev1.Taint{taint(key, corev1.TaintEffectNoSchedule)}, pod.Tolerations); found {
			t.Errorf("a new node with the taint %s is refused", key)
		}
	}
	if _, found := (taints.Matcher{}).Untolerated(failed(corev1.TaintNodeUnreachable), pod.Tolerations); !found {
		t.Error("an unreachable node is accepted")
	}
}

func TestReplicasAreNeverOnOneNode(t *testing.T) {
	d := shipped(t)
	required := spread(t, d, corev1.LabelHostname)
	if required.WhenUnsatisfiable != corev1.DoNotSchedule || required.MaxSkew != 1 {
		t.Errorf("the constraint is %+v, want one that keeps two replicas from one node", required)
	}
	// With fewer eligible nodes than that, the scheduler takes 0 for the least crowded one: when the node of one replica
	// has failed and only the other's is left, the second replica waits instead of joining the first one for good.
	if domains := required.MinDomains; domains == nil || *domains != *d.Spec.Replicas {
		t.Errorf("minDomains %v, want %d", domains, *d.Spec.Replicas)
	}
	if policy := required.NodeTaintsPolicy; policy == nil || *policy != corev1.NodeInclusionPolicyHonor {
		t.Errorf("nodeTaintsPolicy %v: nodes where no replica can run count", policy)
	}
	selects(t, required.LabelSelector)
}

// spread returns the constraint by which replicas are spread.
func spread(t *testing.T, d *appsv1.Deployment, by string) corev1.TopologySpreadConstraint {
	t.Helper()
	constraints := d.Spec.Template.Spec.TopologySpreadConstraints
	i := slices.IndexFunc(constraints, func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == by })
	if i < 0 {
		t.Fatalf("replicas are not spread by %s", by)
	}
	return constraints[i]
}

func TestReplicasAreInTwoZonesIfTheyCan(t *testing.T) {
	preferred := spread(t, shipped(t), corev1.LabelTopologyZone)
	if preferred.WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("the constraint is %+v", preferred)
	}
	selects(t, preferred.LabelSelector)
}

// TestARollingUpdateNeedsNoThirdNode is about two nodes with a replica each, where nothing more may come as long as old
// and new pods count together; and about one node, where the second replica waits.
func TestARollingUpdateNeedsNoThirdNode(t *testing.T) {
	d := shipped(t)
	for _, constraint := range d.Spec.Template.Spec.TopologySpreadConstraints {
		if !slices.Contains(constraint.MatchLabelKeys, appsv1.DefaultDeploymentUniqueLabelKey) {
			t.Errorf("by %s new pods are spread together with old ones", constraint.TopologyKey)
		}
	}
	update := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || update == nil || *update.MaxUnavailable != intstr.FromInt32(1) || *update.MaxSurge != intstr.FromInt32(1) {
		t.Errorf("strategy %+v: one old pod may go before both new ones run, and one is kept", d.Spec.Strategy)
	}
}

func TestADrainTakesOneReplicaAtATime(t *testing.T) {
	budget := theOne[*policyv1.PodDisruptionBudget](t, Deployment)
	if budget.Namespace != shipped(t).Namespace || *budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
		t.Errorf("budget %+v in %s", budget.Spec, budget.Namespace)
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		t.Error("a replica that is not ready blocks a drain")
	}
	selects(t, budget.Spec.Selector)
}

func TestTheDeploymentSelectsItsOwnPods(t *testing.T) { selects(t, shipped(t).Spec.Selector) }

// selects checks that a selector is about the pods of the Deployment.
func selects(t *testing.T, by *metav1.LabelSelector) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(shipped(t).Spec.Template.Labels)) {
		t.Errorf("selector %v does not select the pods: %v", by, err)
	}
}
