// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// run runs the plugin and returns what it prints.
func run(ctx context.Context, args ...string) ([]byte, error) {
	return runWith(ctx, "", args...)
}

func runWith(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, plugin, append(args, "--kubeconfig="+kubeconfig)...)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.Output()
	if err != nil {
		var said string
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = string(exit.Stderr)
		}
		err = fmt.Errorf("kubectl taintkeeper %s: %w: %s", strings.Join(args, " "), err, said)
	}
	return out, err
}

// planned plans a taint of a node.
func planned(node, taint string, flags ...string) Step {
	return func(ctx context.Context, p *Play) error {
		before, err := p.Admin.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		out, err := run(ctx, slices.Concat([]string{"plan", p.NodeName(node), taint, "--output=json"}, flags)...)
		if err != nil {
			return err
		}
		var plan cliv1alpha1.TaintPlan
		if err := json.Unmarshal(out, &plan); err != nil {
			return fmt.Errorf("read a plan: %w", err)
		}
		return remember(p, plan, before.Items...)
	}
}

// prediction is a plan, and the pods that were there before it.
type prediction struct {
	cliv1alpha1.TaintPlan

	before []corev1.Pod
}

func remember(p *Play, plan cliv1alpha1.TaintPlan, before ...corev1.Pod) error {
	if len(plan.Pods) == 0 {
		return errors.New("the plan says nothing about any pod")
	}
	s := stageOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[p.Namespace] = prediction{plan, before}
	return nil
}

func planOf(p *Play) prediction {
	s := stageOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plans[p.Namespace]
}

// asPlanned wants the pods of the scene to leave when the plan says, and the others, which it may leave out, to stay.
// What the plan takes for silent may have been silent for one renewal already, and the taint comes a moment after the plan.
func asPlanned(ctx context.Context, p *Play) (Finding, error) {
	found, due := Finding{Right: true}, map[types.UID]time.Time{}
	for _, pod := range planOf(p).Pods {
		if pod.Leaves {
			due[pod.UID] = pod.Due.Time
		}
	}
	if len(due) == 0 {
		return Finding{Seen: "according to the plan no pod leaves"}, nil
	}
	for _, pod := range p.Everyone() {
		at, leaves := due[pod.UID]
		if !leaves {
			continue
		}
		if _, err := p.Seen().Await(ctx, at.Add(time.Minute), pod); err != nil {
			return Finding{}, err
		}
	}
	for _, pod := range p.Everyone() {
		planned, leaves := due[pod.UID]
		at, left := p.Seen().Left(pod.UID)
		late := at.Sub(planned)
		if left != leaves || left && (late < -renewal-100*time.Millisecond || late > cluster.Stalls().Allowed(planned, at)) {
			seen := fmt.Sprintf("pod %s left: %t, %s; according to the plan: %t, %s", pod.Name, left, at, leaves, planned)
			found = found.And(Finding{Seen: seen})
		}
	}
	return found, nil
}

// fallSilentAsSimulated simulates that a node falls silent, and then lets it do so.
func fallSilentAsSimulated(node string) Step {
	return func(ctx context.Context, p *Play) error {
		story := fmt.Sprintf("kind: Simulation\nuntil: 2m\nsteps:\n- {at: 0s, silent: {nodes: [%s]}}\n", p.NodeName(node))
		out, err := runWith(ctx, story, slices.Concat([]string{"simulate", "-", "--output=json"}, healthFlags)...)
		if err != nil {
			return err
		}
		var report cliv1alpha1.SimulationReport
		if err := json.Unmarshal(out, &report); err != nil {
			return fmt.Errorf("read a simulation: %w", err)
		}
		began := time.Now()
		var plan cliv1alpha1.TaintPlan
		for _, pod := range report.Pods {
			if pod.Namespace != p.Namespace || pod.UID == "" {
				continue
			}
			is := cliv1alpha1.PlannedPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Leaves: pod.LeavesAt != nil}
			if is.Leaves {
				is.Due = &metav1.MicroTime{Time: began.Add(pod.LeavesAt.Duration)}
			}
			plan.Pods = append(plan.Pods, is)
		}
		return errors.Join(remember(p, plan), cluster.SilenceNodes(ctx, p.NodeName(node)))
	}
}

