// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

func ExampleParse() {
	taint, err := taints.Parse("example.com/maintenance=disk:NoExecute")
	fmt.Println(taint.Key, taint.Value, taint.Effect, err)

	_, err = taints.Parse("example.com/maintenance:NoEvict")
	fmt.Println(err)
	// Output:
	// example.com/maintenance disk NoExecute <nil>
	// parse taint "example.com/maintenance:NoEvict": there is no effect "NoEvict": use NoSchedule, PreferNoSchedule or NoExecute
}

func ExampleEdit_Apply() {
	current := []corev1.Taint{
		{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule},
		{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule},
	}
	edit, err := taints.ParseEdit("maintenance:NoExecute", "maintenance:NoSchedule-")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := edit.Apply(current, taints.KeepExisting)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, taint := range result {
		fmt.Println(taints.Format(taint))
	}

	_, err = edit.Apply(result, taints.KeepExisting)
	fmt.Println(err)
	// Output:
	// maintenance:NoExecute
	// dedicated=db:NoSchedule
	// add taint "maintenance:NoExecute": the node already has "maintenance:NoExecute" with the same key and effect: overwrite it (--overwrite) or leave it out
	// cannot remove taint "maintenance:NoSchedule": the node has no such taint; check the key and the effect
}

func ExampleMatcher_First() {
	seconds := int64(300)
	tolerations := []corev1.Toleration{
		{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "db"},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
	}
	taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}

	index, ok := taints.Matcher{}.First(tolerations, &taint)
	fmt.Println(index, ok)
	// Output: 1 true
}

func ExampleMatcher_Untolerated() {
	onNode := []corev1.Taint{
		{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule},
	}
	taint, found := taints.Matcher{}.Untolerated(onNode, nil)
	if found {
		fmt.Println(taints.UnschedulableMessage, taints.Format(taint))
	}
	// Output: node(s) had untolerated taint(s) dedicated=db:NoSchedule
}

func ExampleNormalize() {
	fmt.Println(taints.Normalize([]int{0, 1, 2, 4}))
	// Output: [100 75 50 0]
}
