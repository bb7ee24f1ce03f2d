// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// controlPlaneLeaves: a control plane of static pods stays, because only a kubelet can end those.
var controlPlaneLeaves = Rule{
	ID:       "control-plane-leaves",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A control plane component leaves a node that gets a common taint",
	Advice:   "Add one toleration that matches every NoExecute taint, after those for not-ready and unreachable with tolerationSeconds.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Kind != "DaemonSet" && workload.isControlPlane() {
				all = append(all, workload.leaving(outOfService, unforeseen)...)
			}
		}
		return all
	},
}

// parts are the programs of a control plane, as named in labels.
var parts = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "cloud-controller-manager", "taintkeeper",
}

// isControlPlane reports whether the pods of the workload belong to the control plane and are not static.
func (w *Workload) isControlPlane() bool {
	pod := w.Pod
	return !state.IsStatic(pod) && (pod.Labels["tier"] == "control-plane" || slices.ContainsFunc(
		[]string{"component", "k8s-app", "app.kubernetes.io/name", "app.kubernetes.io/component"},
		func(label string) bool { return slices.Contains(parts, pod.Labels[label]) },
	))
}
