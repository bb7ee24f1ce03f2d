// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Controllers say whether and when pods that leave get successors. They contain only Jobs, by UID, because Jobs count
// the pods they lose. For other controllers, the pod says enough.
type Controllers map[types.UID]*job

type job struct {
	*batchv1.Job

	lost    int32
	indexes map[string]int32 // how often pods of each index failed, if the Job counts indexes separately
}

// ControllersOf returns the controllers of a cluster's pods. They have not lost any pods yet.
func ControllersOf(cluster *state.Cluster) Controllers {
	all := Controllers{}
	for _, one := range cluster.Jobs {
		if one.UID != "" {
			all[one.UID] = &job{Job: one, indexes: map[string]int32{}}
		}
	}
	return all
}

func (c Controllers) jobOf(pod *corev1.Pod) *job {
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		return c[controller.UID]
	}
	return nil
}

// Lose counts a pod that leaves before it has finished. The Job has already counted finished pods.
func (c Controllers) Lose(pod *corev1.Pod) {
	job := c.jobOf(pod)
	if job == nil || job.onDisruption() == batchv1.PodFailurePolicyActionIgnore {
		return
	}
	job.lost++
	if job.Spec.BackoffLimitPerIndex != nil {
		before, _ := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
		job.indexes[indexOf(pod)] = max(job.indexes[indexOf(pod)], int32(before)) + 1
	}
}

func indexOf(pod *corev1.Pod) string { return pod.Labels[batchv1.JobCompletionIndexAnnotation] }

// The first delay of a Job after a failed pod, and the longest one (pkg/controller/job).
const (
	backoff        = 10 * time.Second
	longestBackoff = 10 * time.Minute
)

// Backoff returns how long the controller of a lost pod waits before it creates another.
func (c Controllers) Backoff(pod *corev1.Pod) time.Duration {
	job := c.jobOf(pod)
	if job == nil {
		return 0
	}
	failures := job.lost
	if job.Spec.BackoffLimitPerIndex != nil {
		failures = job.indexes[indexOf(pod)]
	}
	if failures == 0 {
		return 0
	}
	return min(backoff<<min(failures-1, 10), longestBackoff)
}

// replacing are the kinds of controllers that Kubernetes has for pods.
var replacing = []string{replicaSet.Kind, replicationController.Kind, statefulSet.Kind, daemonSet, "Job", "Node"}

// WhyUnknown says why it is not known whether a pod that leaves gets a successor. It is empty if that is known.
// Kubernetes' own groups, such as apps, have no domain.
func (c Controllers) WhyUnknown(pod *corev1.Pod) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || state.IsFinished(pod) {
		return ""
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	if !strings.Contains(group, ".") && slices.Contains(replacing, controller.Kind) {
		return ""
	}
	return fmt.Sprintf("Its owner %s %s is not a controller of Kubernetes, so it is not known whether it creates another pod.",
		controller.Kind, controller.Name)
}

// WhyWait says why the controller of a pod creates no successor while the pod exists, even if it is Terminating. It is
// empty if the controller does not wait, or never creates one.
func (c Controllers) WhyWait(pod *corev1.Pod) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	job := c.jobOf(pod)
	switch {
	case controller == nil || state.IsFinished(pod) || c.WhyUnknown(pod) != "":
	case controller.Kind == statefulSet.Kind || controller.Kind == daemonSet:
		return fmt.Sprintf("Its %s creates no successor until the pod object is deleted.", controller.Kind)
	case job != nil && ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed:
		return "Its Job replaces only failed pods."
	}
	return ""
}

// WhyNone says why a pod that leaves gets no successor. It is empty if it gets one. A Job counts a deleted pod as
// failed, unless its pod failure policy treats disruptions differently.
func (c Controllers) WhyNone(pod *corev1.Pod) string {
	switch {
	case metav1.GetControllerOfNoCopy(pod) == nil:
		return "It has no controller, so nothing creates a successor."
	case state.IsFinished(pod):
		return "It has finished, so it needs no successor."
	}
	job := c.jobOf(pod)
	if job == nil {
		return ""
	}
	return cmp.Or(job.whyFails(), job.whyIndexFails(pod))
}

