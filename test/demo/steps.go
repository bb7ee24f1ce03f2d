// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// first is the node of an act that gets its taints.
const first = "1"

// stageOf is the stage on which an act is played, with what is particular to this program. A rehearsal has none.
func stageOf(p *Play) *stage {
	s, _ := p.Stage.(*stage)
	return s
}

// command says what a user would type.
func (s *stage) command(format string, args ...any) {
	if s == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if after := time.Since(s.began); !s.began.IsZero() && after > time.Second {
		text += fmt.Sprintf("   # after %.0f s", after.Seconds())
	}
	s.say("%s$ %s", indent, text)
}

// replicas makes pods of a workload on a node.
func replicas(node, workload string, count int, edits ...Edit) Step {
	var all []Step
	for i := range count {
		all = append(all, On(node, fmt.Sprintf("%s-%d", workload, i), edits...))
	}
	return Steps(all...)
}

// kubectlTaint does to the first node what the command does, and says so.
func kubectlTaint(specs ...string) Step {
	return func(ctx context.Context, p *Play) error {
		node := p.NodeName(first)
		stageOf(p).command("kubectl taint node %s %s", node, strings.Join(specs, " "))
		edit, err := taints.ParseEdit(specs...)
		if err != nil {
			return err
		}
		apply := func(all []corev1.Taint) ([]corev1.Taint, error) { return edit.Apply(all, taints.KeepExisting) }
		took, after, err := scene.EditTaints(ctx, p.Admin, node, apply)
		if err == nil {
			p.Tainted(first, took, after)
		}
		return err
	}
}

// fullNames are what nodes are called in the cluster.
func fullNames(p *Play, nodes []string) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, p.NodeName(node))
	}
	return names
}
