// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// report writes the status of a rule. It releases a rule that is being deleted once no node has its taint any longer.
func (r *reconciler) report(ctx context.Context, p planned) error {
	if p.gone {
		return nil
	}
	return r.try(p, "status", func() error {
		if !p.object.DeletionTimestamp.IsZero() {
			return r.release(ctx, p)
		}
		r.tellHolding(ctx, p)
		return r.writeStatus(ctx, p)
	})
}

// release removes our finalizer if, according to the API server too, no node has the rule's taint.
func (r *reconciler) release(ctx context.Context, p planned) error {
	object := r.newest(p)
	if r.dryRun || !p.clean || !slices.Contains(object.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	late, err := r.api.labeled(ctx, p.rule)
	if err != nil {
		return err
	}
	if len(late) > 0 {
		p.pending = late
		return errors.Join(r.writeNodes(ctx, p, false),
			fmt.Errorf("node %s still had the taint of deleted rule %s, because the watch lags", late[0], p.rule.name))
	}
	left := slices.DeleteFunc(slices.Clone(object.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	return r.writeFinalizers(ctx, object, left)
}

func (r *reconciler) writeFinalizers(ctx context.Context, object *v1alpha1.NodeTaintRule, finalizers []string) error {
	written, err := r.api.patchFinalizers(ctx, object, finalizers)
	return r.wrote(object, written, err)
}

// wrote notes the answer to a write of a rule. A rule that no longer exists needs none.
func (r *reconciler) wrote(object, written *v1alpha1.NodeTaintRule, err error) error {
	if err == nil {
		r.notes[object.UID].written = written
	}
	if apicall.IsNotFound(err) {
		return nil
	}
	return err
}

// tellHolding reports that a rule has begun or ceased to hold nodes back.
func (r *reconciler) tellHolding(ctx context.Context, p planned) {
	note := r.note(p)
	if note.holding == "" {
		note.holding = saysHolding(r.newest(p))
	}
	if note.holding == p.outcome.holding() {
		return
	}
	note.holding = p.outcome.holding()
	log := logf.FromContext(ctx).WithValues("rule", p.rule.name, "dryRun", p.rule.asIf)
	if p.outcome.held > 0 {
		log.Info("Nodes wait for the taint of a rule", "held", p.outcome.held, "why", heldMessage(p))
	} else {
		log.Info("No nodes wait for the taint of a rule any longer")
	}
	if !r.dryRun {
		r.events.holding(p)
	}
}

// writeStatus writes the status of a rule if it changed.
func (r *reconciler) writeStatus(ctx context.Context, p planned) error {
	object := r.newest(p)
	status := statusOf(object, p)
	if apiequality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	if r.dryRun {
		r.wouldSay(ctx, p, status)
		return nil
	}
	said := saysRefused(object)
	written, err := r.api.patchStatus(ctx, object, status)
	if err := r.wrote(object, written, err); err != nil || written == nil {
		return err
	}
	if !p.verdict.accepted() && said != p.verdict.reason {
		logf.FromContext(ctx).Info("A rule is not accepted", "rule", object.Name,
			"reason", p.verdict.reason, "message", p.verdict.message)
		r.events.refused(object, p.verdict)
	}
	if p.verdict.accepted() && said != "" {
		logf.FromContext(ctx).Info("A rule is accepted now", "rule", object.Name)
		r.events.accepted(object, p.verdict)
	}
	return nil
}

// wouldSay logs the status that a rule would get in a dry run, if it is news.
func (r *reconciler) wouldSay(ctx context.Context, p planned, status v1alpha1.NodeTaintRuleStatus) {
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime.Reset()
	}
	note := r.note(p)
	if apiequality.Semantic.DeepEqual(note.would, status) {
		return
	}
	note.would = status
	logf.FromContext(ctx).Info("Dry run: would write a rule's status", "rule", p.rule.name, "reason", p.verdict.reason,
		"selected", p.outcome.selected, "matching", p.outcome.matching, "tainted", p.outcome.tainted, "held", p.outcome.held)
}
