// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestABrokenWatchIsResumedAndOneThatIsTooOldStartsAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	brings := func(events ...watch.Event) watch.Interface {
		w := watch.NewFakeWithChanSize(len(events), false)
		for _, event := range events {
			w.Action(event.Type, event.Object)
		}
		w.Stop()
		return w
	}
	source := &interrupted{watches: []func() (watch.Interface, error){
		func() (watch.Interface, error) {
			return brings(watch.Event{Type: watch.Added, Object: podOf("a", "11")}), nil
		},
		func() (watch.Interface, error) {
			return brings(watch.Event{Type: watch.Bookmark, Object: podOf("a", "15")}), nil
		},
		func() (watch.Interface, error) {
			return brings(watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410}}), nil
		},
		func() (watch.Interface, error) { return nil, errors.New("the API server is down") },
		func() (watch.Interface, error) {
			cancel()
			return brings(), nil
		},
	}}
	noted := NewPods()
	Follow(ctx, source, noted)
	if want := []string{"10", "11", "15", "30", "40"}; !slices.Equal(source.opened, want) {
		t.Errorf("watches from versions %v, want %v", source.opened, want)
	}
	if all := slices.Collect(maps.Values(noted.known)); len(all) != 1 || len(all[0].Sightings) != 1 || all[0].Sightings[0].Pod.ResourceVersion != "11" {
		t.Errorf("noted %v, want the one event that is neither a bookmark nor an error", all)
	}
}

// interrupted is a source whose second list fails, and whose watches are given.
type interrupted struct {
	watches []func() (watch.Interface, error)
	lists   int
	opened  []string // from which versions
}

// List implements Source.
func (s *interrupted) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	s.lists++
	if s.lists == 2 {
		return nil, errors.New("the API server is down")
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.lists * 10)}}, nil
}

// Watch implements Source.
func (s *interrupted) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.opened = append(s.opened, options.ResourceVersion)
	return s.watches[len(s.opened)-1]()
}
