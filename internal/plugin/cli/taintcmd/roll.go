// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

func (o *options) validateMaxUnavailable() error {
	switch {
	case o.maxUnavailable < 0:
		return command.Usagef("--max-unavailable=%d: it cannot be less than 0", o.maxUnavailable)
	case o.maxUnavailable == 0:
		return nil
	case o.wait:
		return command.Usagef("--max-unavailable=%d waits after each group of nodes: remove --wait", o.maxUnavailable)
	case o.lasts != 0:
		return command.Usagef("--for=%s starts at the same time for all nodes, but --max-unavailable taints them at different times: remove one of the two", o.lasts)
	}
	return nil
}

// roll changes --max-unavailable nodes at a time, and continues when their pods run elsewhere. An interrupt takes
// effect between nodes, so that no node is left tainted while its pods run nowhere.
func (t *tainting) roll(ctx context.Context, nodes []*corev1.Node) ([]changed, error) {
	if t.maxUnavailable == 0 {
		return t.apply(ctx, nodes)
	}
	var done []changed
	for batch := range slices.Chunk(nodes, t.maxUnavailable) {
		if apicall.Stopping(ctx) {
			return done, fmt.Errorf("interrupted: %s", progressOf(nodes, done))
		}
		others := slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return slices.Contains(batch, node) })
		standing := progressOf(others, done)
		stopNotice := context.AfterFunc(ctx, func() {
			t.tell("Interrupted: the command ends when the pods of %s run elsewhere (%s). Interrupt it again to end it now.",
				sentence.Enumerate(namesOf(batch)), standing)
		})
		all, err := t.move(context.WithoutCancel(ctx), batch)
		stopNotice()
		done = slices.Concat(done, all)
		if err != nil {
			return done, errors.Join(err, fmt.Errorf("stopped: %s", progressOf(nodes, done)))
		}
	}
	return done, nil
}

// progressOf says which nodes are tainted and which are not.
func progressOf(nodes []*corev1.Node, done []changed) string {
	tainted := nodesOf(done)
	left := slices.DeleteFunc(namesOf(nodes), func(name string) bool { return slices.Contains(tainted, name) })
	list := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("tainted: %s; not tainted: %s", list(tainted), list(left))
}

// move changes nodes, and waits until their pods have left and run elsewhere.
func (t *tainting) move(ctx context.Context, nodes []*corev1.Node) ([]changed, error) {
	workloads, err := t.workloadsOn(ctx, nodes)
	if err != nil {
		return nil, err
	}
	done, err := t.apply(ctx, nodes)
	if err != nil {
		return done, err
	}
	deadline := t.giveUpAt()
	if err := t.awaitDepartures(ctx, done, time.Time{}); err != nil {
		return done, err
	}
	return done, t.awaitReplicas(ctx, workloads, deadline)
}

// workload is a controller with pods on a node that is about to be tainted.
type workload struct {
	metav1.OwnerReference

	namespace string
	name      string // kind and name of its topmost owner
	ready     int    // how many of its pods were ready before, on all nodes
}

// workloadsOn returns the controllers of the pods on nodes. It ignores DaemonSets and static pods, which run nowhere
// else.
func (t *tainting) workloadsOn(ctx context.Context, nodes []*corev1.Node) ([]*workload, error) {
	var all []*workload
	known := map[types.UID]bool{}
	for _, node := range nodes {
		pods, err := t.podsOn(ctx, node.Name)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			controller := metav1.GetControllerOfNoCopy(pod)
			if controller == nil || known[controller.UID] || controller.Kind == "DaemonSet" || controller.Kind == "Node" {
				continue
			}
			known[controller.UID] = true
			owner := t.cluster.Owner(pod)
			name := fmt.Sprintf("%s %s/%s", owner.Kind, pod.Namespace, owner.Name)
			all = append(all, &workload{OwnerReference: *controller, namespace: pod.Namespace, name: name})
		}
	}
	ready, err := t.readyPods(ctx, all)
	counts := ready.counts()
	for _, workload := range all {
		workload.ready = counts[workload.UID]
	}
	return all, err
}

// readyPods are the pods that are ready and stay, with their controllers.
type readyPods map[types.UID]types.UID

func (r readyPods) set(pod *corev1.Pod) {
	delete(r, pod.UID)
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil && pod.DeletionTimestamp == nil && isReady(pod) {
		r[pod.UID] = controller.UID
	}
}

