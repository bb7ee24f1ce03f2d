// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// holdPlayground starts workloads, says how to use the cluster, and keeps it and its board until ctx ends.
func holdPlayground(ctx context.Context, s *stage) error {
	if err := s.startWorkloads(ctx); err != nil {
		return err
	}
	return s.withBoard(ctx, func(address string) error {
		s.sayPlayground(address)
		return s.keepUp(ctx)
	})
}

// startWorkloads returns once all their pods run.
func (s *stage) startWorkloads(ctx context.Context) error {
	progress("adding %d nodes in three zones, and workloads ...", len(fleet))
	if err := s.cluster.AddNodes(ctx, fleet...); err != nil {
		return err
	}
	writer, err := client.New(s.cluster.AdminConfig(), client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, object := range workloads() {
		if err := writer.Create(ctx, object); err != nil {
			return fmt.Errorf("create the workloads: %w", err)
		}
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		running := metav1.ListOptions{FieldSelector: "status.phase=Running"}
		pods, err := s.Client().CoreV1().Pods(namespace).List(ctx, running)
		if err == nil && len(pods.Items) != podCount() {
			err = fmt.Errorf("%d of %d pods are running", len(pods.Items), podCount())
		}
		return err
	})
}

// sayPlayground says how to use the cluster.
func (s *stage) sayPlayground(board string) {
	s.title("The playground is open. Ctrl-C closes it.")
	s.say("")
	s.say("%sKubernetes %s with %d simulated nodes and %d pods in namespace %s; taintkeeper does the evictions, and taints silent nodes.", indent, s.Version, len(fleet), podCount(), namespace)
	s.say("")
	s.say("%sIts taints on one live page, in a browser (kubectl taintkeeper board):", indent)
	s.say("")
	s.say("%s%s", indent, board)
	s.say("")
	s.say("%sexport KUBECONFIG=%s", indent, s.kubeconfig)
	for _, hint := range s.hints() {
		s.say("")
		s.say("%s# %s", indent, hint.what)
		s.say("%s%s", indent, hint.command)
	}
}

// keepUp starts taintkeeper again whenever it ends, until ctx ends.
func (s *stage) keepUp(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.keeper.Ended():
			if err := s.startAgain(ctx); err != nil {
				return err
			}
		}
	}
}

// startAgain starts taintkeeper again after the user has stopped it to see what a restart does.
func (s *stage) startAgain(ctx context.Context) error {
	if err := s.keeper.Kill(); err != nil {
		return err
	}
	if err := s.startKeeper(ctx); err != nil {
		return err
	}
	s.say("")
	s.say("%staintkeeper exited and is running again; its metrics are now at %s", indent, s.keeper.MetricsURL())
	return nil
}

type hint struct{ what, command string }

func (s *stage) hints() []hint {
	taint := "kubectl taint node " + west1 + " "
	label := "kubectl label node " + north1 + " " + north2 + " "
	return []hint{
		{"the pods and their nodes, as they come and go", fmt.Sprintf("kubectl get pods -n %s -o wide --watch", namespace)},
		{"a maintenance: web tolerates it for 5 s, db for 6 s", taint + "maintenance=soon:NoSchedule maintenance=soon:NoExecute"},
		{"it is over; what is still pending is cancelled", taint + "maintenance-"},
		{"the kubelets of a zone fall silent", label + localcluster.SilenceLabel},
		{"and come back (unlike kubelets, kwok does not set their pods' Ready again)", label + localcluster.ResumeLabel},
		{"why a node waits for its NoExecute taint", "kubectl get events --field-selector reason=NoExecuteTaintHeld"},
		{"to have rules for other conditions of nodes (docs/node-taint-rules.md)", "kubectl apply -f config/crd.yaml"},
		{"urgent: only the node agent tolerates this", taint + "power=off:NoExecute"},
		{"and back", taint + "power-"},
		{"what taintkeeper says about the pods", fmt.Sprintf("kubectl get events -n %s --field-selector reason=TaintManagerEviction", namespace)},
		{"why a pod leaves, while it does (simulated pods are gone at once, so watch)", fmt.Sprintf(`kubectl get pods -n %s --watch -o jsonpath='{.metadata.name}: {.status.conditions[?(@.type=="DisruptionTarget")].reason}{"\n"}'`, namespace)},
		{"its log, a line per eviction", "tail -f " + s.keeper.LogPath()},
		{"its metrics", "curl -s " + s.keeper.MetricsURL() + " | grep -aE '^(taint|node_collector)'"},
		{"it is started again when it ends", fmt.Sprintf("kill %d", s.keeper.PID())},
		{"whether it is ready", "curl " + s.keeper.ReadyURL()},
	}
}
