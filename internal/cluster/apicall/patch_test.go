// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestAPatchNamesItsObjectAndVersion(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7"}}
	pod := metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "v"}
	ready := map[string]any{"type": "Ready"}
	for name, test := range map[string]struct {
		patch       func(*fake.Clientset) error
		kind        types.PatchType
		subresource string
		want        string
	}{
		"taints": {
			func(client *fake.Clientset) error {
				taints := []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
				_, err := PatchTaints(t.Context(), client, node, NodeEdit{Taints: taints}, metav1.PatchOptions{})
				return err
			}, types.MergePatchType, "",
			`{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}`,
		},
		"the last taint is taken off, and its label": {
			func(client *fake.Clientset) error {
				labels := map[string]*string{"gone": nil, "set": new("s")}
				_, err := PatchTaints(t.Context(), client, node, NodeEdit{Labels: labels}, metav1.PatchOptions{})
				return err
			}, types.MergePatchType, "",
			`{"metadata":{"uid":"u","resourceVersion":"7","labels":{"gone":null,"set":"s"}},"spec":{"taints":null}}`,
		},
		"conditions of a node": {
			func(client *fake.Clientset) error {
				conditions := []corev1.NodeCondition{{Type: "Ready", Status: "Unknown"}}
				_, err := PatchNodeConditions(t.Context(), client, node, conditions)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"u","resourceVersion":"7"},"status":{"conditions":[{"type":"Ready","status":"Unknown",` +
				`"lastHeartbeatTime":null,"lastTransitionTime":null}]}}`,
		},
		"a condition of a pod, whichever its version": {
			func(client *fake.Clientset) error {
				_, err := PatchPodCondition(t.Context(), client, pod, ready)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"v"},"status":{"conditions":[{"type":"Ready"}]}}`,
		},
		"a condition of a pod as it was": {
			func(client *fake.Clientset) error {
				pod := pod
				pod.ResourceVersion = "8"
				_, err := PatchPodCondition(t.Context(), client, pod, ready)
				return err
			}, types.StrategicMergePatchType, "status",
			`{"metadata":{"uid":"v","resourceVersion":"8"},"status":{"conditions":[{"type":"Ready"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(node, &corev1.Pod{ObjectMeta: pod})
			if err := test.patch(client); err != nil {
				t.Fatal(err)
			}
			actions := client.Actions()
			if len(actions) != 1 {
				t.Fatalf("%d calls, want one", len(actions))
			}
			got := actions[0].(clienttesting.PatchAction)
			if string(got.GetPatch()) != test.want || got.GetPatchType() != test.kind || got.GetSubresource() != test.subresource {
				t.Errorf("%s patch of %q: %s\nwant %s of %q: %s",
					got.GetPatchType(), got.GetSubresource(), got.GetPatch(), test.kind, test.subresource, test.want)
			}
		})
	}
}
