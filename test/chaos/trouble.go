// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// troublemaker changes taints and pods at random, directly at the API server.
type troublemaker struct {
	client   kubernetes.Interface
	observer *observer
	random   *rand.Rand
	nodes    []string
	series   string // begins the names of its pods
	made     int    // pods, for their names
}

// mostPods limits how many pods exist at the same time, in addition to those of a crowd.
const mostPods = 110

// deed is one thing that the troublemaker does, and how often compared with the others.
type deed struct {
	weight int
	do     func(context.Context) error
}

// users are those who taint nodes and run pods.
func (t *troublemaker) users() []deed {
	return []deed{
		{weight: 20, do: t.taint},
		{weight: 17, do: t.untaint},
		{weight: 4, do: t.retime},
		{weight: 4, do: t.taintAgain},
		{weight: 30, do: t.createPod},
		{weight: 5, do: t.deletePod},
		{weight: 7, do: t.replacePod},
		{weight: 6, do: t.tolerateMore},
		{weight: 7, do: t.tolerateOtherwise},
	}
}

// run makes trouble until the context ends.
func (t *troublemaker) run(ctx context.Context, deeds []deed) error {
	total := 0
	for _, d := range deeds {
		total += d.weight
	}
	for ctx.Err() == nil {
		if err := t.do(ctx, deeds, t.random.IntN(total)); err != nil && ctx.Err() == nil {
			return err
		}
		pause(ctx, time.Duration(20+t.random.IntN(160))*time.Millisecond)
	}
	return nil
}

func (t *troublemaker) do(ctx context.Context, deeds []deed, drawn int) error {
	for _, d := range deeds {
		if drawn < d.weight {
			return d.do(ctx)
		}
		drawn -= d.weight
	}
	return nil
}

// persist makes a call until the API server has answered it, for as long as the context lasts. That an object is gone,
// is there already or has changed meanwhile is an answer.
func persist(ctx context.Context, what string, call func(context.Context) error) error {
	const again = 200 * time.Millisecond
	for {
		err := once(ctx, call)
		var status apierrors.APIStatus
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			return nil
		case errors.As(err, &status) && status.Status().Code < 500 && status.Status().Code != 429 &&
			!apierrors.IsForbidden(err):
			return fmt.Errorf("%s: %w", what, err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pause(ctx, again) // the API server is down, or coming up
	}
}

func once(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

func (t *troublemaker) chance(share float64) bool { return t.random.Float64() < share }

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// change changes the taints of a node that is picked at random, under an optimistic lock.
func (t *troublemaker) change(ctx context.Context, change func([]corev1.Taint) []corev1.Taint) error {
	return t.changeNode(ctx, pick(t.random, t.nodes...), change)
}

func (t *troublemaker) changeNode(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) error {
	return persist(ctx, "change the taints of node "+name, func(ctx context.Context) error {
		node, err := t.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		_, err = t.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
