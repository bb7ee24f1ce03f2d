// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/internal/shadow"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

const (
	// waitLimit is how long a test waits before it gives up, lookAgain how often it looks.
	waitLimit = 2 * time.Minute
	lookAgain = 100 * time.Millisecond
)

func TestARestartOfKubeControllerManagerDuringACountdownIsLate(t *testing.T) {
	const tolerated, restartAfter = 20, 10 * time.Second
	must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "quiet"}, localcluster.NodeSpec{Name: "restarted"}))
	addPod(t, "in-time", "quiet", 3)
	addPod(t, "at-once", "quiet", 0)
	addPod(t, "late", "restarted", tolerated)
	observer := beside(t)

	taint(t, "quiet")
	eventually(t, "two evictions are on time", func(ctx context.Context) error {
		report, err := observer.report(ctx)
		if err == nil && (report.Pods[shadow.OnTime] != 2 || len(report.Differences) > 0) {
			err = fmt.Errorf("outcomes %v, differences %+v", report.Pods, report.Differences)
		}
		return err
	})
	tainted := time.Now()
	taint(t, "restarted")
	until(t, tainted.Add(restartAfter))
	must(t, cluster.RestartControllerManager(t.Context(), localcluster.ControllerManagerConfig{}))

	var report shadow.Report
	eventually(t, "the late eviction is reported", func(ctx context.Context) error {
		var err error
		if report, err = observer.report(ctx); err == nil && report.Pods[shadow.Late] != 1 {
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
	if !strings.Contains(difference.Sentence, "the built-in began its countdown of 20 s anew at") {
		t.Errorf("it says %q", difference.Sentence)
	}
	wantEvent(t, "restarted", "BuiltInEvictedLate", difference.Sentence)
}

func TestAnEvictionThatAPolicyRefusedForAMomentIsNeverCarriedOut(t *testing.T) {
	must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "refused"}))
	addPod(t, "forgotten", "refused", 0)
	observer := beside(t)
	allow := denyDeletes(t)
	taint(t, "refused")
	eventually(t, "the built-in has tried", func(ctx context.Context) error {
		pod, err := admin.CoreV1().Pods("default").Get(ctx, "forgotten", metav1.GetOptions{})
		if err != nil || len(pod.Status.Conditions) == 0 {
			return cmp.Or(err, errors.New("no condition"))
		}
		return nil
	})
	allow()
	eventually(t, "the pod is reported", func(ctx context.Context) error {
		report, err := observer.report(ctx)
		if err != nil {
			return err
		}
		for _, difference := range report.Differences {
			if difference.Pod == "forgotten" && difference.Outcome == shadow.Never && strings.Contains(difference.Sentence, "but it was not deleted") {
				return nil
			}
		}
		return errors.New("nothing is said of it")
	})
}

// observer is a taintkeeper in shadow mode.
type observer struct{ url string }

// beside starts one, and returns when it is ready.
func beside(t *testing.T) observer {
	t.Helper()
	access, err := cluster.ConfigFor(onlooker)
	must(t, err)
	process, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: "shadow", Access: access, Args: []string{"--shadow"},
	})
	must(t, err)
	t.Cleanup(func() { must(t, process.Stop()) })
	return observer{strings.TrimSuffix(process.MetricsURL(), "/metrics") + shadow.Path + "?format=json"}
}

func (o observer) report(ctx context.Context) (report shadow.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url, http.NoBody)
	if err != nil {
		return report, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return report, err
	}
	defer answer.Body.Close()
	return report, json.NewDecoder(answer.Body).Decode(&report)
}

// addPod makes a pod that tolerates the key k for some seconds, or not at all.
func addPod(t *testing.T, name, node string, seconds int64) {
	t.Helper()
	pod := localcluster.NewPod(name, node)
	if seconds > 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}}
	}
	_, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
}

// taint sets the NoExecute taint k, as kubectl does.
func taint(t *testing.T, name string) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
		_, err = admin.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}

func wantEvent(t *testing.T, node, reason, sentence string) {
	t.Helper()
	eventually(t, "there is an event on the node", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node + ",reason=" + reason})
		if err != nil || len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, sentence) {
			return fmt.Errorf("%d events: %w", len(events.Items), err)
		}
		return nil
	})
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("it was never looked at")
	err := wait.PollUntilContextTimeout(t.Context(), lookAgain, waitLimit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain until %s: %v", what, cmp.Or(last, err))
	}
}

// until lets real time pass up to an instant.
func until(t *testing.T, at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