// WhyFails says why the Job of a lost pod fails, which ends its other pods. It is empty if the Job does not fail.
func (c Controllers) WhyFails(pod *corev1.Pod) string {
	if job := c.jobOf(pod); job != nil {
		return job.whyFails()
	}
	return ""
}

func (j *job) whyFails() string {
	limit, most := j.Spec.BackoffLimit, j.Spec.MaxFailedIndexes
	switch {
	case j.onDisruption() == batchv1.PodFailurePolicyActionFailJob:
		return "The pod failure policy of its Job fails the Job when a pod is disrupted."
	case j.onDisruption() == batchv1.PodFailurePolicyActionIgnore:
	case limit != nil && int64(j.Status.Failed)+int64(j.lost) > int64(*limit):
		return fmt.Sprintf("With the pods that leave, its Job has more failed pods than its backoffLimit of %d allows, so the Job fails.", *limit)
	case most != nil && j.failedIndexes() > int(*most):
		return fmt.Sprintf("With the pods that leave, its Job has more failed indexes than its maxFailedIndexes of %d allows, so the Job fails.", *most)
	}
	return ""
}

func (j *job) whyIndexFails(pod *corev1.Pod) string {
	if !j.fails(indexOf(pod)) {
		return ""
	}
	return fmt.Sprintf("The backoffLimitPerIndex of its Job is %d, so the index of the pod fails.", *j.Spec.BackoffLimitPerIndex)
}

// fails reports whether an index has failed since the start.
func (j *job) fails(index string) bool {
	limit, failures := j.Spec.BackoffLimitPerIndex, j.indexes[index]
	return limit != nil && failures > 0 &&
		(failures > *limit || j.onDisruption() == batchv1.PodFailurePolicyActionFailIndex)
}

// failedIndexes returns how many indexes have failed, before and after the start.
func (j *job) failedIndexes() (failed int) {
	for index := range j.indexes {
		if j.fails(index) {
			failed++
		}
	}
	for interval := range strings.SplitSeq(ptr.Deref(j.Status.FailedIndexes, ""), ",") { // such as 1,3-5
		from, to, several := strings.Cut(interval, "-")
		first, err := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		switch {
		case several:
			failed += last - first + 1
		case err == nil:
			failed++
		}
	}
	return failed
}

// onDisruption returns what the pod failure policy does with pods that taints evict. It is empty if no rule applies.
func (j *job) onDisruption() batchv1.PodFailurePolicyAction {
	if j.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, rule := range j.Spec.PodFailurePolicy.Rules {
		if slices.ContainsFunc(rule.OnPodConditions, func(pattern batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return pattern.Type == corev1.DisruptionTarget && pattern.Status == corev1.ConditionTrue
		}) {
			return rule.Action
		}
	}
	return ""
}

// owners are the objects whose pods the scheduler spreads by default. It reads only their selectors.
type owners struct {
	replicaSets            []*appsv1.ReplicaSet
	statefulSets           []*appsv1.StatefulSet
	replicationControllers []*corev1.ReplicationController
}

// The kinds of owners that PodTopologySpread distinguishes.
var (
	replicaSet            = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	statefulSet           = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	replicationController = corev1.SchemeGroupVersion.WithKind("ReplicationController")
)

// daemonSet is the kind of controller whose pods each belong to one node.
const daemonSet = "DaemonSet"

// ownerName identifies an owner, as in the scheduler.
type ownerName struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// ownersOf creates the owners of pods from their references. If the source does not contain an owner's selector, the
// selector consists of the labels that all its pods have.
func ownersOf(cluster *state.Cluster) owners {
	selectors := map[ownerName]*metav1.LabelSelector{}
	for _, pod := range cluster.Pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			continue
		}
		name := ownerName{schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), pod.Namespace, ref.Name}
		selector, known := selectors[name]
		switch held := cluster.Selectors[ref.UID]; {
		case !known && held != nil:
			selectors[name] = held.DeepCopy()
		case !known:
			selectors[name] = &metav1.LabelSelector{MatchLabels: selectable(pod.Labels)}
		case held == nil:
			keepShared(selector.MatchLabels, pod.Labels)
		}
	}
	var all owners
	for name, selector := range selectors {
		all.add(name, selector)
	}
	return all
}

