// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
)

// Kind is a kind of objects in a [Cluster]: where it is read, what is kept of each object, and where it goes. The API
// server, files, snapshots and the scheduler all go by it, so that nothing else leaves a cluster.
type Kind struct {
	schema.GroupVersionKind

	// Resource is its name in the API.
	Resource string
	// Scheduling says that the scheduler needs it. Successors is what follows for the successors of pods if it is
	// unknown; it is empty for a kind that they do not need.
	Scheduling bool
	Successors string

	// List lists its objects in a namespace, or in all. It is nil for our own kinds.
	List func(clients kubernetes.Interface, namespace string) ListFunc
	// New returns an empty object to decode.
	New func() runtime.Object
	// Keep returns what is kept of an object. What it keeps as a whole is shared.
	Keep func(runtime.Object) runtime.Object
	// Add adds what is kept of an object to a cluster.
	Add func(*Cluster, runtime.Object)
	// Objects returns what a cluster has.
	Objects func(*Cluster) []runtime.Object
}

// ListFunc lists objects.
type ListFunc func(context.Context, metav1.ListOptions) (runtime.Object, error)

// The metadata of most objects that are kept, and of those of which no more is read.
var (
	named = []string{"metadata.name", "metadata.namespace", "metadata.uid"}
	meta  = append([]string{
		"metadata.resourceVersion", "metadata.labels", "metadata.ownerReferences", "metadata.finalizers",
		"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
	}, named...)
)

// Kinds are all kinds of which objects are kept, in the order of a snapshot. Pods come last: there are many. What shows
// who controls them is in [Signs].
var Kinds = []*Kind{
	Namespaces, Nodes, Services, CSINodes, StorageClasses, Volumes, Claims, Attachments, Budgets, Policies, Quotas,
	StatefulSets, Jobs, Pods,
}

// KindOf returns the kind with a name, or nil.
func KindOf(name schema.GroupKind) *Kind {
	i := slices.IndexFunc(Kinds, func(k *Kind) bool { return k.GroupKind() == name })
	if i < 0 {
		return nil
	}
	return Kinds[i]
}

// Namespaces are selected by policies and by pod affinity. Their annotations may add tolerations.
var Namespaces = row[corev1.Namespace, *corev1.Namespace]{
	is: core("Namespace"), resource: "namespaces",
	list: lister(func(c kubernetes.Interface, _ string) lists[*corev1.NamespaceList] { return c.CoreV1().Namespaces() }),
	kept: meta, annotated: true,
	in: func(c *Cluster) *[]*corev1.Namespace { return &c.Namespaces },
}.kind()

// Nodes are kept with their taints, and with who wrote the taints and conditions.
var Nodes = row[corev1.Node, *corev1.Node]{
	is: core("Node"), resource: "nodes",
	list: lister(func(c kubernetes.Interface, _ string) lists[*corev1.NodeList] { return c.CoreV1().Nodes() }),
	kept: append([]string{
		"metadata.managedFields", "spec.taints", "spec.unschedulable",
		"status.allocatable", "status.capacity", "status.conditions",
	}, meta...),
	mend: func(node, _ *corev1.Node) { node.ManagedFields = slimManagers(node.ManagedFields) },
	in:   func(c *Cluster) *[]*corev1.Node { return &c.Nodes },
}.kind()

// Services show which pods the scheduler spreads by default.
var Services = row[corev1.Service, *corev1.Service]{
	is: core("Service"), resource: "services", scheduling: true,
	list: lister(func(c kubernetes.Interface, ns string) lists[*corev1.ServiceList] { return c.CoreV1().Services(ns) }),
	kept: append([]string{"spec.selector"}, named...),
	in:   func(c *Cluster) *[]*corev1.Service { return &c.Services },
}.kind()

