// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestPodsThatNameATaintedNodeAreFound(t *testing.T) {
	created := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	template := func(name string, change ...func(*corev1.Pod)) sign {
		return func(cluster *state.Cluster) {
			cluster.Workloads = append(cluster.Workloads, state.WorkloadTemplate{
				CheckedObject: cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "CronJob", Name: "w"}}, Replicas: 1, Pod: pod("w", append(change, alone, on(name))...),
			})
		}
	}
	running := func(change ...func(*corev1.Pod)) sign {
		return func(cluster *state.Cluster) { cluster.Pods = append(cluster.Pods, pod("p", change...)) }
	}
	nodes := func(specs ...string) sign {
		return func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{node("n", specs...)} }
	}
	const taint, stamped = "k=v:NoExecute", "k=v:NoExecute since 8:00"
	for name, test := range map[string]struct {
		cluster []sign
		want    is
	}{
		"a template, without its node":   {[]sign{template("n")}, warningThat("Its template names node n, so the scheduler does not keep its pods off")},
		"a template, with a clean node":  {[]sign{template("n"), nodes("k:NoSchedule")}, warningThat("names node n")},
		"a template, with a tainted one": {[]sign{template("n"), nodes(taint)}, errorThat("Its template names node n, and does not tolerate taint k=v:NoExecute of that node")},
		"one that tolerates":             {[]sign{template("n", tolerating(everything)), nodes(taint)}, warningThat("names node n")},
		"a template that names none":     {[]sign{template(""), nodes(taint)}, nothing},
		"a pod younger than the taint":   {[]sign{running(created(time.Minute)), nodes(stamped)}, errorThat("created on node n although they do not tolerate taint k=v:NoExecute, which was added before")},
		"an older pod":                   {[]sign{running(created(2 * time.Hour)), nodes(stamped)}, nothing},
		"one just before the scheduler knew": {
			[]sign{running(created(time.Hour - 9*time.Second)), nodes(stamped)}, nothing,
		},
		"a pod that tolerates":     {[]sign{running(created(time.Minute), tolerating(everything)), nodes(stamped)}, nothing},
		"without timeAdded":        {[]sign{running(created(time.Minute)), nodes(taint)}, nothing},
		"a pod without controller": {[]sign{running(created(time.Minute), alone), nodes(stamped)}, nothing},
		"a static pod":             {[]sign{running(created(time.Minute), static), nodes(stamped)}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "names-node", clusterWith(test.cluster...)))
		})
	}
}
