// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// stayUntil waits until an instant, and then removes what was added.
func (t *tainting) stayUntil(ctx context.Context, done []changed, end time.Time) error {
	t.tell("Will remove %s at %s. If this command is interrupted before that, run: %s", t.edit, output.Absolute(end), t.undo(done))
	if !t.until(ctx, end) {
		return t.interrupted(done)
	}
	var errs []error
	for i, one := range done {
		err := t.takeOffUntilDone(ctx, one)
		if apicall.Stopping(ctx) && err != nil {
			return errors.Join(append(errs, t.interrupted(done[i:]))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: cannot remove %s: %w; to try again, run: %s", one.node.Name, t.edit, t.explain(err), t.undo(done[i:i+1])))
		}
	}
	return errors.Join(errs...)
}

func (t *tainting) interrupted(left []changed) error {
	nodes := sentence.Enumerate(nodesOf(left))
	return fmt.Errorf("interrupted: to remove %s from %s, run: %s", t.edit, nodes, t.undo(left))
}

func nodesOf(done []changed) []string {
	var names []string
	for _, one := range done {
		names = append(names, one.node.Name)
	}
	return names
}

// undo returns the command that removes from nodes what was added.
func (t *tainting) undo(done []changed) string {
	words := slices.Concat([]string{"kubectl", "taintkeeper", "untaint"}, t.connection(), nodesOf(done))
	for _, taint := range t.edit.Add {
		words = append(words, taints.Removal{Key: taint.Key, Effect: taint.Effect}.String())
	}
	return strings.Join(words, " ")
}

// connection returns the flags that selected the cluster of this command.
func (t *tainting) connection() []string {
	var words []string
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"kubeconfig", t.config.KubeConfig}, {"context", t.config.Context},
		{"cluster", t.config.ClusterName}, {"user", t.config.AuthInfoName},
	} {
		if flag.value != nil && *flag.value != "" {
			words = append(words, "--"+flag.name+"="+*flag.value)
		}
	}
	return words
}

// until waits for an instant of this machine's clock, and reports whether it was not interrupted. It reads the clock
// often, because timers stop while a machine sleeps.
func (t *tainting) until(ctx context.Context, end time.Time) bool {
	progress := t.reader.Progress
	defer progress.End()
	for {
		now := t.machineTime()
		if !now.Before(end) {
			return true
		}
		if progress.Moves {
			progress.Update("%s left", end.Sub(now).Round(time.Second))
		}
		if !pause(ctx, min(end.Sub(now), time.Second)) {
			return false
		}
	}
}

// takeOffUntilDone removes what was added to a node. It retries while the API server does not answer.
func (t *tainting) takeOffUntilDone(ctx context.Context, one changed) error {
	const again = 5 * time.Second
	for {
		err := t.takeOff(ctx, one)
		if err == nil || apicall.Refused(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) {
			return err
		}
		t.tell("Node %s: %v; will retry.", one.node.Name, err)
		if !pause(ctx, again) {
			return err
		}
	}
}

// takeOff removes what was added to a node. It keeps a taint that someone else has changed.
func (t *tainting) takeOff(ctx context.Context, one changed) error {
	return t.onConflict(ctx, func() error {
		node, err := t.node(ctx, one.node.Name)
		if err != nil {
			return err
		}
		if node.UID != one.node.UID {
			t.tell("Node %s was replaced by another node with the same name: its taints stay.", node.Name)
			return nil
		}
		left, foreign := without(node.Spec.Taints, t.edit.Add)
		for _, taint := range foreign {
			t.tell("Node %s: %s was changed by someone else meanwhile, so it stays.", node.Name, taints.Format(taint))
		}
		if len(left) == len(node.Spec.Taints) {
			return nil
		}
		if _, err := t.patch(ctx, node, left, metav1.PatchOptions{FieldManager: t.manager}); err != nil {
			return err
		}
		t.tell("node/%s untainted", node.Name)
		return nil
	})
}

// without returns the taints of a node without those that were added. It separately returns those with the same key and
// effect but another value, which someone else has set.
func without(current, added []corev1.Taint) (left, foreign []corev1.Taint) {
	for _, taint := range current {
		i := slices.IndexFunc(added, func(ours corev1.Taint) bool { return ours.MatchTaint(&taint) })
		if i >= 0 && taint.Value == added[i].Value {
			continue
		}
		left = append(left, taint)
		if i >= 0 {
			foreign = append(foreign, taint)
		}
	}
	return left, foreign
}
