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
	standard "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	tableLateness   = "lateness"
	latenessP99     = "p99, ms"
	latenessPods    = 5000
	latenessSeconds = 60
	// latenessPace is the time between the taints of two nodes. With twenty nodes the due instants fill every second
	// evenly, instead of all coming at once at its beginning.
	latenessPace = time.Second / stormNodes
)

// lateness makes pods become due over a minute. The built-in controller with its limit of 20 calls per second would
// take a quarter of an hour, so it is left out.
func (b *bench) lateness(ctx context.Context) error {
	if err := b.ensureNodes(ctx, stormNodes); err != nil {
		return err
	}
	b.say("\nlateness: %d pods are due at instants spread over a minute", latenessPods)
	var pods []*corev1.Pod
	return b.take(ctx, turns{
		once: []string{nameOurs, namePrevious, nameUnlimited},
		before: func(ctx context.Context) (err error) {
			pods, err = b.createPods(ctx, latenessPodList())
			return err
		},
		play: func(ctx context.Context, p *process) error {
			if err := await.Pause(ctx, settleTime); err != nil {
				return err
			}
			found, err := b.minute(ctx, p, pods)
			if err != nil {
				return err
			}
			b.note(tableLateness, p.name, found)
			p.stop()
			return errors.Join(b.untaintAll(ctx, nodeNames(stormNodes)), b.removePods(ctx))
		},
	})
}

func latenessPodList() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range latenessPods {
		pod := productionPod("lateness", i, nodeName(i%stormNodes))
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: taintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(1 + i/stormNodes%latenessSeconds)),
		}}
		pods = append(pods, pod)
	}
	return pods
}

// minute plays the minute itself.
func (b *bench) minute(ctx context.Context, p *process, pods []*corev1.Pod) (figures, error) {
	mark, err := b.audit.mark()
	if err != nil {
		return nil, err
	}
	var calls []call
	used, err := b.measured(ctx, p, func(ctx context.Context) (err error) {
		for _, node := range nodeNames(stormNodes) {
			if err := errors.Join(b.taint(ctx, node), await.Pause(ctx, latenessPace)); err != nil {
				return err
			}
		}
		calls, err = b.audit.awaitDeletes(ctx, mark, len(pods), stormLimit)
		return err
	})
	return append(latenessFigures(pods, calls), used...), err
}

// latenessFigures compares the deletes with what package verdict says. A taint counts from the instant at which the
// API server accepted it, which is before a controller can have seen it: so lateness is slightly overestimated.
func latenessFigures(pods []*corev1.Pod, calls []call) figures {
	since, accepted := taintings(calls), deletes(calls)
	early := 0.
	var late []float64
	for _, pod := range pods {
		lateness := accepted[pod.Name].Sub(due(pod, since[pod.Spec.NodeName]))
		if lateness < 0 {
			early++
		}
		late = append(late, lateness.Seconds()*1000)
	}
	return figures{{latenessP99, quantile(late, 0.99)}, {"max, ms", quantile(late, 1)}, {"deleted too early", early}}
}

func due(pod *corev1.Pod, since time.Time) time.Time {
	taint := verdict.Taint{Taint: corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoExecute}, Since: since}
	facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.Bound(pod)}
	return verdict.Rule{}.Decide(facts, []verdict.Taint{taint}).Due
}

// termSizes are pods on a real node that are due together, and how often that is measured in a round.
var termSizes = []struct {
	name    string
	pods    int
	seconds int64 // that they tolerate the taint
	times   int
}{
	{name: "one pod", pods: 1, times: 3},
	{name: "one pod after 4 s", pods: 1, seconds: 4, times: 2},
	{name: "40 pods", pods: 40, times: 1},
}

// realNode is the name of the node with a kubelet.
const realNode = "real"

// kubelets measures when containers get SIGTERM that a kubelet runs.
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
	return b.take(ctx, turns{
		every: []string{nameOurs, nameBuiltIn},
		play: func(ctx context.Context, p *process) error {
			for _, size := range termSizes {
				for range size.times {
					at, err := b.terms(ctx, size.pods, size.seconds, machines)
					if err != nil {
						return fmt.Errorf("%s: %w", size.name, err)
					}
					b.note("SIGTERM in the containers of a real node", p.name, figures{
						{size.name + ", first, ms", at[0]}, {size.name + ", last, ms", at[len(at)-1]},
					})
				}
			}
			return nil
		},
	})
}

func (b *bench) nodeKubeconfig(user string, groups ...string) ([]byte, error) {
	access, err := b.cluster.ConfigFor(user, groups...)
	path, err := b.writeKubeconfig(realNode, access, err)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// terms returns how many milliseconds after they were due containers got SIGTERM, the first one first. It measures from
// the answer to the PATCH that taints the node.
func (b *bench) terms(ctx context.Context, number int, seconds int64, machines *rig.Rig) (late []float64, err error) {
	var pods []*corev1.Pod
	for range number {
		b.serial++
		name := fmt.Sprintf("term-%03d", b.serial)
		pod := localcluster.NewPod(name, realNode, scenario.Runs(), standard.Tolerating(taintKey, seconds))
		pod.Namespace = namespace(0)
		if seconds == 0 {
			pod.Spec.Tolerations = nil
		}
		pods = append(pods, pod)
	}
	if pods, err = b.createPods(ctx, pods); err != nil {
		return nil, err
	}
	if _, err := awaitWritten(ctx, machines, pods, "main starts"); err != nil {
		return nil, err
	}
	if err := errors.Join(await.Pause(ctx, settleTime), b.taint(ctx, realNode)); err != nil {
		return nil, err
	}
	due := time.Now().Add(time.Duration(seconds) * time.Second)
	at, err := awaitWritten(ctx, machines, pods, "main SIGTERM")
	if err != nil {
		return nil, err
	}
	for _, at := range at {
		late = append(late, at.Sub(due).Seconds()*1000)
	}
	slices.Sort(late)
	return late, errors.Join(b.awaitGone(ctx, pods), b.untaintAll(ctx, []string{realNode}))
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