func (r readyPods) gone(uid types.UID, _ *corev1.Pod) { delete(r, uid) }

// counts counts the ready pods of each controller.
func (r readyPods) counts() map[types.UID]int {
	counts := map[types.UID]int{}
	for _, controller := range r {
		counts[controller]++
	}
	return counts
}

// readyPods lists the ready pods in the namespaces of workloads.
func (t *tainting) readyPods(ctx context.Context, workloads []*workload) (readyPods, error) {
	ready := readyPods{}
	for _, namespace := range namespacesOf(workloads) {
		list, err := t.reader.Clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
		}
		for i := range list.Items {
			ready.set(&list.Items[i])
		}
	}
	return ready, nil
}

func namespacesOf(workloads []*workload) []string {
	var namespaces []string
	for _, workload := range workloads {
		namespaces = append(namespaces, workload.namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// awaitReplicas waits until workloads have as many ready pods as before, or as many as they want if that is fewer now.
// It polls how many they want.
func (t *tainting) awaitReplicas(ctx context.Context, workloads []*workload, deadline time.Time) error {
	ready := readyPods{}
	f := follow.New(time.Second)
	for _, namespace := range namespacesOf(workloads) {
		f.Feeds = append(f.Feeds, follow.PodsFeed(t.reader.Watches, namespace, fields.Everything(), ready.set, ready.gone))
	}
	var missing []string
	all, err := t.await(ctx, f, deadline, func(ctx context.Context) string {
		if missing = t.missing(ctx, workloads, ready, deadline); len(missing) == 0 {
			return ""
		}
		return "Waiting: " + strings.Join(missing, ", ")
	})
	if all || err != nil {
		return err
	}
	state := "not all pods are running elsewhere"
	if !f.Synced() {
		state = "it is unknown whether all pods are running elsewhere"
	}
	errs := []error{fmt.Errorf("after %s, %s, and the change is not undone", t.timeout, state), f.Broken()}
	for _, one := range missing {
		errs = append(errs, errors.New(one))
	}
	return errors.Join(errs...)
}

// missing says which workloads have too few ready pods.
func (t *tainting) missing(ctx context.Context, workloads []*workload, ready readyPods, deadline time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, max(untilDeadline(deadline, t.machineTime()), time.Second))
	defer cancel()
	var missing []string
	counts := ready.counts()
	for _, workload := range workloads {
		has := counts[workload.UID]
		if has >= workload.ready {
			continue
		}
		if want := min(workload.ready, t.wanted(ctx, workload)); has < want {
			missing = append(missing, fmt.Sprintf("%s has %d of %s ready", workload.name, has, sentence.Counted(want, "pod")))
		}
	}
	return missing
}

// wanted returns how many pods a workload wants now, because it may have been scaled down, rolled out or deleted
// meanwhile. If it cannot be read, it returns the earlier number.
func (t *tainting) wanted(ctx context.Context, workload *workload) int {
	apps := t.reader.Clients.AppsV1()
	var wanted *int32
	var err error
	switch workload.Kind {
	case "ReplicaSet":
		set, failed := apps.ReplicaSets(workload.namespace).Get(ctx, workload.Name, metav1.GetOptions{})
		wanted, err = set.Spec.Replicas, failed
	case "StatefulSet":
		set, failed := apps.StatefulSets(workload.namespace).Get(ctx, workload.Name, metav1.GetOptions{})
		wanted, err = set.Spec.Replicas, failed
	case "Job":
		job, failed := t.reader.Clients.BatchV1().Jobs(workload.namespace).Get(ctx, workload.Name, metav1.GetOptions{})
		wanted, err = parallel(job), failed
	}
	switch {
	case apierrors.IsNotFound(err):
		return 0
	case err != nil || wanted == nil:
		return workload.ready
	}
	return int(*wanted)
}

// parallel returns how many pods a Job runs at a time. It is 0 if the Job has ended or is suspended.
func parallel(job *batchv1.Job) *int32 {
	ended := slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		return condition.Status == corev1.ConditionTrue && condition.Type != batchv1.JobSuspended
	})
	if ended || job.Spec.Suspend != nil && *job.Spec.Suspend {
		return new(int32)
	}
	if job.Spec.Completions == nil || job.Spec.Parallelism == nil {
		return job.Spec.Parallelism
	}
	return new(min(*job.Spec.Parallelism, *job.Spec.Completions-job.Status.Succeeded))
}
