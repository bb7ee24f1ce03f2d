// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observer watches a cluster from outside and remembers when it saw what. It uses the API server directly,
// shares nothing with what it observes, and continues after an outage as soon as the API server does.
package observer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// again is how soon a list or a watch that failed is tried again.
	again = 100 * time.Millisecond
	// listTimeout bounds a list: an API server without etcd answers late.
	listTimeout = 5 * time.Second
)

// Source lists and watches objects of one kind, as client-go's clients do.
type Source[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Notes records what is seen of objects. Its methods are called one after the other.
type Notes[O runtime.Object] interface {
	// Listed is called with all objects, at the beginning and after each gap.
	Listed(all []O)
	// Changed is called with each change that the watch brings.
	Changed(event watch.EventType, object O)
}

// Follow lists, and watches from there on, until the context ends. A watch that ends is resumed where it ended if the
// API server can do that. Errors are the outages that it must survive.
func Follow[L, O runtime.Object](ctx context.Context, source Source[L], notes Notes[O]) {
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			from = list(ctx, source, notes)
		}
		if from == "" {
			pause(ctx)
			continue
		}
		w, err := source.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			from = ""
			pause(ctx)
			continue
		}
		from = read(w, from, notes)
	}
}

// list notes all objects, and returns the version of the list, empty if there is none.
func list[L, O runtime.Object](ctx context.Context, source Source[L], notes Notes[O]) string {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := source.List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	var all []O
	err = meta.EachListItem(list, func(object runtime.Object) error {
		all = append(all, object.(O))
		return nil
	})
	if err != nil {
		return ""
	}
	notes.Listed(all)
	return version(list)
}

// read notes the events of a watch to its end. It returns the version from which to watch on, empty if there is none.
func read[O runtime.Object](w watch.Interface, from string, notes Notes[O]) string {
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(O)
		if event.Type == watch.Error || !ok {
			return ""
		}
		from = version(object)
		if event.Type != watch.Bookmark {
			notes.Changed(event.Type, object)
		}
	}
	return from
}

// version returns the version of an object or of a list.
func version(of runtime.Object) string {
	common, err := meta.CommonAccessor(of)
	if err != nil {
		return ""
	}
	return common.GetResourceVersion()
}

func pause(ctx context.Context) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