// CSINodes say how many volumes a node can have.
var CSINodes = row[storagev1.CSINode, *storagev1.CSINode]{
	is: storage("CSINode"), resource: "csinodes", scheduling: true,
	list: lister(func(c kubernetes.Interface, _ string) lists[*storagev1.CSINodeList] { return c.StorageV1().CSINodes() }),
	kept: append([]string{
		"spec.drivers[].name", "spec.drivers[].nodeID", "spec.drivers[].topologyKeys", "spec.drivers[].allocatable",
	}, meta...), annotated: true,
	in: func(c *Cluster) *[]*storagev1.CSINode { return &c.CSINodes },
}.kind()

// StorageClasses say where volumes can be made.
var StorageClasses = row[storagev1.StorageClass, *storagev1.StorageClass]{
	is: storage("StorageClass"), resource: "storageclasses", scheduling: true,
	list: lister(func(c kubernetes.Interface, _ string) lists[*storagev1.StorageClassList] {
		return c.StorageV1().StorageClasses()
	}),
	kept: append([]string{"provisioner", "volumeBindingMode", "allowedTopologies"}, meta...),
	in:   func(c *Cluster) *[]*storagev1.StorageClass { return &c.StorageClasses },
}.kind()

// Volumes are PersistentVolumes, with where they can be used and how they are counted, but not with how to access them.
var Volumes = row[corev1.PersistentVolume, *corev1.PersistentVolume]{
	is: core("PersistentVolume"), resource: "persistentvolumes", scheduling: true, successors: waitForNoVolume,
	list: lister(func(c kubernetes.Interface, _ string) lists[*corev1.PersistentVolumeList] {
		return c.CoreV1().PersistentVolumes()
	}),
	kept: append([]string{
		"spec.capacity", "spec.accessModes", "spec.volumeMode", "spec.nodeAffinity", "spec.storageClassName",
		"spec.volumeAttributesClassName", "spec.claimRef.apiVersion", "spec.claimRef.kind", "spec.claimRef.namespace",
		"spec.claimRef.name", "spec.claimRef.uid", "spec.csi.driver", "spec.csi.volumeHandle", "spec.awsElasticBlockStore",
		"spec.gcePersistentDisk", "spec.azureDisk", "status.phase",
	}, meta...), annotated: true,
	in: func(c *Cluster) *[]*corev1.PersistentVolume { return &c.Volumes },
}.kind()

// Claims are PersistentVolumeClaims.
var Claims = row[corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaim]{
	is: core("PersistentVolumeClaim"), resource: "persistentvolumeclaims", scheduling: true, successors: waitForNoVolume,
	list: lister(func(c kubernetes.Interface, ns string) lists[*corev1.PersistentVolumeClaimList] {
		return c.CoreV1().PersistentVolumeClaims(ns)
	}),
	kept: slices.Concat(claimSpec("spec."), []string{"status.phase"}, meta), annotated: true,
	in: func(c *Cluster) *[]*corev1.PersistentVolumeClaim { return &c.Claims },
}.kind()

const waitForNoVolume = "the command assumes that no pod waits for a volume"

// Attachments are VolumeAttachments: the nodes that volumes are attached to.
var Attachments = row[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]{
	is: storage("VolumeAttachment"), resource: "volumeattachments",
	successors: "the command assumes that a volume of a CSI driver is attached to the node of the pod that uses it",
	list: lister(func(c kubernetes.Interface, _ string) lists[*storagev1.VolumeAttachmentList] {
		return c.StorageV1().VolumeAttachments()
	}),
	kept: append([]string{"spec.attacher", "spec.nodeName", "spec.source.persistentVolumeName"}, named...),
	in:   func(c *Cluster) *[]*storagev1.VolumeAttachment { return &c.Attachments },
}.kind()

// claimSpec are the fields of a PersistentVolumeClaim's spec that are kept, below a path.
func claimSpec(below string) (all []string) {
	for _, name := range []string{
		"accessModes", "selector", "resources", "volumeName", "storageClassName", "volumeMode", "volumeAttributesClassName",
	} {
		all = append(all, below+name)
	}
	return all
}

