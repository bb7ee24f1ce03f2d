// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// tolerated is for how long the pods in shadow mode tolerate the taint. kube-controller-manager is restarted halfway.
const tolerated = 12 * time.Second

// scenarios are played one after the other in one cluster. The contestant of each is who is to evict then.
var scenarios = []struct {
	namespace, contestant string
	Scenario
}{
	{"shadow", builtIn, Scenario{ // one of the built-in's defects: it forgets its countdowns when it is restarted
		Name: "shadow mode",
		Given: []Step{
			install, run, Simulated("node"), Crowd("node", 3, scene.Tolerating("maintenance", int64(tolerated.Seconds()))),
		},
		When: []Step{
			taint, saying("Its 3 pods tolerate that for %s. Halfway through, kube-controller-manager restarts, as in an upgrade", tolerated),
			After(tolerated / 2), Restart,
		},
		Promised: []Check{reported(3)},
	}},
	{"enforce", us, Scenario{
		Name:     "enforce mode",
		Given:    []Step{upgrade("mode=enforce"), run, clockRuns, Simulated("node"), Crowd("node", 20)},
		When:     []Step{taint},
		Promised: []Check{ByRule, ByContestant, oneIsRefused},
	}},
	// Taintkeeper hands the evictions back when it stops. What the built-in has left of the storm stays refused, and it
	// evicts again.
	{"back", builtIn, Scenario{
		Name: "the way back",
		Given: []Step{
			upgrade("replicas=0"), stop, upgrade("mode=shadow", "replicas=2"), policyIsKept, run, Simulated("node"), ownedPod,
		},
		When:     []Step{taint},
		Promised: []Check{ByRule, ByContestant, says("The built-in evicts again")},
	}},
}

// taint does what the command does, and says so.
func taint(ctx context.Context, p *Play) error {
	command("kubectl taint nodes %s maintenance:NoExecute", p.NodeName("node"))
	return Taint("node", "maintenance")(ctx, p)
}

func saying(format string, args ...any) Step {
	return func(context.Context, *Play) error { say(format, args...); return nil }
}

// ownedPod makes a pod whose name is not used again, because a controller owns it. The garbage collector must find the
// owner: here, the node.
func ownedPod(ctx context.Context, p *Play) error {
	owner, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName("node"), metav1.GetOptions{})
	if err != nil {
		return err
	}
	return On("node", "", func(pod *corev1.Pod) {
		pod.GenerateName = "web-5d4f8c7b9-"
		controller := metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("Node"))
		pod.OwnerReferences = []metav1.OwnerReference{*controller}
	})(ctx, p)
}

// clockRuns waits until the eviction clock is renewed: from then on the built-in is refused.
func clockRuns(ctx context.Context, p *Play) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		accounts := p.Admin.CoreV1().ServiceAccounts(namespace)
		account, err := accounts.Get(ctx, "taintkeeper-eviction-clock", metav1.GetOptions{})
		if err == nil && account.Annotations["taintkeeper.dev/renewed"] == "" {
			err = errors.New("the eviction clock has not been renewed yet")
		}
		return err
	})
}

func policyIsKept(ctx context.Context, p *Play) error {
	policies := p.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Get(ctx, "taintkeeper-coexistence."+namespace, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("the policy that holds back the backlog is gone: %w", err)
	}
	return nil
}

// reported wants the report of shadow mode to have a sentence about each of the given number of pods, and shows them.
func reported(count int) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		report := &v1alpha1.ShadowReport{}
		err := await.Poll(ctx, func(ctx context.Context) error {
			found, err := stageOf(p).Cluster().ShadowReport(ctx, namespace)
			if err != nil {
				return err
			}
			if report = found; len(report.Differences) != count {
				return fmt.Errorf("the report has %d differences", len(report.Differences))
			}
			return nil
		})
		command("kubectl -n %s get configmap %s -o jsonpath='{.data.summary}'", namespace, v1alpha1.ShadowConfigMap)
		for _, difference := range report.Differences {
			say("%s: %s", difference.Pod, difference.Sentence)
		}
		return Finding{Right: err == nil}, err
	}
}

// oneIsRefused reads in the audit log who evicted, and wants the built-in to have been refused.
func oneIsRefused(ctx context.Context, p *Play) (Finding, error) {
	s, refused := stageOf(p), 0
	err := await.Poll(ctx, func(context.Context) error {
		calls, err := s.CallsBy(builtIn, auditlog.StatusPatches, auditlog.In(p.Namespace), auditlog.Refused)
		if refused = len(calls); err == nil && refused == 0 {
			err = errors.New("the built-in was not refused")
		}
		return err
	})
	if err != nil {
		return Finding{}, err
	}
	say("According to the audit log, Taintkeeper evicted %d pods, and the built-in controller was refused %d times. A line of Taintkeeper's log:",
		len(p.Everyone()), refused)
	return Finding{Right: true}, s.showLog("Evicted")
}

func says(what string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		say("%s: a new pod on %s is gone", what, p.NodeName("node"))
		return Finding{Right: true}, nil
	}
}
