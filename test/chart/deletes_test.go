// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// TestWithDeletesNeedMarkTheBuiltInDeletesNoPodThatTookTheNameOfAMarkedOne is about coexist.deletesNeedMark: the built-in
// deletes by name, long after it has marked a pod.
func TestWithDeletesNeedMarkTheBuiltInDeletesNoPodThatTookTheNameOfAMarkedOne(t *testing.T) {
	p := newAPIServer(t)
	p.installPolicies(t, values{"coexist": values{"deletesNeedMark": true}})
	theirs, others := p.podsAs(t, builtIn), p.admin.CoreV1().Pods(workloads)

	await.Must(t, p.makePod(t.Context(), "unmarked", ""))
	await.Eventually(t, "the built-in may not delete a pod without its mark", func(ctx context.Context) error {
		if err := theirs.Delete(ctx, "unmarked", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	for name, reason := range map[string]string{"ours": "Taintkeeper: deletes it", "marked": "Taint manager: deleting due to NoExecute taint"} {
		await.Must(t, p.makePod(t.Context(), name, ""))
		mark := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":%q,
			"reason":"DeletionByTaintManager","message":%q}]}}`, time.Now().UTC().Format(time.RFC3339), reason)
		_, err := others.Patch(t.Context(), name, types.StrategicMergePatchType, mark, metav1.PatchOptions{}, "status")
		await.Must(t, err)
	}
	if err := theirs.Delete(t.Context(), "ours", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that Taintkeeper marked: %v", err)
	}
	if err := theirs.Delete(t.Context(), "marked", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a pod that the built-in marked: %v", err)
	}
	if err := others.Delete(t.Context(), "unmarked", metav1.DeleteOptions{}); err != nil {
		t.Errorf("somebody else deletes a pod without a mark: %v", err)
	}
}

// podsAs returns a client for pods that acts as a user.
func (p *plane) podsAs(t *testing.T, user string) corev1client.PodInterface {
	t.Helper()
	config, err := p.ConfigFor(user)
	await.Must(t, err)
	client, err := kubernetes.NewForConfig(config)
	await.Must(t, err)
	return client.CoreV1().Pods(workloads)
}
