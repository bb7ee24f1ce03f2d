// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

func TestAKubeletEndsPodsThatTolerateATaintNotAtAll(t *testing.T) {
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}
	spread := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	exists := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1))}
	other := corev1.Toleration{Key: "k", Value: "w"}
	for name, test := range map[string]struct {
		tolerations []corev1.Toleration
		want        []corev1.Taint
	}{
		"no toleration":       {nil, []corev1.Taint{taint}},
		"of another value":    {[]corev1.Toleration{other}, []corev1.Taint{taint}},
		"for a second":        {[]corev1.Toleration{other, exists}, nil},
		"for no time":         {[]corev1.Toleration{taints.ForNoTime(taint)}, nil},
		"of the other effect": {[]corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, Effect: spread.Effect}}, []corev1.Taint{taint}},
	} {
		if got := (taints.Matcher{}).Unadmitted([]corev1.Taint{spread, taint}, test.tolerations); !cmp.Equal(got, test.want) {
			t.Errorf("%s: the kubelet ends the pod because of %v, want %v", name, got, test.want)
		}
	}
}

func TestTolerationsForNoTimeAreOnesOfThePodAlone(t *testing.T) {
	exists := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	ours := taints.ForNoTime(corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute})
	all := []corev1.Toleration{ours, exists, ours}
	if got, want := taints.Lasting(all), []corev1.Toleration{exists}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(all) != 3 || !taints.IsForNoTime(all[0]) {
		t.Errorf("the list of the pod has changed: %v", all)
	}
}
