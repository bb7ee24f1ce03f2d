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
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func podOf(uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), Namespace: "n", UID: uid, ResourceVersion: version}}
}

func terminating(uid types.UID, version string) *corev1.Pod {
	pod := podOf(uid, version)
	pod.DeletionTimestamp = new(metav1.Now())
	return pod
}

func TestABrokenWatchIsResumedAndOneThatIsTooOldStartsAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	down := errors.New("the API server is down")
	brings := func(what watch.EventType, object *corev1.Pod) watch.Interface {
		w := watch.NewFakeWithChanSize(1, false)
		w.Action(what, object)
		w.Stop()
		return w
	}
	tooOld := watch.NewFakeWithChanSize(1, false)
	tooOld.Error(&metav1.Status{Code: 410})
	tooOld.Stop()
	last := watch.NewFake()
	last.Stop()
	source := &interrupted{
		watches: []watch.Interface{brings(watch.Added, podOf("a", "11")), brings(watch.Bookmark, podOf("a", "15")), tooOld, nil, last},
		down:    down, end: cancel,
	}
	noted := NewPods()
	Follow(ctx, source, noted)
	if want := []string{"10", "11", "15", "30", "40"}; !slices.Equal(source.opened, want) {
		t.Errorf("watches from versions %v, want %v", source.opened, want)
	}
	if all := slices.Collect(maps.Values(noted.known)); len(all) != 1 || len(all[0].Sightings) != 1 || all[0].Sightings[0].Pod.ResourceVersion != "11" {
		t.Errorf("noted %v, want the one event that is neither a bookmark nor an error", all)
	}
}

// interrupted is a source whose second list fails, and whose watches are given; nil is one that cannot be opened. With
// the last, the observation ends.
type interrupted struct {
	watches []watch.Interface
	down    error
	end     func()
	lists   int
	opened  []string // from which versions
}

// List implements Source.
func (s *interrupted) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	s.lists++
	if s.lists == 2 {
		return nil, s.down
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.lists * 10)}}, nil
}

// Watch implements Source.
func (s *interrupted) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.opened = append(s.opened, options.ResourceVersion)
	next := s.watches[len(s.opened)-1]
	if next == nil {
		return nil, s.down
	}
	if len(s.opened) == len(s.watches) {
		s.end()
	}
	return next, nil
}

func TestAPodHasLeftWhenItIsFirstSeenTerminatingOrIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := NewPods(), time.Now()
		after := func(d time.Duration, see func()) { time.AfterFunc(d, see) }
		p.Listed([]*corev1.Pod{podOf("a", "1"), podOf("b", "1"), podOf("c", "1"), podOf("stays", "1")})
		after(3*time.Second, func() { p.Changed(watch.Modified, terminating("a", "2")) })
		after(4*time.Second, func() { p.Changed(watch.Modified, terminating("a", "3")) })
		after(5*time.Second, func() { p.Changed(watch.Deleted, terminating("a", "4")) })
		after(6*time.Second, func() { p.Changed(watch.Deleted, podOf("b", "2")) })
		after(7*time.Second, func() { p.Listed([]*corev1.Pod{podOf("stays", "1")}) }) // c is gone, the rest is known
		after(8*time.Second, func() { p.Listed([]*corev1.Pod{podOf("stays", "1")}) })
		for _, step := range []struct {
			pods      []*corev1.Pod
			remaining int
			at        time.Duration
		}{
			{[]*corev1.Pod{podOf("a", "")}, 0, 3 * time.Second},
			{[]*corev1.Pod{podOf("a", ""), podOf("b", ""), podOf("c", "")}, 0, 7 * time.Second},
			{[]*corev1.Pod{podOf("a", ""), podOf("stays", "")}, 1, time.Minute}, // the end of the wait
		} {
			n, err := p.Await(t.Context(), start.Add(time.Minute), step.pods...)
			if n != step.remaining || err != nil || time.Since(start) != step.at {
				t.Errorf("%d remain after %s, %v, want %+v", n, time.Since(start), err, step)
			}
		}
		for uid, left := range map[types.UID]time.Duration{"a": 3 * time.Second, "b": 6 * time.Second, "c": 7 * time.Second} {
			if at, ok := p.Left(uid); !ok || at.Sub(start) != left {
				t.Errorf("%s left after %s, want %s", uid, at.Sub(start), left)
			}
		}
		if got := p.Of("a"); len(got.Sightings) != 3 || got.Gone.Sub(start) != 5*time.Second {
			t.Errorf("of a was seen: %v", got)
		}
		if _, left := p.Left("stays"); left || len(p.Of("stays").Sightings) != 1 {
			t.Errorf("of the pod that stays was seen: %v", p.Of("stays"))
		}
	})
}