// Budgets are PodDisruptionBudgets, with their generation, which shows whether the status is out of date.
var Budgets = row[policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudget]{
	is: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), resource: "poddisruptionbudgets",
	list: lister(func(c kubernetes.Interface, ns string) lists[*policyv1.PodDisruptionBudgetList] {
		return c.PolicyV1().PodDisruptionBudgets(ns)
	}),
	kept: append([]string{
		"metadata.generation", "spec", "status.observedGeneration", "status.disruptionsAllowed", "status.currentHealthy",
		"status.desiredHealthy", "status.expectedPods",
	}, meta...),
	in: func(c *Cluster) *[]*policyv1.PodDisruptionBudget { return &c.Budgets },
}.kind()

// Policies are EvictionPolicies.
var Policies = row[v1alpha1.EvictionPolicy, *v1alpha1.EvictionPolicy]{
	is: v1alpha1.GroupVersion.WithKind("EvictionPolicy"), resource: "evictionpolicies",
	kept: append([]string{"spec", "status"}, meta...),
	in:   func(c *Cluster) *[]*v1alpha1.EvictionPolicy { return &c.Policies },
}.kind()

// Quotas say how many pods a namespace may have, and how much they may request.
var Quotas = row[corev1.ResourceQuota, *corev1.ResourceQuota]{
	is: core("ResourceQuota"), resource: "resourcequotas", successors: "the command assumes that they refuse no pods",
	list: lister(func(c kubernetes.Interface, ns string) lists[*corev1.ResourceQuotaList] {
		return c.CoreV1().ResourceQuotas(ns)
	}),
	kept: append([]string{"spec"}, named...),
	in:   func(c *Cluster) *[]*corev1.ResourceQuota { return &c.Quotas },
}.kind()

// StatefulSets say whether they create their pods in order.
var StatefulSets = row[appsv1.StatefulSet, *appsv1.StatefulSet]{
	is: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), resource: "statefulsets",
	successors: "the command assumes that they create their pods in order",
	list: lister(func(c kubernetes.Interface, ns string) lists[*appsv1.StatefulSetList] {
		return c.AppsV1().StatefulSets(ns)
	}),
	kept: append([]string{"spec.podManagementPolicy"}, named...),
	in:   func(c *Cluster) *[]*appsv1.StatefulSet { return &c.StatefulSets },
}.kind()

// Jobs show whether a pod that leaves gets a successor. Those that are over create none.
var Jobs = row[batchv1.Job, *batchv1.Job]{
	is: batchv1.SchemeGroupVersion.WithKind("Job"), resource: "jobs",
	list: lister(func(c kubernetes.Interface, ns string) lists[*batchv1.JobList] { return c.BatchV1().Jobs(ns) }),
	kept: append([]string{
		"metadata.ownerReferences", "spec.backoffLimit", "spec.podFailurePolicy", "spec.podReplacementPolicy",
		"status.failed",
	}, named...),
	drop: isJobOver,
	in:   func(c *Cluster) *[]*batchv1.Job { return &c.Jobs },
}.kind()

