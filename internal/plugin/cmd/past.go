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
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// pastOf reads what events say of evictions, of all pods or of those with one name, and the instant at which it did.
func pastOf(ctx context.Context, s *source.Source, namespace, pod string) ([]cliv1alpha1.Eviction, time.Time, error) {
	if s.Offline() {
		cluster, err := s.Read(ctx, source.Wants{Evictor: true})
		if err != nil {
			return nil, time.Time{}, err
		}
		all := slices.DeleteFunc(slices.Clone(cluster.Signs.Past), func(e cliv1alpha1.Eviction) bool { return pod != "" && e.Name != pod })
		return all, s.Now(cluster), nil
	}
	config, err := s.RESTConfig()
	if err != nil {
		return nil, time.Time{}, err
	}
	api, err := source.Connect(config, output.NewProgress(s.Env))
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
	return o.printPast(list)
}

func (o *leavingOptions) printPast(list *cliv1alpha1.EvictionList) error {
	now, pods := list.At.Time, 0
	rows := make([][]any, 0, len(list.Evictions))
	for i := range list.Evictions {
		e := &list.Evictions[i]
		name := output.FullName(e.Namespace, e.Name)
		if e.Name == "" {
			name = fmt.Sprintf("(%s)", sentence.Counted(e.Pods, "pod"))
		}
		by, due := "Taintkeeper", ""
		if e.By == cliv1alpha1.WhoBuiltIn {
			by = "kube-controller-manager"
		}
		if e.Due != nil {
			due = output.Absolute(e.Due.Time)
		}
		what := "evicted"
		if e.Cancelled {
			what = "cancelled"
		} else {
			pods += e.Pods
		}
		rows = append(rows, []any{output.Span(e.At.Time, now) + " ago", name, what, e.Node, e.Taint, by, output.Absolute(e.At.Time), due})
		if o.output.Format == output.Name && e.Name != "" {
			o.output.Line("%s", output.PodName(e.Namespace, e.Name))
		}
	}
	if o.output.Format == output.Name {
		return nil
	}
	if !o.output.NoHeaders {
		o.output.Line("%s evicted in the last %s, according to events, which the API server keeps for an hour by default.",
			sentence.Do(pods, "pod", "was", "were"), sentence.Duration(o.since))
	}
	if len(rows) == 0 {
		return nil
	}
	if !o.output.NoHeaders {
		o.output.Line("")
	}
	return o.output.Table([]string{"When", "Pod", "What", "Node", "Taint", "By", "+At", "+Due"}, rows)
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
