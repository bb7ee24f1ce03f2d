// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// longTime is a toleration in seconds that outlasts every scenario.
const longTime = 600

// part is one of several things that a scenario plays side by side, each with a pod of its own.
type part struct {
	what string
	play func(context.Context, *scene) (departure, error)
}

// playParts plays them and tells of each.
func (s *scene) playParts(ctx context.Context, parts ...part) (finding, error) {
	departures := make([]departure, len(parts))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range parts {
		group.Go(func() (err error) {
			departures[i], err = p.play(ctx, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return finding{}, err
	}
	all := finding{right: true}
	for i, d := range departures {
		all = all.and(parts[i].what+": "+d.String(), d.right())
	}
	return all, nil
}

// playChanges is four scenarios side by side, each with a pod whose deadline changes after the taint is there.
func playChanges(ctx context.Context, s *scene) (finding, error) {
	return s.playParts(ctx,
		part{"second, shorter taint", playSecondTaint},
		part{"shorter one removed", playRemovedTaint},
		part{"seconds shortened", playShortenedSeconds},
		part{"seconds lengthened", playLengthenedSeconds},
	)
}

func playSecondTaint(ctx context.Context, s *scene) (departure, error) {
	pod, err := s.lonelyPod(ctx, "second", rig.Tolerating("long", longTime), rig.Tolerating("short", 3))
	if err != nil {
		return departure{}, err
	}
	if _, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("long")); err != nil {
		return departure{}, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return departure{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("short"))
	if err != nil {
		return departure{}, err
	}
	return s.observer.departure(ctx, pod, began, 3*time.Second, 15*time.Second)
}

func playRemovedTaint(ctx context.Context, s *scene) (departure, error) {
	pod, err := s.lonelyPod(ctx, "removed", rig.Tolerating("long", 15), rig.Tolerating("short", 5))
	if err != nil {
		return departure{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("long"), rig.NoExecute("short"))
	if err != nil {
		return departure{}, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return departure{}, err
	}
	if _, err := s.untaint(ctx, pod.Spec.NodeName, "short"); err != nil {
		return departure{}, err
	}
	return s.observer.departure(ctx, pod, began, 15*time.Second, 20*time.Second)
}

func playShortenedSeconds(ctx context.Context, s *scene) (departure, error) {
	return s.playChangedSeconds(ctx, "shortened", longTime, 5)
}

func playLengthenedSeconds(ctx context.Context, s *scene) (departure, error) {
	return s.playChangedSeconds(ctx, "lengthened", 5, 15)
}

// playChangedSeconds changes the seconds of a toleration while they run.
func (s *scene) playChangedSeconds(ctx context.Context, name string, before, after int64) (departure, error) {
	pod, err := s.lonelyPod(ctx, name, rig.Tolerating("long", before))
	if err != nil {
		return departure{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("long"))
	if err != nil {
		return departure{}, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return departure{}, err
	}
	if err := s.setSeconds(ctx, pod, after); err != nil {
		return departure{}, err
	}
	return s.observer.departure(ctx, pod, began, time.Duration(after)*time.Second, 20*time.Second)
}

// setSeconds changes the tolerationSeconds of a pod's own toleration, the first.
func (s *scene) setSeconds(ctx context.Context, pod *corev1.Pod, seconds int64) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := s.admin.CoreV1().Pods(s.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Spec.Tolerations[0].TolerationSeconds = &seconds
		_, err = s.admin.CoreV1().Pods(s.Namespace).Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the toleration of pod %s: %w", pod.Name, err)
	}
	return nil
}

// playOverflow has a toleration of 585 years, which in nanoseconds is more than 64 bits hold.
func playOverflow(ctx context.Context, s *scene) (finding, error) {
	pod, err := s.lonelyPod(ctx, "patient", rig.Tolerating("gone", 18_446_744_074))
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, began, never, 10*time.Second)
	return d.finding(), err
}

// playRestart restarts the contestant while a countdown runs.
func playRestart(ctx context.Context, s *scene) (finding, error) {
	const tolerated = 15 * time.Second
	pod, err := s.lonelyPod(ctx, "counted", rig.Tolerating("gone", int64(tolerated.Seconds())))
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	if err := pause(ctx, tolerated/3); err != nil {
		return finding{}, err
	}
	if err := s.restart(ctx); err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, began, tolerated, time.Minute)
	return d.finding(), err
}