// Pods are kept without what they run.
var Pods = row[corev1.Pod, *corev1.Pod]{
	is: core("Pod"), resource: "pods",
	list: lister(func(c kubernetes.Interface, ns string) lists[*corev1.PodList] { return c.CoreV1().Pods(ns) }),
	kept: slices.Concat(meta, []string{
		"spec.nodeName", "spec.nodeSelector", "spec.affinity", "spec.tolerations", "spec.topologySpreadConstraints",
		"spec.priority", "spec.priorityClassName", "spec.preemptionPolicy", "spec.schedulerName", "spec.schedulingGates",
		"spec.terminationGracePeriodSeconds", "spec.activeDeadlineSeconds", "spec.hostNetwork", "spec.overhead",
		"spec.resources", "spec.resourceClaims",
		"status.phase", "status.qosClass", "status.nominatedNodeName", "status.resources", "status.allocatedResources",
	}, container("spec.containers[]."), container("spec.initContainers[]."), []string{
		// The volumes that tie a pod to a node or a zone, those that two pods cannot share, and those that are lost with it.
		"spec.volumes[].name", "spec.volumes[].emptyDir.medium", "spec.volumes[].persistentVolumeClaim",
		"spec.volumes[].image.reference",
		"spec.volumes[].gcePersistentDisk", "spec.volumes[].awsElasticBlockStore",
		"spec.volumes[].iscsi.iqn", "spec.volumes[].iscsi.readOnly", "spec.volumes[].rbd.monitors",
		"spec.volumes[].rbd.readOnly", "spec.volumes[].rbd.pool", "spec.volumes[].rbd.image",
	}, claimSpec("spec.volumes[].ephemeral.volumeClaimTemplate.spec."), []string{
		// When it was bound, whether it is ready, what disrupts it, and whether it can be resized.
		"status.conditions[].type", "status.conditions[].status", "status.conditions[].reason",
		"status.conditions[].message", "status.conditions[].lastTransitionTime",
		// While a pod is being resized, it holds more than it requests.
		"status.containerStatuses[].name", "status.containerStatuses[].resources",
		"status.containerStatuses[].allocatedResources",
		"status.initContainerStatuses[].name", "status.initContainerStatuses[].resources",
		"status.initContainerStatuses[].allocatedResources",
	}),
	mend: slimPod,
	in:   func(c *Cluster) *[]*corev1.Pod { return &c.Pods },
	add:  func(c *Cluster, pod *corev1.Pod) *corev1.Pod { return c.sharer.share(WithUID(pod)) },
}.kind()

// container are the fields of a container that are kept, below a path. Of its command, [builtin.CommandOf] is kept.
func container(below string) (all []string) {
	for _, name := range []string{"name", "image", "resources", "restartPolicy", "ports"} {
		all = append(all, below+name)
	}
	return all
}

func core(kind string) schema.GroupVersionKind    { return corev1.SchemeGroupVersion.WithKind(kind) }
func storage(kind string) schema.GroupVersionKind { return storagev1.SchemeGroupVersion.WithKind(kind) }

// object is a pointer to a type of objects.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// row is a [Kind] as it is written down.
type row[T any, P object[T]] struct {
	is         schema.GroupVersionKind
	resource   string
	scheduling bool
	successors string
	list       func(kubernetes.Interface, string) ListFunc
	kept       []string // paths of fields
	annotated  bool     // it also keeps SchedulingAnnotations
	mend       func(kept, from P)
	drop       func(P) bool // objects of which nothing is kept
	in         func(*Cluster) *[]P
	add        func(*Cluster, P) P // replaces an object that is added
}

func (r row[T, P]) kind() *Kind {
	fields := fieldsOf(reflect.TypeFor[T](), r.kept)
	keep := func(object runtime.Object) runtime.Object { return r.keep(fields, object.(P)) }
	return &Kind{
		GroupVersionKind: r.is, Resource: r.resource, Scheduling: r.scheduling, Successors: r.successors,
		List: r.list, Keep: keep,
		New: func() runtime.Object { return P(new(T)) },
		Add: func(c *Cluster, from runtime.Object) {
			if r.drop != nil && r.drop(from.(P)) {
				return
			}
			kept := keep(from).(P)
			if r.add != nil {
				kept = r.add(c, kept)
			}
			all := r.in(c)
			*all = append(*all, kept)
		},
		Objects: func(c *Cluster) (all []runtime.Object) {
			for _, object := range *r.in(c) {
				all = append(all, object)
			}
			return all
		},
	}
}

func (r row[T, P]) keep(fields fields, from P) P {
	kept := P(new(T))
	fields.copyTo(reflect.ValueOf(kept).Elem(), reflect.ValueOf(from).Elem())
	kept.GetObjectKind().SetGroupVersionKind(r.is)
	if r.annotated {
		keepAnnotations(kept, from)
	}
	if r.mend != nil {
		r.mend(kept, from)
	}
	return kept
}

