// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// fieldManager is the manager of the taints that this program writes.
const fieldManager = "kubectl-taintkeeper"

// changed is a node whose taints were changed, or would be in a dry run.
type changed struct {
	before []corev1.Taint
	node   *corev1.Node // after the change
	at     time.Time
}

// apply changes the nodes one by one. If one fails, it continues with the others.
func (t *tainting) apply(ctx context.Context, nodes []*corev1.Node) ([]changed, error) {
	var all []changed
	var errs []error
	for i, node := range nodes {
		if apicall.Stopping(ctx) {
			errs = append(errs, fmt.Errorf("interrupted: not changed: %s", strings.Join(taintNamesOf(nodes[i:]), ", ")))
			break
		}
		one, err := t.change(ctx, node)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, t.explain(err)))
			continue
		}
		all = append(all, one)
		if err := t.printOne(one); err != nil {
			return all, errors.Join(append(errs, err)...)
		}
	}
	return all, errors.Join(errs...)
}

// conflicts limits how often a node is read again when others change it at the same time. All these attempts together
// take about 10 s.
var conflicts = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 9}

// change changes one node. It does not undo other changes made meanwhile, because the patch applies only to the version
// that was read.
func (t *tainting) change(ctx context.Context, planned *corev1.Node) (changed, error) {
	one, failed := changed{}, errors.New("interrupted: not changed")
	_ = wait.ExponentialBackoffWithContext(ctx, conflicts, func(ctx context.Context) (bool, error) {
		one, failed = t.changeOnce(ctx, &planned)
		return !apierrors.IsConflict(failed), nil
	})
	if apierrors.IsConflict(failed) && apicall.Stopping(ctx) {
		failed = fmt.Errorf("interrupted: not changed: %w", failed)
	}
	return one, failed
}

// changeOnce reads a node and changes it. If it is no longer as planned, it makes a new plan first.
func (t *tainting) changeOnce(ctx context.Context, planned **corev1.Node) (changed, error) {
	node, err := t.reader.Clients.CoreV1().Nodes().Get(ctx, (*planned).Name, metav1.GetOptions{})
	if err != nil {
		return changed{}, err
	}
	if isOther(*planned, node) {
		if err := t.again(ctx, node); err != nil {
			return changed{}, err
		}
		*planned = node
	}
	one := changed{before: node.Spec.Taints, at: t.now()}
	edited, err := t.edited(node.Spec.Taints, one.at)
	if err != nil {
		return changed{}, err
	}
	one.node, err = t.write(ctx, node, edited)
	return one, err
}

// isOther reports whether the plan no longer fits a node because it has other taints, or because it was replaced by a
// node with the same name.
func isOther(planned, node *corev1.Node) bool {
	same := func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }
	return planned.UID != node.UID || !slices.EqualFunc(planned.Spec.Taints, node.Spec.Taints, same)
}

// again makes a new plan for a node that has changed in the meantime, and asks again.
func (t *tainting) again(ctx context.Context, node *corev1.Node) error {
	t.tell("Node %s has changed in the meantime, so here is a new plan.", node.Name)
	if err := t.read(ctx); err != nil {
		return err
	}
	made, err := t.plan(ctx, []*corev1.Node{state.SlimNode(node)})
	if err != nil {
		// The edit will be refused when it is applied, with an error about this node.
		return nil //nolint:nilerr // see above
	}
	t.show(made)
	return t.confirm(ctx, made, []*corev1.Node{node})
}

// edited returns a node's taints after the edit. An added NoExecute taint gets a timeAdded. A taint that stays the
// same, including its value, keeps its timeAdded.
func (t *tainting) edited(current []corev1.Taint, at time.Time) ([]corev1.Taint, error) {
	edit := t.edit
	edit.Add = slices.Clone(t.edit.Add)
	for i := range edit.Add {
		taint := &edit.Add[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		added := metav1.NewTime(at.Truncate(time.Second))
		taint.TimeAdded = &added
		for _, was := range current {
			if was.MatchTaint(taint) && was.Value == taint.Value && !was.TimeAdded.IsZero() {
				taint.TimeAdded = was.TimeAdded
			}
		}
	}
	return edit.Apply(current, t.policy())
}

// write replaces the taints of a node if nobody has changed the node since it was read. With --dry-run=client, it only
// sets them on the node that was read.
func (t *tainting) write(ctx context.Context, read *corev1.Node, edited []corev1.Taint) (*corev1.Node, error) {
	if t.dryRun == dryRunClient {
		node := read.DeepCopy()
		node.Spec.Taints = edited
		return node, nil
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: fieldManager, DryRun: t.dryRun.Option()}
	return apicall.PatchTaints(ctx, t.reader.Clients, read, apicall.NodeEdit{Taints: edited}, options)
}

// explain says what to do when a call about a node fails.
func (t *tainting) explain(err error) error {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource"):
		return fmt.Errorf("%w: ask for the right to patch nodes", err)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot get resource"):
		return fmt.Errorf("%w: ask for the right to get nodes", err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return fmt.Errorf("the API server refused the change: %w", err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("other writers keep changing it: %w: try again", err)
	case apierrors.IsNotFound(err):
		return errors.New("it no longer exists: someone deleted it")
	case source.IsUnanswered(err):
		return fmt.Errorf("the API server %s does not answer: %w: check the node before you try again", t.reader.Server, err)
	}
	return err
}

func taintNamesOf(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}
