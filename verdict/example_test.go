// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// A node became unreachable at noon, and the process that asks started only later.
func ExampleRule_Decide() {
	fiveMinutes := int64(300)
	noon := metav1.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	restarted := noon.Add(2 * time.Minute)
	unreachable := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &noon}
	pod := verdict.Pod{
		Bound: noon.Add(-time.Hour),
		Tolerations: []corev1.Toleration{
			{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "db"},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, TolerationSeconds: &fiveMinutes},
			{Operator: corev1.TolerationOpExists},
		},
	}

	v := verdict.Rule{}.Decide(pod, []verdict.Taint{
		{Taint: unreachable, Since: verdict.SeenAt(restarted).Since(unreachable.TimeAdded)},
	})
	fmt.Println("taint", taints.Format(v.Taint.Taint), "counts from", v.Start.Format(time.TimeOnly))
	fmt.Println("toleration", v.TolerationIndex, "allows", *v.Toleration.TolerationSeconds, "seconds and shadows", v.Shadowed)
	fmt.Println("due", v.Due.Format(time.TimeOnly), "pending", v.PendingAt(restarted))
	// Output:
	// taint node.kubernetes.io/unreachable:NoExecute counts from 12:00:01
	// toleration 1 allows 300 seconds and shadows [2]
	// due 12:05:01 pending true
}
