// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// edit is what a rule must write to a node.
type edit struct {
	apicall.NodeEdit
	node *corev1.Node
	adds bool // it adds the taint
}

// edit returns what must be written to a node that was read live so that it is as the newest plan of a rule wants it,
// and false if nothing must be written. Anything that the plan did not know, such as another node of that name, is left
// to the next plan. It adds the taint only if admitted.
func (v *view) edit(uid types.UID, planned *rule, node *corev1.Node, may bool, now time.Time) (edit, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, known := v.rules[uid], v.nodes[node.Name]
	if f == nil || f.rule != planned || known == nil || known.UID != node.UID {
		return edit{}, false
	}
	e := v.change(f, node, may, now)
	return e, len(e.Labels) > 0 || e.adds || len(e.Taints) < len(node.Spec.Taints)
}

// change returns what the newest plan of a rule wants to change on a node. The caller holds the lock.
func (v *view) change(f *followed, node *corev1.Node, may bool, now time.Time) edit {
	is, place := f.rule.facts(node), f.places[node.Name]
	// A taint that was the rule's when it was seen still is, even if the plan no longer wants it; compare owns.
	owned := is.standing == f.rule.text && (is.labeled || place != nil && place.owned)
	wanted := place.wantedBy(f.rule)
	e := edit{node: node}
	e.Taints, e.Labels = slices.Clone(node.Spec.Taints), map[string]*string{}
	switch {
	case wanted && owned:
		e.label(f, is)
	case wanted:
		if may && is.matches() {
			v.come(&e, f, is, now)
		}
	case owned && is.matches() && !f.rule.onlyReports: // the condition is back
	default:
		v.leave(&e, f, is, owned)
	}
	return e
}

// come adds the taint of a rule, and its label, unless another taint is in its way. If a rival left the very same taint
// there, only the owner changes.
func (v *view) come(e *edit, f *followed, is facts, now time.Time) {
	room := edit{NodeEdit: apicall.NodeEdit{Taints: e.Taints, Labels: map[string]*string{}}, node: e.node}
	if !v.makesRoom(&room, f, is) {
		return
	}
	*e = room
	e.adds = true
	e.label(f, is)
	if is.standing != f.rule.text {
		taint := f.rule.taint()
		taint.TimeAdded = &metav1.Time{Time: now}
		e.Taints = append(e.Taints, taint)
	}
}

// makesRoom removes what rivals have left on a node and no longer want, and reports whether the taint of a rule can be
// added then. A taint that no rule owns is in its way.
func (v *view) makesRoom(e *edit, f *followed, is facts) bool {
	free := is.standing == ""
	for _, other := range v.rules {
		theirs := other.rule.facts(e.node)
		if other == f || other.rule.frozen || !theirs.labeled || !other.rule.rivals(f.rule) {
			continue
		}
		e.Labels[other.rule.label] = nil
		if theirs.standing != other.rule.text {
			continue
		}
		free = free || sameTaint(other.object, f.object)
		if other.rule.text != f.rule.text {
			e.remove(other.rule)
		}
	}
	return free
}

// leave removes the taint of a rule, and its label, unless another rule wants the taint instead.
func (v *view) leave(e *edit, f *followed, is facts, owned bool) {
	if heir := v.heir(f, e.node.Name); heir != nil {
		if !heir.rule.facts(e.node).labeled {
			return // until the heir has taken it over
		}
		owned = owned && heir.rule.text != f.rule.text
	}
	if is.labeled {
		e.Labels[f.rule.label] = nil
	}
	if owned {
		e.remove(f.rule)
	}
}

// heir returns the other rule that wants a taint of the same key and effect on a node, or nil.
func (v *view) heir(f *followed, node string) *followed {
	for _, other := range v.rules {
		place := other.places[node]
		if other != f && sameTaint(other.object, f.object) && place != nil && place.wanted &&
			!other.rule.onlyReports && !other.rule.frozen {
			return other
		}
	}
	return nil
}

func (e *edit) label(f *followed, is facts) {
	if !is.labeled {
		e.Labels[f.rule.label] = new(f.rule.print)
	}
}

func (e *edit) remove(r *rule) {
	e.Taints = slices.DeleteFunc(e.Taints, func(t corev1.Taint) bool { return t.ToString() == r.text })
}

// api makes the calls of the reconciler.
type api struct {
	client  kubernetes.Interface
	rules   client.Client
	limiter *rate.Limiter // nil for no limit
}

// token waits for a token of the rate limit.
func (a api) token(ctx context.Context) error { return apicall.Token(ctx, a.limiter) }

// patchNode writes the taints and the labels of a node in one call, with the precondition that the node has not changed
// since it was read. The caller has waited for the token.
func (a api) patchNode(ctx context.Context, e edit) error {
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	_, err := apicall.PatchTaints(ctx, a.client, e.node, e.NodeEdit, metav1.PatchOptions{})
	return err
}

// node reads a node.
func (a api) node(ctx context.Context, name string) (*corev1.Node, error) {
	if err := a.token(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// labeled reads the names of the nodes that have the label of a rule, live. It requests only their metadata, which is
// cheap.
func (a api) labeled(ctx context.Context, r *rule) ([]string, error) {
	if err := a.token(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := a.rules.List(ctx, nodes, client.MatchingLabels{r.label: r.print}); err != nil {
		return nil, fmt.Errorf("list the nodes with the taint of rule %s: %w", r.name, err)
	}
	names := make([]string, 0, len(nodes.Items))
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	return names, nil
}

// patchFinalizers writes the finalizers of a rule, with the precondition that the rule has not changed since it was
// read. It returns the patched rule.
func (a api) patchFinalizers(
	ctx context.Context, read *v1alpha1.NodeTaintRule, finalizers []string,
) (*v1alpha1.NodeTaintRule, error) {
	changed := read.DeepCopy()
	changed.Finalizers = finalizers
	if err := a.patchRule(ctx, func(ctx context.Context) error {
		return a.rules.Patch(ctx, changed, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
	}); err != nil {
		return nil, fmt.Errorf("write the finalizers of rule %s: %w", read.Name, err)
	}
	return changed, nil
}

// patchStatus writes the status of a rule, which has no other writer, and returns the patched rule.
func (a api) patchStatus(
	ctx context.Context, read *v1alpha1.NodeTaintRule, status v1alpha1.NodeTaintRuleStatus,
) (*v1alpha1.NodeTaintRule, error) {
	changed := read.DeepCopy()
	changed.Status = status
	if err := a.patchRule(ctx, func(ctx context.Context) error {
		return a.rules.Status().Patch(ctx, changed, client.MergeFrom(read))
	}); err != nil {
		return nil, fmt.Errorf("write the status of rule %s: %w", read.Name, err)
	}
	return changed, nil
}

func (a api) patchRule(ctx context.Context, patch func(context.Context) error) error {
	if err := a.token(ctx); err != nil {
		return err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return patch(ctx)
}

// briefly shortens a message of the API server to fit into an event.
func briefly(err error) string {
	const enough = 400
	text := err.Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		text = status.Status().Message
	}
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return text
}
