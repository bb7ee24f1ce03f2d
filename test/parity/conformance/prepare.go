// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// nodes are what the specs are played on. Two would do: one that is tainted, one that is not.
var nodes = []localcluster.NodeSpec{{Name: "node-1"}, {Name: "node-2"}, {Name: "node-3"}}

// agentName makes a node complete in the eyes of upstream. Before each spec it waits for a minute for three pods to run
// in kube-system on every node, by parts of their names, and continues without them after that.
const agentName = "kube-proxy-fluentd-elasticsearch-node-problem-detector"

const (
	// agentTimeout is generous: the machine may be busy with a build.
	agentTimeout = 2 * time.Minute
	agentPeriod  = 200 * time.Millisecond
)

// prepare gives the cluster its nodes, and each of them an agent that runs.
func prepare(ctx context.Context, cluster *localcluster.Cluster) error {
	if err := cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	daemons := client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	if _, err := daemons.Create(ctx, agents(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the agents of the nodes: %w", err)
	}
	if err := waitAgents(ctx, client); err != nil {
		return fmt.Errorf("wait for the agents of %d nodes: %w", len(nodes), err)
	}
	return nil
}

// agents is a DaemonSet that tolerates every taint, so that no spec disturbs it.
func agents() *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: agentName},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers:  []corev1.Container{{Name: "agent", Image: "agent"}},
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
}

func waitAgents(ctx context.Context, client kubernetes.Interface) error {
	return wait.PollUntilContextTimeout(ctx, agentPeriod, agentTimeout, true, func(ctx context.Context) (bool, error) {
		set, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return int(set.Status.NumberReady) == len(nodes), nil
	})
}
