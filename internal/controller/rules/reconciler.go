// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/instant"
)

// Request requests a plan of a rule.
type Request struct {
	Name string
	UID  types.UID
}

// concurrentNodes is how many nodes are changed at the same time.
const concurrentNodes = 8

// reconciler plans a rule and writes what the plan says. It is the only writer of rules' taints and labels. It handles
// one rule at a time and plans only between its writes, so no plan needs to consider writes under way.
type reconciler struct {
	dryRun   bool
	clock    *timeline.Clock
	watch    *custom.Watch[*v1alpha1.NodeTaintRule]
	view     *view
	api      api
	events   *apicall.Recorder
	retries  *prometheus.CounterVec
	requests *requests
	notes    map[types.UID]*note
}

// note is what this process has done about a rule.
type note struct {
	written  *v1alpha1.NodeTaintRule  // the rule as last written; in a dry run, as it would have been
	backoffs apicall.Backoffs[string] // backoffs of its nodes, and of the rule itself
}

// Reconcile plans a rule, changes the nodes as the plan wants, and reports the result.
func (r *reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	began := r.clock.Now()
	p, ok := r.view.plan(request.UID, nil, began)
	if !ok {
		delete(r.notes, request.UID)
		return reconcile.Result{}, nil
	}
	if r.notes[request.UID] == nil {
		r.notes[request.UID] = &note{}
	}
	backoffs := &r.notes[request.UID].backoffs
	p, may, err := r.admit(ctx, p)
	err = errors.Join(err, r.writeNodes(ctx, p, may), r.report(ctx, p))
	if apicall.Stopping(ctx) { // the next process continues
		return reconcile.Result{}, nil
	}
	next := instant.Next(p.next, backoffs.Next(began)) // including what could have been tried again meanwhile
	if !next.IsZero() {
		r.requests.enqueue(max(next.Sub(r.clock.Now()), time.Nanosecond), request)
	}
	return reconcile.Result{}, err
}

// admit reports whether the rule may add its taint to nodes now. The watch of rules must work, so that no old rule
// taints nodes. The rule must have our finalizer, so that it stays until its taints are removed. The API server must
// say which nodes have the taint, so that there are never more than maxTainted. It returns a plan that takes that into
// account.
func (r *reconciler) admit(ctx context.Context, p outcome) (outcome, bool, error) {
	if p.rule.dryRun || !p.rule.inForce() || p.clean || !r.watch.Known() {
		return p, false, nil
	}
	may := false
	err := r.try(p, "", func() error {
		if err := r.keep(ctx, p); err != nil {
			return err
		}
		may = p.rule.object.Spec.MaxTainted == nil
		if may || !p.adds {
			return nil
		}
		listed, err := r.api.labeled(ctx, p.rule)
		if err != nil {
			return err
		}
		if next, ok := r.view.plan(p.rule.object.UID, listed, r.clock.Now()); ok {
			p, may = next, true
		}
		return nil
	})
	return p, may, err
}

// writeNodes changes the nodes as the plan wants.
func (r *reconciler) writeNodes(ctx context.Context, p outcome, may bool) error {
	if r.dryRun {
		return nil
	}
	var (
		group  errgroup.Group
		mu     sync.Mutex
		failed []error
	)
	group.SetLimit(concurrentNodes)
	for _, name := range p.pending {
		group.Go(func() error {
			err := r.try(p, name, func() error { return r.writeNode(ctx, p, name, may) })
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed, so that one does not stop the others
	return errors.Join(failed...)
}

// writeNode changes a node as the plan wants. It decides from a live read, because the watch may lag behind the last
// write.
func (r *reconciler) writeNode(ctx context.Context, p outcome, name string, may bool) error {
	node, err := apicall.GetNode(ctx, r.api.client, r.api.limiter, name)
	if apicall.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	adds := false
	began := r.clock.Now()
	err = r.api.call(ctx, func(ctx context.Context) error {
		e, ok := r.view.edit(p.rule, node, may, r.clock.Latest())
		if !ok {
			return nil
		}
		adds, began = len(e.Taints) > len(node.Spec.Taints), r.clock.Now()
		_, err := apicall.PatchTaints(ctx, r.api.client, node, e, metav1.PatchOptions{})
		if err == nil {
			logf.FromContext(ctx).V(1).Info("Wrote taints of rules", "node", name, "taints", e.Taints)
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case !adds:
	case apicall.Refused(err):
		r.view.noteRefusal(p.rule.object.UID, name, briefly(err), r.clock.Now())
	case !apierrors.IsConflict(err) && !apicall.IsNotFound(err) && !apierrors.IsTooManyRequests(err):
		r.view.noteUnanswered(node, p.rule.text, began.Add(apicall.Timeout))
	}
	return fmt.Errorf("write the taints of node %s: %w", name, err)
}

// newest returns a rule as it was last read or written, whichever is newer.
func (r *reconciler) newest(p outcome) *v1alpha1.NodeTaintRule {
	object := p.rule.object
	if read, ok := r.watch.Get(object.Name); ok && read.UID == object.UID {
		object = read
	}
	if written := r.notes[object.UID].written; written != nil && !newer(object, written) {
		return written
	}
	return object
}

// try calls a function for a rule, unless it failed a moment ago. It counts failures, and backs off.
func (r *reconciler) try(p outcome, what string, do func() error) error {
	backoffs := &r.notes[p.rule.object.UID].backoffs
	if backoffs.Wait(what, r.clock.Now()) > 0 {
		return nil
	}
	err := do()
	if err == nil {
		backoffs.Forget(what)
		return nil
	}
	r.retries.WithLabelValues(apicall.Reason(err)).Inc()
	backoffs.Fail(what, err, r.clock.Now())
	return err
}

// api makes the calls of the reconciler.
type api struct {
	client  kubernetes.Interface
	rules   client.Client
	limiter *rate.Limiter // nil for no limit
}

// call makes a call once the rate limit allows it.
func (a api) call(ctx context.Context, call func(ctx context.Context) error) error {
	if err := apicall.Token(ctx, a.limiter); err != nil {
		return err
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	return call(ctx)
}

// labeled reads the names of the nodes that have the label of a rule, or of one that it continues, live. It requests
// only their metadata, which is cheap.
func (a api) labeled(ctx context.Context, r *rule) (names []string, err error) {
	for _, label := range r.labels() {
		nodes := &metav1.PartialObjectMetadataList{}
		nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := a.call(ctx, func(ctx context.Context) error {
			return a.rules.List(ctx, nodes, client.MatchingLabels{label: r.print})
		}); err != nil {
			return nil, fmt.Errorf("list the nodes with the taint of rule %s: %w", r.object.Name, err)
		}
		for i := range nodes.Items {
			names = append(names, nodes.Items[i].Name)
		}
	}
	return names, nil
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
