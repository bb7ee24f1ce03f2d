// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// rig is where the machines of a stage run.
func (p *Play) rig() *kubelets.Rig {
	return p.Stage.(interface{ Machines() *kubelets.Rig }).Machines()
}

func (p *Play) machine(node string) *kubelets.Machine { return p.rig().Machine(p.NodeName(node)) }

// Machine makes a node with a real kubelet, in a zone of its own, and waits until it is ready. It wants a stage with
// machines.
func Machine(name string) Step {
	return func(ctx context.Context, p *Play) error {
		labels := p.Labels()
		labels[corev1.LabelTopologyZone] = p.NodeName(name)
		made, err := p.rig().AddMachine(ctx, kubelets.NodeConfig{Name: p.NodeName(name), Labels: labels})
		if err != nil {
			return err
		}
		p.Finally(made.Remove)
		return p.awaitReady(ctx, name)
	}
}

// awaitReady waits until the node of a machine is ready, and has none of the taints that say that it is not.
func (p *Play) awaitReady(ctx context.Context, name string) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		node, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(name), metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, isReady)
		away := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
		})
		if !ready || away {
			return fmt.Errorf("node %s is not ready: %v, taints %v", name, node.Status.Conditions, node.Spec.Taints)
		}
		return nil
	})
}

func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// KillKubelet kills the kubelet of a machine. Its containers continue.
func KillKubelet(node string) Step {
	return onMachine(node, func(m *kubelets.Machine) { m.KillKubelet() })
}

// KillRuntime kills the container runtime of a machine. Its containers continue.
func KillRuntime(node string) Step {
	return onMachine(node, func(m *kubelets.Machine) { m.KillRuntime() })
}

// Cut cuts a machine off the API server.
func Cut(node string) Step { return onMachine(node, func(m *kubelets.Machine) { m.Cut() }) }

func onMachine(node string, do func(*kubelets.Machine)) Step {
	return func(_ context.Context, p *Play) error {
		do(p.machine(node))
		return nil
	}
}

// StartKubelet starts the kubelet of a machine again.
func StartKubelet(node string) Step {
	return back(node, func(_ context.Context, m *kubelets.Machine) error { return m.StartKubelet() })
}

// StartRuntime starts the container runtime of a machine again.
func StartRuntime(node string) Step {
	return back(node, func(ctx context.Context, m *kubelets.Machine) error { return m.StartRuntime(ctx) })
}

// Heal connects a machine with the API server again.
func Heal(node string) Step {
	return back(node, func(_ context.Context, m *kubelets.Machine) error { m.Heal(); return nil })
}

// RestartKubelet kills the kubelet of a machine and starts it again.
func RestartKubelet(node string) Step { return Steps(KillKubelet(node), StartKubelet(node)) }

// Reboot switches a machine off and on again.
func Reboot(node string) Step {
	return back(node, func(ctx context.Context, m *kubelets.Machine) error {
		return errors.Join(m.PowerOff(ctx), m.PowerOn(ctx))
	})
}

// back lets a machine come back, and waits until its kubelet has told the API server.
func back(node string, do func(context.Context, *kubelets.Machine) error) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		if err := do(ctx, p.machine(node)); err != nil {
			return err
		}
		err := await.Poll(ctx, func(ctx context.Context) error {
			found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
			if err != nil {
				return err
			}
			said := slices.ContainsFunc(found.Status.Conditions, func(c corev1.NodeCondition) bool {
				return isReady(c) && c.LastHeartbeatTime.After(from)
			})
			if !said {
				return fmt.Errorf("node %s is not back: %v", node, found.Status.Conditions)
			}
			return nil
		})
		p.back[node] = oracle.Between(from, time.Now())
		return err
	}
}

// Settings changes fields of the KubeletConfiguration of a machine, and restarts its kubelet.
func Settings(node string, settings map[string]any) Step {
	return Steps(KillKubelet(node), func(_ context.Context, p *Play) error {
		return p.machine(node).Change(settings)
	}, StartKubelet(node))
}

// Static makes a static pod on a machine, and waits for its mirror pod.
func Static(node, name string, edits ...Edit) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		pod := localcluster.NewPod(name, "", edits...)
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Namespace = p.Namespace
		text, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.machine(node).StaticPod(name), text, 0o600); err != nil {
			return err
		}
		return await.Poll(ctx, func(ctx context.Context) error {
			mirror, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, name+"-"+p.NodeName(node), metav1.GetOptions{})
			if err == nil {
				p.add(node, from, mirror)
				p.Named(mirror.Name).alias = name
			}
			return err
		})
	}
}

// AwaitTaint waits until a node has a NoExecute taint that another client sets.
func AwaitTaint(node, key string) Step {
	return awaitTaint(node, key, corev1.TaintEffectNoExecute, true)
}

// AwaitNoTaint waits until a node no longer has it.
func AwaitNoTaint(node, key string) Step {
	return awaitTaint(node, key, corev1.TaintEffectNoExecute, false)
}

// AwaitNoSchedule waits until a node has a NoSchedule taint that another client sets, or no longer has it.
func AwaitNoSchedule(node, key string, wanted bool) Step {
	return awaitTaint(node, key, corev1.TaintEffectNoSchedule, wanted)
}

// awaitTaint says that the taints changed between the last look that did not show it and the first one that did.
func awaitTaint(node, key string, effect corev1.TaintEffect, wanted bool) Step {
	return func(ctx context.Context, p *Play) error {
		took := scene.Span{From: time.Now()}
		return await.Poll(ctx, func(ctx context.Context) error {
			looks := time.Now()
			found, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(node), metav1.GetOptions{})
			if err != nil {
				return err
			}
			has := slices.ContainsFunc(found.Spec.Taints, func(taint corev1.Taint) bool {
				return taint.Key == key && taint.Effect == effect
			})
			if has != wanted {
				took.From = looks
				return fmt.Errorf("node %s has the taints %v", node, found.Spec.Taints)
			}
			took.To = time.Now()
			p.Tainted(node, took, found.Spec.Taints)
			return nil
		})
	}
}