// lists is a client for one kind.
type lists[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
}

// lister lets a client list without the type of its list.
func lister[L runtime.Object](
	of func(kubernetes.Interface, string) lists[L],
) func(kubernetes.Interface, string) ListFunc {
	return func(clients kubernetes.Interface, namespace string) ListFunc {
		all := of(clients, namespace)
		return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, options)
		}
	}
}

// fields are the fields of a type that are kept, by index. A field without fields of its own is kept as a whole.
type fields []field

type field struct {
	index []int
	inner fields
}

// fieldsOf finds fields by their paths, as in spec.containers[].name. It panics if the type has no such field.
func fieldsOf(of reflect.Type, paths []string) (all fields) {
	var names []string
	below := map[string][]string{}
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".")
		name = strings.TrimSuffix(name, "[]")
		if _, known := below[name]; !known {
			names = append(names, name)
			below[name] = nil
		}
		if rest != "" {
			below[name] = append(below[name], rest)
		}
	}
	for _, name := range names {
		found, ok := fieldNamed(of, name)
		if !ok {
			panic(fmt.Sprintf("%s has no field %s", of, name))
		}
		one := field{index: found.Index}
		if paths := below[name]; len(paths) > 0 {
			inner := found.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			one.inner = fieldsOf(inner, paths)
		}
		all = append(all, one)
	}
	return all
}

// fieldNamed finds a field by its name in JSON, also in a struct that is embedded.
func fieldNamed(of reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(of) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (f field) of(of reflect.Value) reflect.Value {
	for _, i := range f.index {
		of = of.Field(i)
	}
	return of
}

// copyTo copies the fields from one struct to an empty one. What is kept as a whole is shared.
func (all fields) copyTo(to, from reflect.Value) {
	for _, f := range all {
		to, from := f.of(to), f.of(from)
		switch {
		case f.inner == nil:
			to.Set(from)
		case from.Kind() == reflect.Struct:
			f.inner.copyTo(to, from)
		case from.IsNil():
		case from.Kind() == reflect.Pointer:
			to.Set(reflect.New(from.Type().Elem()))
			f.inner.copyTo(to.Elem(), from.Elem())
		case from.Len() > 0:
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				f.inner.copyTo(to.Index(i), from.Index(i))
			}
		}
	}
}

// SlimPod returns what is kept of a pod.
func SlimPod(pod *corev1.Pod) *corev1.Pod { return Pods.Keep(pod).(*corev1.Pod) }

// SlimNode returns what is kept of a node. Images are kept only for the scheduler, see [SlimImages].
func SlimNode(node *corev1.Node) *corev1.Node { return Nodes.Keep(node).(*corev1.Node) }

// SchedulingAnnotations are the annotations that are read by the scheduler, by the code that binds volumes for it, and
// by the API server when it adds tolerations. Snapshots contain no others, except the mark of a static pod and
// Taintkeeper's own.
var SchedulingAnnotations = []string{
	corev1.BetaStorageClassAnnotation,
	corev1.MigratedPluginsAnnotationKey,
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/migrated-to",
	"volume.kubernetes.io/selected-node",
	// On namespaces, for the admission plugin PodTolerationRestriction.
	"scheduler.alpha.kubernetes.io/defaultTolerations",
	"scheduler.alpha.kubernetes.io/tolerationsWhitelist",
}

func keepAnnotations(kept, from metav1.Object) {
	annotations := map[string]string{}
	for _, key := range SchedulingAnnotations {
		if value, ok := from.GetAnnotations()[key]; ok {
			annotations[key] = value
		}
	}
	if len(annotations) > 0 {
		kept.SetAnnotations(annotations)
	}
}

