// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// namesNode: pods that name their node do not pass the scheduler, which keeps pods off nodes with NoExecute taints.
// Such a pod is due as soon as it exists, and its controller replaces it at once (kubernetes/kubernetes#75913).
var namesNode = Rule{
	ID:       "names-node",
	Severity: cliv1alpha1.SeverityError,
	Title:    "Pods that name their node are created on a node that evicts them",
	Advice:   "Replace spec.nodeName in the template with a nodeSelector for kubernetes.io/hostname, so that pods wait until the taint is gone, or let the pods tolerate the taint.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			finding := facts.comesBack(workload)
			if workload.isTemplate() {
				finding = facts.templateNamesNode(workload)
			}
			if finding != nil {
				finding.Object = workload.Object
				all = append(all, *finding)
			}
		}
		return all
	},
}

// isTemplate reports whether the workload was read from a file, without its pods.
func (w *Workload) isTemplate() bool { return len(w.Lists) == 1 && len(w.Lists[0].Pods) == 0 }

// templateNamesNode finds a template that names its node.
func (f *Facts) templateNamesNode(workload *Workload) *Finding {
	name := workload.Pod.Spec.NodeName
	if name == "" {
		return nil
	}
	if taint := f.untolerated(name, workload.Lists[0].Effective); taint != nil {
		return &Finding{Message: fmt.Sprintf("Its template names node %s, and does not tolerate taint %s of that node: its pods are created and evicted again and again.",
			name, taints.Format(*taint))}
	}
	return &Finding{
		Severity: cliv1alpha1.SeverityWarning,
		Message: fmt.Sprintf("Its template names node %s, so the scheduler does not keep its pods off: while the node has a NoExecute taint that they do not tolerate, they are created and evicted again and again.",
			name),
	}
}

// boundAnyway is how long after a taint a pod must have been created to prove that it did not pass the scheduler, which
// may not have seen the taint yet. timeAdded is in whole seconds.
const boundAnyway = 10 * time.Second

// comesBack finds pods that were created on their node long after its taint, which they do not tolerate.
func (f *Facts) comesBack(workload *Workload) *Finding {
	if workload.Kind == "Pod" {
		return nil
	}
	var finding *Finding
	for _, list := range workload.Lists {
		for _, pod := range list.Pods {
			taint := f.untolerated(pod.Spec.NodeName, pod.Spec.Tolerations)
			if state.IsStatic(pod) || taint == nil || taint.TimeAdded.IsZero() ||
				pod.CreationTimestamp.Sub(taint.TimeAdded.Time) < boundAnyway {
				continue
			}
			if finding == nil {
				finding = &Finding{Message: fmt.Sprintf("Its pods are created on node %s although they do not tolerate taint %s, which was added before, and are evicted again and again: its template names the node, or its pods have a scheduler that ignores taints.",
					pod.Spec.NodeName, taints.Format(*taint))}
			}
			finding.Names = append(finding.Names, pod.Name)
		}
	}
	return finding
}

// untolerated returns the first NoExecute taint of a node that no toleration matches, or nil.
func (f *Facts) untolerated(node string, tolerations []corev1.Toleration) *corev1.Taint {
	on := f.Node(node)
	if on == nil {
		return nil
	}
	for _, taint := range taints.NoExecute(on.Spec.Taints) {
		if _, tolerated := first(tolerations, taint); !tolerated {
			return &taint
		}
	}
	return nil
}
