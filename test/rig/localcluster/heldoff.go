// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/config"
)

// InstallCoexistence creates what config/coexistence.yaml has and is not there yet.
func (c *Cluster) InstallCoexistence(ctx context.Context) error {
	return c.install(ctx, "coexistence.yaml", config.Coexistence)
}

// WaitHeldOff waits until the API server refuses what the built-in would send: that takes a moment after the policy was
// created and the clock renewed. It asks by a dry run, about a pod that nobody schedules.
func (c *Cluster) WaitHeldOff(ctx context.Context) error {
	if err := c.awaitAnswerToMark(ctx, apierrors.IsForbidden); err != nil {
		return fmt.Errorf("the built-in is not kept from evicting: %w", err)
	}
	return nil
}

// WaitLetGo waits until the API server takes what the built-in would send: a while after the clock has become stale.
func (c *Cluster) WaitLetGo(ctx context.Context) error {
	if err := c.awaitAnswerToMark(ctx, func(err error) bool { return err == nil }); err != nil {
		return fmt.Errorf("the built-in is kept from evicting: %w", err)
	}
	return nil
}

// awaitAnswerToMark asks, in a dry run, whether a pod may be marked as the built-in marks it, until the answer is as
// wanted.
func (c *Cluster) awaitAnswerToMark(ctx context.Context, wanted func(error) bool) error {
	const probe = "probe-of-coexistence"
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	unscheduled := NewPod(probe, "", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" })
	if _, err := pods.Create(ctx, unscheduled, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create a pod to ask about: %w", err)
	}
	mark := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":%q,
		"reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	dryRun := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	var last error
	err = wait.PollUntilContextTimeout(ctx, healthPeriod, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = pods.Patch(ctx, probe, types.StrategicMergePatchType, mark, dryRun, "status")
		return wanted(last), nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return pods.Delete(ctx, probe, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}
