// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	controllerManager = "kube-controller-manager"
	// rivalSeenFor is how long after a write the built-in node-lifecycle-controller counts as running.
	rivalSeenFor = 10 * time.Minute
	// rivalLookEvery is how often the leader looks for it again, so that each of its writes is seen.
	rivalLookEvery = rivalSeenFor / 2
	// adviceOnRival says what to do about it.
	adviceOnRival = "switch the built-in off with kube-controller-manager --controllers=*,-node-lifecycle-controller, wait ten minutes, and start again"
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
		List(ctx, metav1.ListOptions{LabelSelector: "component=" + controllerManager})
	if err != nil {
		return "", fmt.Errorf("look for the pods of kube-controller-manager: %w", err)
	}
	for i := range pods.Items {
		if runsNodeLifecycle(&pods.Items[i]) {
			return fmt.Sprintf("pod %s/%s runs kube-controller-manager without --controllers=*,-node-lifecycle-controller", pods.Items[i].Namespace, pods.Items[i].Name), nil
		}
	}
	if len(pods.Items) > 0 {
		return "", nil
	}
	const page = 500
	for options := (metav1.ListOptions{Limit: page}); ; {
		nodes, err := r.nodes.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("look for what kube-controller-manager has written to nodes: %w", err)
		}
		for i := range nodes.Items {
			if at, ok := writtenByNodeLifecycle(&nodes.Items[i]); ok && now.Sub(at) < rivalSeenFor {
				return fmt.Sprintf("kube-controller-manager wrote the taints or conditions of node %s at %s", nodes.Items[i].Name, at.UTC().Format(time.RFC3339)), nil
			}
		}
		if options.Continue = nodes.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

// runsNodeLifecycle reports whether a pod's command line runs kube-controller-manager with the controller on.
func runsNodeLifecycle(pod *corev1.Pod) bool {
	for _, container := range pod.Spec.Containers {
		command := slices.Concat(container.Command, container.Args)
		if !slices.ContainsFunc(command, func(word string) bool { return strings.HasSuffix(word, controllerManager) }) {
			continue
		}
		list := []string{"*"}
		for _, word := range command {
			if value, ok := strings.CutPrefix(word, "--controllers="); ok {
				list = strings.Split(value, ",")
			}
		}
		return switchedOn("node-lifecycle-controller", list) && switchedOn("nodelifecycle", list)
	}
	return false
}

// switchedOn reports whether a list in kube-controller-manager's syntax switches a controller on.
func switchedOn(controller string, list []string) bool {
	for _, item := range list {
		switch item {
		case controller:
			return true
		case "-" + controller:
			return false
		}
	}
	return slices.Contains(list, "*")
}

// writtenByNodeLifecycle returns when kube-controller-manager last wrote taints or conditions of a node. Of its
// controllers only this one does.
func writtenByNodeLifecycle(node *metav1.PartialObjectMetadata) (time.Time, bool) {
	var last time.Time
	for _, entry := range node.ManagedFields {
		if entry.Manager != controllerManager || entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				Taints json.RawMessage `json:"f:taints"`
			} `json:"f:spec"`
			Status struct {
				Conditions json.RawMessage `json:"f:conditions"`
			} `json:"f:status"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if (fields.Spec.Taints != nil || fields.Status.Conditions != nil) && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last, !last.IsZero()
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
			return fmt.Errorf("node-health cannot run next to the built-in node-lifecycle-controller, which is running: %s; this process exits, and the next leaves node-health out, or exits if it has no other controller: %s", seen, adviceOnRival)
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

// HasSynced reports that it waits for nothing.
func (w rivalWatch) HasSynced() bool { return true }
