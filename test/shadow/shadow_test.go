// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestARestartOfKubeControllerManagerDuringACountdownIsLate(t *testing.T) {
	const tolerated, restartAfter = 20, 10 * time.Second
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "quiet"}, localcluster.NodeSpec{Name: "restarted"}))
	addPod(t, "in-time", "quiet", 3)
	addPod(t, "at-once", "quiet", 0)
	addPod(t, "late", "restarted", tolerated)
	observe(t)

	taint(t, "quiet")
	await.Eventually(t, "two evictions are on time", func(ctx context.Context) error {
		report, err := cluster.ShadowReport(ctx, metav1.NamespaceSystem)
		if err == nil && (report.Pods[v1alpha1.ShadowOnTime] != 2 || len(report.Differences) > 0) {
			err = fmt.Errorf("outcomes %v, differences %+v", report.Pods, report.Differences)
		}
		return err
	})
	tainted := time.Now()
	taint(t, "restarted")
	await.Until(t, tainted.Add(restartAfter))
	await.Must(t, cluster.RestartControllerManager(t.Context(), localcluster.ControllerManagerConfig{}))

	var report *v1alpha1.ShadowReport
	await.Eventually(t, "the late eviction is reported", func(ctx context.Context) error {
		var err error
		if report, err = cluster.ShadowReport(ctx, metav1.NamespaceSystem); err == nil && report.Pods[v1alpha1.ShadowLate] != 1 {
			err = fmt.Errorf("outcomes %v", report.Pods)
		}
		return err
	})
	difference := report.Differences[0]
	t.Logf("pod %s: %s", difference.Pod, difference.Sentence)
	late := difference.Evicted.Sub(tainted.Add(tolerated * time.Second))
	if difference.Pod != "late" || late < restartAfter-shadow.Tolerance || (late.Seconds()-*difference.Seconds) > shadow.Tolerance.Seconds() {
		t.Errorf("%+v, want it late by about %s", difference, late)
	}
	if !strings.Contains(difference.Sentence, "the built-in restarted its countdown of 20 s at") {
		t.Errorf("it says %q", difference.Sentence)
	}
	wantEvent(t, "restarted", "BuiltInEvictedLate", difference.Sentence)
}

func TestAnEvictionThatAPolicyRefusedForAMomentIsNeverCarriedOut(t *testing.T) {
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "refused"}))
	pod := addPod(t, "forgotten", "refused", 0)
	observe(t)
	allow, err := stage.RefuseDeletes(t.Context(), pod)
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, allow()) })
	taint(t, "refused")
	const tries = 5 // pkg/controller/tainteviction/taint_eviction.go
	await.Eventually(t, "the built-in has given up", func(context.Context) error {
		if refused := audit.All(t, auditlog.Event.ByBuiltIn, auditlog.Deletes, auditlog.Refused, auditlog.Named(pod.Name)); len(refused) < tries {
			return fmt.Errorf("it was refused %d times", len(refused))
		}
		return nil
	})
	await.Must(t, allow())
	await.Until(t, time.Now().Add(shadow.MissedAfter))
	await.Eventually(t, "the pod is reported", func(ctx context.Context) error {
		report, err := cluster.ShadowReport(ctx, metav1.NamespaceSystem)
		if err != nil {
			return err
		}
		for _, difference := range report.Differences {
			if difference.Pod == "forgotten" && difference.Outcome == v1alpha1.ShadowNever && strings.Contains(difference.Sentence, "but it was not deleted") {
				return nil
			}
		}
		return errors.New("the report does not mention it")
	})
}

// observe starts a taintkeeper in shadow mode, and returns when it is ready.
func observe(t *testing.T) {
	t.Helper()
	access, err := cluster.ConfigFor(onlooker)
	await.Must(t, err)
	process, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: "shadow", Access: access, Granted: true, Args: []string{"--shadow"},
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, process.Stop()) })
}

// addPod makes a pod that tolerates the key k for some seconds, or not at all.
func addPod(t *testing.T, name, node string, seconds int64) *corev1.Pod {
	t.Helper()
	var edits []func(*corev1.Pod)
	if seconds > 0 {
		edits = append(edits, rig.Tolerating("k", seconds))
	}
	pod, err := stage.Pod(t.Context(), name, node, edits...)
	await.Must(t, err)
	return pod
}

// taint sets the NoExecute taint k, as kubectl does.
func taint(t *testing.T, name string) {
	t.Helper()
	_, err := rig.Taint(t.Context(), admin, name, rig.NoExecute("k"))
	await.Must(t, err)
}

func wantEvent(t *testing.T, node, reason, sentence string) {
	t.Helper()
	await.Eventually(t, "there is an event on the node", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason})
		if err != nil || len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, sentence) {
			return fmt.Errorf("%d events: %w", len(events.Items), err)
		}
		return nil
	})
}
