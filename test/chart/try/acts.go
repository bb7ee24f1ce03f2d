// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// tolerated is for how long the pods of the first act tolerate the taint. kube-controller-manager is restarted halfway.
const tolerated = 12 * time.Second

// playShadow shows one of the built-in's defects in the report: it forgets its countdowns when it is restarted.
func (s *stage) playShadow(ctx context.Context) error {
	command("helm install taintkeeper ./charts/taintkeeper --namespace kube-system")
	if err := s.install(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.makePods(ctx, "node-1", 3, tolerated); err != nil {
		return err
	}
	if err := s.taint(ctx, "node-1"); err != nil {
		return err
	}
	say("Its 3 pods tolerate that for %s. Halfway kube-controller-manager is restarted, as in an upgrade", tolerated)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(tolerated / 2):
	}
	if err := s.cluster.RestartControllerManager(ctx, localcluster.ControllerManagerConfig{}); err != nil {
		return err
	}
	if err := s.gone(ctx, "node-1"); err != nil {
		return err
	}
	return s.showReport(ctx)
}

// report is what is shown of the report of shadow mode.
type report struct {
	Differences []struct{ Pod, Sentence string }
}

func (s *stage) showReport(ctx context.Context) error {
	address := strings.TrimSuffix(s.keeper.MetricsURL(), "/metrics") + "/shadow?format=json"
	var told report
	err := s.eventually(ctx, "the report has a difference", func(ctx context.Context) error {
		told = report{}
		if err := fetch(ctx, address, &told); err != nil {
			return err
		}
		if len(told.Differences) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	if err != nil {
		return err
	}
	command(`curl -s 'http://127.0.0.1:8080/shadow?format=json' | jq -r '.differences[] | "\(.pod): \(.sentence)"'`)
	for _, difference := range told.Differences {
		say("%s: %s", difference.Pod, difference.Sentence)
	}
	return nil
}

func fetch(ctx context.Context, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// playEnforce shows that Taintkeeper evicts, and that the built-in is refused.
func (s *stage) playEnforce(ctx context.Context) error {
	command("helm upgrade taintkeeper ./charts/taintkeeper --namespace kube-system --reset-then-reuse-values --set mode=enforce")
	if err := s.upgrade(ctx, map[string]any{"mode": "enforce"}); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.waitRenewed(ctx); err != nil {
		return err
	}
	const pods = 20
	if err := s.makePods(ctx, "node-2", pods, 0); err != nil {
		return err
	}
	if err := s.taint(ctx, "node-2"); err != nil {
		return err
	}
	if err := s.gone(ctx, "node-2"); err != nil {
		return err
	}
	return s.judge(ctx, pods)
}

// waitRenewed waits until the eviction clock runs: from then on the built-in is refused.
func (s *stage) waitRenewed(ctx context.Context) error {
	accounts := s.admin.CoreV1().ServiceAccounts(namespace)
	return s.eventually(ctx, "the eviction clock is renewed", func(ctx context.Context) error {
		account, err := accounts.Get(ctx, "taintkeeper-eviction-clock", metav1.GetOptions{})
		if err == nil && account.Annotations["taintkeeper.dev/renewed"] == "" {
			err = errors.New("it has not been renewed yet")
		}
		return err
	})
}

// judge reads in the audit log who evicted, and who was refused.
func (s *stage) judge(ctx context.Context, pods int) error {
	var ours, refused int
	err := s.eventually(ctx, "the audit log has every eviction", func(context.Context) error {
		var err error
		if ours, _, err = s.calls(us, "delete", "pods"); err != nil {
			return err
		}
		if _, refused, err = s.calls(builtIn, "patch", "pods/status"); err != nil {
			return err
		}
		if ours < pods || refused == 0 {
			return fmt.Errorf("%d of %d pods were evicted by Taintkeeper, and the built-in was refused %d times", ours, pods, refused)
		}
		return nil
	})
	if err != nil {
		return err
	}
	line, err := s.logLine("Evicted")
	if err != nil {
		return err
	}
	say("By the audit log Taintkeeper evicted %d pods, and the built-in controller was refused %d times. A line of Taintkeeper's log:", ours, refused)
	say("  %s", line)
	return nil
}

// playWayBack stops Taintkeeper, so that it hands the evictions back, and returns to shadow mode. What the built-in has
// left of the storm stays refused, and it evicts again.
func (s *stage) playWayBack(ctx context.Context) error {
	command("helm upgrade taintkeeper ./charts/taintkeeper --namespace kube-system --reset-then-reuse-values --set replicas=0")
	if err := s.upgrade(ctx, map[string]any{"replicas": 0}); err != nil {
		return err
	}
	if err := s.keeper.Stop(); err != nil {
		return err
	}
	for _, words := range []string{"Handed the evictions back", "works off a backlog"} {
		line, err := s.logLine(words)
		if err != nil {
			return err
		}
		say("  %s", line)
	}
	s.keeper = nil
	command("helm upgrade taintkeeper ./charts/taintkeeper --namespace kube-system --reset-then-reuse-values --set mode=shadow --set replicas=2")
	if err := s.upgrade(ctx, map[string]any{"mode": "shadow", "replicas": 2}); err != nil {
		return err
	}
	policies := s.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Get(ctx, "taintkeeper-coexistence", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("the policy that heeds the backlog is not kept: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	// A controller owns it, so its name does not come again. The garbage collector must find the owner: here, the node.
	owner, err := s.admin.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod := localcluster.NewPod("", owner.Name, func(pod *corev1.Pod) {
		pod.GenerateName = "web-5d4f8c7b9-"
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID, Controller: new(true),
		}}
	})
	if _, err := s.admin.CoreV1().Pods(workloads).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.gone(ctx, "node-1"); err != nil {
		return err
	}
	say("The built-in evicts again: a new pod on node-1, which still has its taint, is gone")
	return nil
}
