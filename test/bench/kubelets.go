// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// termSize is some pods on a real node that are due together, and how often that is measured in a round.
type termSize struct {
	name    string
	pods    int
	seconds int64 // that they tolerate the taint
	times   int
}

var termSizes = []termSize{
	{name: "one pod", pods: 1, times: 3},
	{name: "one pod after 4 s", pods: 1, seconds: 4, times: 2},
	{name: "40 pods", pods: 40, times: 1},
}

// terms says how long after they were due the first of some containers got SIGTERM, and how long the last did.
type terms struct {
	First time.Duration `json:"first"`
	Last  time.Duration `json:"last"`
}

// realNode is the name of the node with a kubelet.
const realNode = "real"

// kubelets measures when containers get SIGTERM that a kubelet runs. The contestants take turns.
func (b *bench) kubelets(ctx context.Context) (err error) {
	if missing := rig.Missing(ctx); missing != "" {
		return errors.New(missing)
	}
	machines, err := rig.Start(ctx, rig.Config{
		Binaries: b.cluster.Binaries(), LeaseSeconds: 40, Kubeconfig: b.nodeKubeconfig,
		APIServer: strings.TrimPrefix(b.cluster.AdminConfig().Host, "https://"),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, machines.Stop(ctx)) }()
	if _, err := machines.AddMachine(ctx, rig.NodeConfig{Name: realNode}); err != nil {
		return err
	}
	b.say("\nkubelets: SIGTERM in containers of a real node")
	err = b.inRounds(ctx, func(ctx context.Context, c contestant) error { return b.termsOf(ctx, c, machines) },
		[]string{nameOurs, nameBuiltIn}, nil)
	b.report.printTerms(b.out)
	return err
}

func (b *bench) nodeKubeconfig(user string, groups ...string) ([]byte, error) {
	access, err := b.cluster.ConfigFor(user, groups...)
	path, err := b.writeKubeconfig(realNode, access, err)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (b *bench) termsOf(ctx context.Context, c contestant, machines *rig.Rig) error {
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	defer p.stop()
	for _, size := range termSizes {
		for range size.times {
			measured, err := b.terms(ctx, size, machines)
			if err != nil {
				return fmt.Errorf("%s: %w", size.name, err)
			}
			b.report.addTerms(c.name, size.name, measured)
			b.say("  %s, %s: SIGTERM after %s to %s, load %s",
				c.name, size.name, milliseconds(measured.First), milliseconds(measured.Last), loadAverage())
		}
	}
	return nil
}

// terms measures from the answer to the PATCH that taints the node.
func (b *bench) terms(ctx context.Context, size termSize, machines *rig.Rig) (measured terms, err error) {
	var pods []*corev1.Pod
	for range size.pods {
		b.serial++
		name := fmt.Sprintf("term-%03d", b.serial)
		pod := localcluster.NewPod(name, realNode, scenario.Runs(), scene.Tolerating(taintKey, size.seconds))
		pod.Namespace = namespace(0)
		if size.seconds == 0 {
			pod.Spec.Tolerations = nil
		}
		pods = append(pods, pod)
	}
	if pods, err = b.createPods(ctx, pods); err != nil {
		return measured, err
	}
	if _, err := awaitWritten(ctx, machines, pods, "main starts"); err != nil {
		return measured, err
	}
	if err := errors.Join(await.Pause(ctx, settleTime), b.taint(ctx, realNode)); err != nil {
		return measured, err
	}
	due := time.Now().Add(time.Duration(size.seconds) * time.Second)
	at, err := awaitWritten(ctx, machines, pods, "main SIGTERM")
	if err != nil {
		return measured, err
	}
	slices.SortFunc(at, time.Time.Compare)
	measured = terms{First: at[0].Sub(due), Last: at[len(at)-1].Sub(due)}
	return measured, errors.Join(b.awaitGone(ctx, pods), b.untaintAll(ctx, []string{realNode}))
}

// awaitWritten waits until a container of each pod has written something, and returns when that was.
func awaitWritten(ctx context.Context, machines *rig.Rig, pods []*corev1.Pod, what string) (at []time.Time, err error) {
	err = await.Poll(ctx, func(context.Context) error {
		seen, err := machines.Seen()
		if err != nil {
			return err
		}
		at = nil
		for _, s := range seen {
			its := func(pod *corev1.Pod) bool { return pod.UID == s.Pod }
			if s.String() == what && slices.ContainsFunc(pods, its) {
				at = append(at, s.At)
			}
		}
		if len(at) < len(pods) {
			return fmt.Errorf("%d of %d containers have written %q", len(at), len(pods), what)
		}
		return nil
	})
	return at, err
}

func (b *bench) awaitGone(ctx context.Context, pods []*corev1.Pod) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		left, err := b.admin.CoreV1().Pods(pods[0].Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods are still there", len(left.Items))
		}
		return err
	})
}
