// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explaincmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/selection"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// wanted is the pod to explain, given by its name or by its workload.
type wanted struct {
	kind, name string
	namespace  string   // empty means all namespaces
	notes      []string // which of several pods it is
}

const kindPod = "Pod"

// kinds are the workloads whose pods can be explained, under the names that kubectl accepts.
var kinds = map[string]string{
	"pod": kindPod, "pods": kindPod, "po": kindPod,
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"job": "Job", "jobs": "Job",
	"replicationcontroller": "ReplicationController", "replicationcontrollers": "ReplicationController",
	"rc": "ReplicationController",
}

// wantedOf accepts NAME, KIND/NAME and KIND NAME, as kubectl does, and NAMESPACE/NAME, as tables show it.
func wantedOf(args []string) (wanted, error) {
	const advice = "name one, as POD, NAMESPACE/POD or WORKLOAD/NAME"
	if len(args) == 2 && kinds[args[0]] != "" {
		args = []string{args[0] + "/" + args[1]}
	}
	switch {
	case len(args) == 0:
		return wanted{}, command.Usagef("no pod is given: %s", advice)
	case len(args) > 1:
		return wanted{}, command.Usagef("explain takes one pod, not %d", len(args))
	}
	first, name, ok := strings.Cut(args[0], "/")
	switch {
	case !ok:
		return wanted{kind: kindPod, name: first}, nil
	case kinds[first] != "":
		return wanted{kind: kinds[first], name: name}, nil
	case slices.Contains(selection.NodeWords, first):
		return wanted{}, command.Usagef("%q does not name a pod: %s", args[0], advice)
	}
	return wanted{kind: kindPod, namespace: first, name: name}, nil
}

// among finds the pod in a cluster.
func (w *wanted) among(cluster *state.Cluster, now time.Time) (*corev1.Pod, error) {
	var found []*corev1.Pod
	var names, namespaces []string
	for _, pod := range cluster.Pods {
		if w.namespace != "" && pod.Namespace != w.namespace {
			continue
		}
		names = append(names, pod.Name)
		if w.is(cluster, pod) {
			found = append(found, pod)
			if !slices.Contains(namespaces, pod.Namespace) {
				namespaces = append(namespaces, pod.Namespace)
			}
		}
	}
	switch {
	case len(found) == 0 && w.kind != kindPod:
		return nil, fmt.Errorf("%s %s has no pods%s", w.kind, w.name, w.where())
	case len(found) == 0:
		return nil, fmt.Errorf("there is no pod %q%s%s", w.name, w.where(), command.DidYouMean(w.name, names))
	case len(namespaces) > 1:
		return nil, fmt.Errorf("there is a %s %q in each of the namespaces %s: choose one with -n",
			strings.ToLower(w.kind), w.name, sentence.Enumerate(namespaces))
	case len(found) > 1:
		return w.soonest(cluster, found, now), nil
	}
	return found[0], nil
}

// is reports whether a pod has the wanted name, or belongs to the wanted workload.
func (w *wanted) is(cluster *state.Cluster, pod *corev1.Pod) bool {
	if w.kind == kindPod {
		return pod.Name == w.name
	}
	owner, controller := cluster.Owner(pod), metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == w.kind && owner.Name == w.name ||
		controller != nil && controller.Kind == w.kind && controller.Name == w.name
}

func (w *wanted) where() string {
	if w.namespace == "" {
		return " in any namespace"
	}
	return " in namespace " + w.namespace
}

// soonest returns the pod of a workload that leaves first, and notes which others exist.
func (w *wanted) soonest(cluster *state.Cluster, pods []*corev1.Pod, now time.Time) *corev1.Pod {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	first, does := pods[0], sentence.Agree(len(pods)-1, "neither of which leaves", "none of which leaves")
	pending := plan.Pending{}.In(state.LiveOf(cluster.Evictor, cluster.Nodes, pods, now), now).Pods
	if len(pending) > 0 {
		does = "and this one leaves first"
		first = pods[slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == pending[0].UID })]
	}
	var others []string
	for _, pod := range pods {
		if pod != first {
			others = append(others, pod.Name)
		}
	}
	w.notes = append(w.notes, fmt.Sprintf("%s %s has %d pods, %s. %s: %s.",
		w.kind, output.FullName(first.Namespace, w.name), len(pods), does,
		sentence.Agree(len(others), "The other", "The others"), sentence.Some(others)))
	return first
}
