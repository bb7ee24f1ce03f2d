// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
)

const (
	// rivalLookEvery is how often the leader looks for the built-in node-lifecycle-controller again, so that each of
	// its writes is seen.
	rivalLookEvery = builtin.Recent / 2
	// adviceOnRival says what to do about it.
	adviceOnRival = "switch the built-in controller off with kube-controller-manager --controllers=*,-node-lifecycle-controller, wait ten minutes, and start again"
)

// rivals looks for a built-in node-lifecycle-controller.
type rivals struct {
	client kubernetes.Interface
	nodes  metadata.Interface // reads only the metadata of nodes
}

func newRivals(client kubernetes.Interface, config *rest.Config) (rivals, error) {
	nodes, err := metadata.NewForConfig(config)
	return rivals{client, nodes}, err
}

// find looks for signs that the built-in node-lifecycle-controller runs, and describes the first that it finds; "" if
// there is none. Two controllers would taint nodes at twice the rate and remove each other's taints. No admission
// policy can prevent that as it does for evictions, because a removed taint leaves no timestamp to decide by.
func (r rivals) find(ctx context.Context, now time.Time) (string, error) {
	pods, err := r.client.CoreV1().Pods(metav1.NamespaceSystem).
		List(ctx, metav1.ListOptions{LabelSelector: "component=" + builtin.Program})
	if err != nil {
		return "", fmt.Errorf("look for the pods of kube-controller-manager: %w", err)
	}
	off := false
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch words := builtin.CommandLine(pod); {
		case words == nil:
		case builtin.NodeLifecycle.RunsWith(words):
			return fmt.Sprintf("pod %s/%s runs kube-controller-manager without --controllers=*,-node-lifecycle-controller", pod.Namespace, pod.Name), nil
		default:
			off = true
		}
	}
	if off {
		return "", nil
	}
	return r.writer(ctx, now)
}

// writer looks for a node that the built-in has written recently.
func (r rivals) writer(ctx context.Context, now time.Time) (string, error) {
	const page = 500
	for options := (metav1.ListOptions{Limit: page}); ; {
		nodes, err := r.nodes.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("look for what kube-controller-manager has written to nodes: %w", err)
		}
		for i := range nodes.Items {
			at := builtin.LastWrite(nodes.Items[i].ManagedFields, builtin.Program, builtin.Taints, builtin.Conditions)
			if !at.IsZero() && now.Sub(at) < builtin.Recent {
				return fmt.Sprintf("kube-controller-manager wrote the taints or conditions of node %s at %s", nodes.Items[i].Name, at.UTC().Format(time.RFC3339)), nil
			}
		}
		if options.Continue = nodes.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

// rivalWatch looks for the built-in node-lifecycle-controller when this process begins to lead, because a standby can
// wait for days, and then periodically. One that was not visible is found when it writes its first taint or condition.
type rivalWatch struct {
	rivals

	log logr.Logger
}

// Run returns an error, which ends the process, when it sees the built-in. The next process sees the built-in at its
// start, and leaves node-health out.
func (w rivalWatch) Run(ctx context.Context) error {
	looks := time.NewTicker(rivalLookEvery)
	defer looks.Stop()
	for {
		seen, err := w.find(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			w.log.Info("Cannot look for a built-in node-lifecycle-controller, will retry", "error", err.Error(), "in", rivalLookEvery.String())
		case seen != "":
			return fmt.Errorf("node-health cannot run alongside the built-in node-lifecycle-controller, which is running: %s; this process exits, and the next leaves node-health out, or exits if it has no other controller: %s", seen, adviceOnRival)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-looks.C:
		}
	}
}

// AddTo adds it to a manager: the leader looks.
func (w rivalWatch) AddTo(mgr manager.Manager) error { return mgr.Add(manager.RunnableFunc(w.Run)) }
