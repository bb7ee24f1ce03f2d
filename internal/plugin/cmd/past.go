// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// runPast lists the evictions of the past.
func (o *leavingOptions) runPast(ctx context.Context) error {
	all, now, err := o.past(ctx)
	if err != nil {
		return err
	}
	since := now.Add(-o.since)
	list := &cliv1alpha1.EvictionList{
		TypeMeta: cliv1alpha1.Type("EvictionList"), At: metav1.NewMicroTime(now), Since: metav1.NewMicroTime(since),
		Evictions: slices.DeleteFunc(state.Past(all, since, o.namespace), func(e cliv1alpha1.Eviction) bool {
			return !o.nodes.All && !slices.Contains(o.nodes.Names, e.Node)
		}),
	}
	if printed, err := o.output.Object(list); printed {
		return err
	}
	o.printPast(list)
	return nil
}

// past reads what events say of evictions, and returns when it did.
func (o *leavingOptions) past(ctx context.Context) ([]cliv1alpha1.Eviction, time.Time, error) {
	if o.source.Offline() {
		cluster, err := o.source.Read(ctx, source.Wants{Evictor: true})
		if err != nil {
			return nil, time.Time{}, err
		}
		return cluster.Signs.Past, o.source.Now(cluster), nil
	}
	api, err := o.source.Connect()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer api.Progress.End()
	err = api.Past(ctx, o.namespace, "")
	return api.Cluster.Signs.Past, o.source.Env.Clock.Now(), err
}

func (o *leavingOptions) printPast(list *cliv1alpha1.EvictionList) {
	type row = *cliv1alpha1.Eviction
	pods, rows := 0, make([]row, 0, len(list.Evictions))
	for i := range list.Evictions {
		e := &list.Evictions[i]
		rows = append(rows, e)
		if !e.Cancelled {
			pods += e.Pods
		}
		if o.output.Format == show.Name && e.Name != "" {
			o.output.Line("%s", show.PodName(e.Namespace, e.Name))
		}
	}
	if o.output.Format == show.Name {
		return
	}
	if !o.output.NoHeaders {
		o.output.Line("%s evicted in the last %s, according to events, which the API server keeps for an hour by default.",
			sentence.Do(pods, "pod", "was", "were"), sentence.Duration(o.since))
	}
	if len(rows) == 0 {
		return
	}
	if !o.output.NoHeaders {
		o.output.Line("")
	}
	show.Table(&o.output, []show.Column[row]{
		{Title: "When", Cell: func(e row) string { return sentence.Between(e.At.Time, list.At.Time) + " ago" }},
		{Title: "Pod", Cell: func(e row) string {
			if e.Name == "" {
				return fmt.Sprintf("(%s)", sentence.Counted(e.Pods, "pod"))
			}
			return show.FullName(e.Namespace, e.Name)
		}},
		{Title: "What", Cell: func(e row) string {
			if e.Cancelled {
				return "cancelled"
			}
			return "evicted"
		}},
		{Title: "Node", Cell: func(e row) string { return e.Node }},
		{Title: "Taint", Cell: func(e row) string { return e.Taint }},
		{Title: "By", Cell: func(e row) string { return evictorName(e.By) }},
		{Title: "At", Wide: true, Cell: func(e row) string { return sentence.Absolute(e.At.Time) }},
		{Title: "Due", Wide: true, Cell: func(e row) string {
			if e.Due == nil {
				return ""
			}
			return sentence.Absolute(e.Due.Time)
		}},
	}, rows)
}

// evictorName names who wrote the event of an eviction.
func evictorName(by cliv1alpha1.Who) string {
	if by == cliv1alpha1.WhoTaintkeeper {
		return "Taintkeeper"
	}
	return builtin.Program
}

// evicted returns the newest of some evictions that made the pod leave, or nil.
func (w *wanted) evicted(past []cliv1alpha1.Eviction) *cliv1alpha1.Eviction {
	for _, e := range slices.Backward(state.Past(past, time.Time{}, w.namespace)) {
		if !e.Cancelled && e.Name == w.name {
			return &e
		}
	}
	return nil
}