// selectable returns the labels of a pod that its workload may select.
func selectable(labels map[string]string) map[string]string {
	all := maps.Clone(labels)
	for _, name := range ordinalLabels {
		delete(all, name)
	}
	return all
}

func keepShared(labels, others map[string]string) {
	maps.DeleteFunc(labels, func(key, value string) bool {
		other, ok := others[key]
		return !ok || other != value
	})
}

func (o *owners) add(name ownerName, selector *metav1.LabelSelector) {
	meta := metav1.ObjectMeta{Namespace: name.namespace, Name: name.name}
	switch name.kind {
	case replicaSet:
		owner := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}
		o.replicaSets = append(o.replicaSets, owner)
	case statefulSet:
		owner := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}}
		o.statefulSets = append(o.statefulSets, owner)
	case replicationController:
		owner := &corev1.ReplicationController{
			ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels},
		}
		o.replicationControllers = append(o.replicationControllers, owner)
	}
}

// leaver is a pod that looks for a node.
type leaver struct {
	pod *corev1.Pod
	// successor is the pod as the scheduler sees it.
	successor *corev1.Pod
	// only is the only node where the pod may run, if it is a DaemonSet's.
	only  string
	group *group
}

// SuccessorOf returns the pod that the controller of a pod creates next: the pod as it was created, with another name.
// Its name identifies it, and it is not bound to a node.
func SuccessorOf(pod *corev1.Pod, name string) *corev1.Pod {
	successor := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, UID: types.UID(pod.Namespace + "/" + name),
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
		},
		Spec: pod.Spec,
	}
	successor.Spec.NodeName = ""
	successor.Spec.Tolerations = taints.Lasting(pod.Spec.Tolerations)
	successor.Spec.ResourceClaims = nil
	return successor
}

// countsOthers reports whether all pods of the cluster are counted to place the successor.
func (l *leaver) countsOthers() bool {
	affinity := l.successor.Spec.Affinity
	return len(l.successor.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// Labels that distinguish pods of one workload and that no workload selects.
var ordinalLabels = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel}

// equalTo returns the same string for pods that look the same to the scheduler.
func (l *leaver) equalTo() (string, error) {
	return l.keyOf(l.successor.Namespace, selectable(l.successor.Labels), l.only, &l.successor.Spec)
}

// shapedAs returns the same string for pods that look the same to the filters that examine only one node.
func (l *leaver) shapedAs() (string, error) {
	spec := &l.successor.Spec
	shape := corev1.PodSpec{
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Overhead: spec.Overhead, Resources: spec.Resources,
		HostNetwork: spec.HostNetwork, Containers: nameless(spec.Containers), InitContainers: nameless(spec.InitContainers),
	}
	if spec.Affinity != nil {
		shape.Affinity = &corev1.Affinity{NodeAffinity: spec.Affinity.NodeAffinity}
	}
	return l.keyOf(l.only, &shape)
}

func nameless(containers []corev1.Container) []corev1.Container {
	all := slices.Clone(containers)
	for i := range all {
		all[i].Name, all[i].Image = "", ""
	}
	return all
}

func (l *leaver) keyOf(parts ...any) (string, error) {
	var key strings.Builder
	encoder := json.NewEncoder(&key)
	for _, part := range parts {
		if err := encoder.Encode(part); err != nil {
			return "", fmt.Errorf("compare pod %s/%s with others: %w", l.pod.Namespace, l.pod.Name, err)
		}
	}
	return key.String(), nil
}

// register finds equal pods.
type register struct {
	groups map[string]*group
	shapes map[string]*shape
}

// enter finds the group and the shape of a pod.
func (r register) enter(l *leaver) error {
	equal, err := l.equalTo()
	if err != nil {
		return err
	}
	shaped, err := l.shapedAs()
	if err != nil {
		return err
	}
	if r.shapes[shaped] == nil {
		r.shapes[shaped] = &shape{}
	}
	if r.groups[equal] == nil {
		r.groups[equal] = &group{shape: r.shapes[shaped]}
	}
	l.group = r.groups[equal]
	l.group.shape.left++
	return nil
}
