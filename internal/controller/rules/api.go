// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

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
