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
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// pastOf reads what events say of evictions, and returns when it did. A cluster is asked only for pods with a name, if
// there is one.
func pastOf(ctx context.Context, s *source.Source, namespace, pod string) ([]cliv1alpha1.Eviction, time.Time, error) {
	if s.Offline() {
		cluster, err := s.Read(ctx, source.Wants{Evictor: true})
		if err != nil {
			return nil, time.Time{}, err
		}
		return cluster.Signs.Past, s.Now(cluster), nil
	}
	api, err := s.Connect()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer api.Progress.End()
	err = api.Past(ctx, namespace, pod)
	return api.Cluster.Signs.Past, s.Env.Clock.Now(), err
}

// runPast lists the evictions of the past.
func (o *leavingOptions) runPast(ctx context.Context) error {
	all, now, err := pastOf(ctx, &o.source, o.namespace, "")
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
	return "kube-controller-manager"
}

// gone explains a pod that does not exist, from the newest event of its eviction. It returns nil if there is none.
func (o *whyOptions) gone(ctx context.Context) *cliv1alpha1.Explanation {
	all, now, err := pastOf(ctx, &o.source, o.wanted.namespace, o.wanted.name)
	if err != nil {
		return nil // that the pod does not exist is what counts
	}
	all = slices.DeleteFunc(state.Past(all, time.Time{}, o.wanted.namespace), func(e cliv1alpha1.Eviction) bool {
		return e.Cancelled || e.Name != o.wanted.name
	})
	if len(all) == 0 {
		return nil
	}
	return explain.Gone(all[len(all)-1], now)
}