// deployment makes a Deployment whose pods the scheduler places on the scene's nodes, as evenly as it can.
func deployment(name string, replicas int32, edits ...func(*Play, *corev1.PodSpec)) Step {
	return func(ctx context.Context, p *Play) error {
		labels := map[string]string{"app": name}
		selector := &metav1.LabelSelector{MatchLabels: labels}
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: localcluster.NewPod("", "").Spec}
		template.Spec.NodeSelector = p.Labels()
		template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
			NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
		}}
		for _, edit := range edits {
			edit(p, &template.Spec)
		}
		_, err := p.Admin.AppsV1().Deployments(p.Namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		p.Finally(func(ctx context.Context) error {
			return p.Admin.AppsV1().Deployments(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		_, err = awaitReady(ctx, p, name, int(replicas))
		return err
	}
}

// awaitReady waits until this many pods of an app are ready, and no others are there.
func awaitReady(ctx context.Context, p *Play, app string, count int) ([]corev1.Pod, error) {
	var found *corev1.PodList
	err := await.Poll(ctx, func(ctx context.Context) (err error) {
		found, err = p.Admin.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		ready := 0
		for i := range found.Items {
			if scene.IsReady(&found.Items[i]) && found.Items[i].DeletionTimestamp == nil {
				ready++
			}
		}
		if ready != count || len(found.Items) != count {
			return fmt.Errorf("%d of %d pods are ready", ready, len(found.Items))
		}
		return nil
	})
	return found.Items, err
}

// replacedAsPlanned wants the pods of an app that left to be replaced on nodes that the plan names.
func replacedAsPlanned(app string, replicas int) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		planned := planOf(p)
		var want, got []string
		for _, pod := range planned.Pods {
			if pod.Namespace == p.Namespace && pod.Leaves {
				want = slices.Concat(want, pod.WhereTo.Nodes, []string{pod.WhereTo.Node})
			}
		}
		err := await.Poll(ctx, func(ctx context.Context) error {
			pods, err := awaitReady(ctx, p, app, replicas)
			got = nil
			for i := range pods {
				if !slices.ContainsFunc(planned.before, func(pod corev1.Pod) bool { return pod.UID == pods[i].UID }) {
					got = append(got, pods[i].Spec.NodeName)
				}
			}
			if err == nil && len(got) == 0 {
				err = errors.New("no pod has been replaced")
			}
			return err
		})
		right := err == nil
		for _, node := range got {
			right = right && slices.Contains(want, node)
		}
		return Finding{Seen: fmt.Sprintf("planned for %q, replaced on %q, %v", want, got, err), Right: right}, nil
	}
}

// kubectlTaint taints a node with the plugin, which must say that the pods have left.
func kubectlTaint(node, taint string, flags ...string) Step {
	return func(ctx context.Context, p *Play) error {
		took := scene.Span{From: time.Now()}
		_, err := run(ctx, slices.Concat([]string{"taint", p.NodeName(node), taint, "--yes"}, flags)...)
		if err != nil {
			return err
		}
		found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
		if err != nil {
			return err
		}
		took.To = found.Spec.Taints[len(found.Spec.Taints)-1].TimeAdded.Add(time.Second)
		p.Tainted(node, took, found.Spec.Taints)
		return goneWithin(time.Second)(ctx, p)
	}
}

// goneWithin wants all pods to have left soon.
func goneWithin(limit time.Duration) Step {
	return func(ctx context.Context, p *Play) error {
		left, err := p.Seen().Await(ctx, time.Now().Add(limit), p.Everyone()...)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d of %d pods have not left", left, len(p.Everyone()))
		}
		return err
	}
}

// isPending wants the plugin to list a pod as pending.
func isPending(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		out, err := run(ctx, "leaving", "--namespace="+p.Namespace, "--output=json")
		return Finding{Seen: string(out), Right: strings.Contains(string(out), string(p.Named(pod).UID))}, err
	}
}

// isOnBoard wants the board to send a pod to the page.
func isOnBoard(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		return readBoard(ctx, p, "", []string{"--namespace=" + p.Namespace}, func(line string) bool {
			return strings.Contains(line, string(p.Named(pod).UID)) || strings.Contains(line, "/"+pod)
		})
	}
}

// readBoard runs a board as a user, until it has sent what is looked for to the page.
func readBoard(ctx context.Context, p *Play, user string, flags []string, found func(line string) bool) (Finding, error) {
	config, err := kubeconfigOf(p, user)
	if err != nil {
		return Finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	board := exec.CommandContext(ctx, plugin, slices.Concat([]string{"board", "--kubeconfig=" + config}, flags)...)
	out, err := board.StdoutPipe()
	if err := errors.Join(err, board.Start()); err != nil {
		cancel()
		return Finding{}, err
	}
	defer func() { cancel(); _ = board.Wait() }() // it was killed
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "http://"); ok {
			return readPage(ctx, "http://"+strings.TrimSpace(address), found)
		}
	}
	return Finding{Seen: "the board printed no address"}, lines.Err()
}

func readPage(ctx context.Context, address string, found func(line string) bool) (Finding, error) {
	page, err := get(ctx, address)
	if err != nil {
		return Finding{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/events", http.NoBody)
	if err != nil {
		return Finding{}, err
	}
	events, err := http.DefaultClient.Do(request)
	if err != nil {
		return Finding{}, err
	}
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"state":"denied"`) {
			return Finding{Seen: "the board says " + lines.Text()}, nil
		}
		if found(lines.Text()) {
			return Finding{Seen: "the board shows it", Right: strings.Contains(string(page), "<html")}, nil
		}
	}
	return Finding{Seen: "the board does not show it"}, lines.Err()
}
