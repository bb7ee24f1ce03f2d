// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

// daemonSetLeaves: of the tolerations with effect NoExecute, the DaemonSet controller adds only those for not-ready and
// unreachable.
var daemonSetLeaves = Rule{
	ID:       "daemonset-leaves",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A DaemonSet leaves a node that gets a common taint",
	Advice:   "If other pods on the node need it (network, volumes, logs), let it tolerate everything: operator Exists without a key.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		for _, workload := range facts.Workloads {
			if workload.Kind != "DaemonSet" {
				continue
			}
			for _, finding := range workload.leaving(notReady, unreachable, outOfService, unforeseen) {
				if !workload.isCritical() {
					finding.Severity = cliv1alpha1.SeverityInfo
				}
				all = append(all, finding)
			}
		}
		return all
	},
}

// leaving returns a finding for each set of taints that make pods of a workload leave.
func (w *Workload) leaving(common ...corev1.Taint) []Finding {
	var all []Finding
	for _, list := range w.Lists {
		var why []string
		for _, taint := range common {
			if leaves(list.Effective, taint) {
				why = append(why, inWords(taint))
			}
		}
		if len(why) == 0 {
			continue
		}
		message := fmt.Sprintf("It leaves a node that gets %s.", strings.Join(why, ", or "))
		i := slices.IndexFunc(all, func(finding Finding) bool { return finding.Message == message })
		if i < 0 {
			i = len(all)
			all = append(all, Finding{Object: w.Object, Message: message})
		}
		all[i].Names = append(all[i].Names, names(list.Pods)...)
	}
	return all
}

func inWords(taint corev1.Taint) string {
	if taint.MatchTaint(&unforeseen) {
		return "a NoExecute taint that its tolerations do not name, such as one for maintenance"
	}
	return taints.Format(corev1.Taint{Key: taint.Key, Effect: taint.Effect})
}

// Pods that Kubernetes itself considers critical have this priority or a higher one.
const systemPriority = 2_000_000_000

// isCritical reports whether the workload is part of the system, according to its priority.
func (w *Workload) isCritical() bool {
	pod := w.Pod
	return strings.HasPrefix(pod.Spec.PriorityClassName, "system-") || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemPriority
}