// slimPod reduces what was kept of a pod to what commands need: what some values mean, and which of a list matter.
func slimPod(pod, from *corev1.Pod) {
	if IsStatic(from) {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "true"}
	}
	slimContainers(pod.Spec.Containers, from.Spec.Containers)
	slimContainers(pod.Spec.InitContainers, from.Spec.InitContainers)
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			image.Reference = slimImage(image.Reference)
		}
	}
	pod.Spec.Volumes = without(pod.Spec.Volumes, func(volume *corev1.Volume) bool {
		return volume.VolumeSource == corev1.VolumeSource{}
	})
	pod.Status.Conditions = without(pod.Status.Conditions, func(condition *corev1.PodCondition) bool {
		switch condition.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending:
			return false
		}
		return true
	})
	pod.Status.ContainerStatuses = slimStatuses(pod.Status.ContainerStatuses, from.Spec.Containers)
	pod.Status.InitContainerStatuses = slimStatuses(pod.Status.InitContainerStatuses, from.Spec.InitContainers)
}

func slimContainers(kept, from []corev1.Container) {
	for i := range kept {
		kept[i].Image, kept[i].Command = slimImage(from[i].Image), builtin.CommandOf(&from[i])
		ports := slices.Clone(from[i].Ports)
		kept[i].Ports = without(ports, func(port *corev1.ContainerPort) bool { return port.HostPort == 0 })
	}
}

// slimStatuses keeps the resources that the kubelet has granted, for containers that now request others.
func slimStatuses(statuses []corev1.ContainerStatus, containers []corev1.Container) []corev1.ContainerStatus {
	requested := map[string]corev1.ResourceList{}
	for i := range containers {
		requested[containers[i].Name] = containers[i].Resources.Requests
	}
	return without(statuses, func(status *corev1.ContainerStatus) bool {
		requests := requested[status.Name]
		resized := status.Resources != nil && !sameResources(status.Resources.Requests, requests) ||
			status.AllocatedResources != nil && !sameResources(status.AllocatedResources, requests)
		return !resized
	})
}

func sameResources(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// without removes elements from a slice that nobody shares. It is nil if none is left.
func without[T any](all []T, drop func(*T) bool) []T {
	kept := all[:0]
	for i := range all {
		if !drop(&all[i]) {
			kept = append(kept, all[i])
		}
	}
	switch len(kept) {
	case 0:
		return nil
	case len(all):
		return all
	}
	return slices.Clone(kept) // there are many pods
}

// isJobOver reports whether a Job creates no more pods.
func isJobOver(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		over := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		return over && condition.Status == corev1.ConditionTrue
	})
}

// sharer lets the pods of one owner share their equal parts, which are almost everything. A big cluster then takes a
// third of the memory. The zero value is ready to use; it is not safe for concurrent use.
type sharer struct {
	siblings map[types.UID]*corev1.Pod
}

// share replaces the parts of a pod that equal those of an earlier pod of the same owner, and returns the pod.
func (s *sharer) share(pod *corev1.Pod) *corev1.Pod {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return pod
	}
	sibling := s.siblings[controller.UID]
	if sibling == nil {
		if s.siblings == nil {
			s.siblings = map[types.UID]*corev1.Pod{}
		}
		s.siblings[controller.UID] = pod
		return pod
	}
	shareIfEqual(&pod.Labels, sibling.Labels)
	shareIfEqual(&pod.OwnerReferences, sibling.OwnerReferences)
	shareIfEqual(&pod.Spec.Tolerations, sibling.Spec.Tolerations)
	shareIfEqual(&pod.Spec.Containers, sibling.Spec.Containers)
	shareIfEqual(&pod.Spec.InitContainers, sibling.Spec.InitContainers)
	shareIfEqual(&pod.Spec.Affinity, sibling.Spec.Affinity)
	shareIfEqual(&pod.Spec.NodeSelector, sibling.Spec.NodeSelector)
	shareIfEqual(&pod.Spec.TopologySpreadConstraints, sibling.Spec.TopologySpreadConstraints)
	shareIfEqual(&pod.Spec.Volumes, sibling.Spec.Volumes)
	return pod
}

func shareIfEqual[T any](mine *T, theirs T) {
	if equality.Semantic.DeepEqual(*mine, theirs) {
		*mine = theirs
	}
}
