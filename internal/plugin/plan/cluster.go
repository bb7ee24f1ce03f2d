// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// ViewerRole is the role with the rights to all that commands read: charts/taintkeeper/templates/viewer.yaml.
const ViewerRole = "taintkeeper-viewer"

// Cluster holds the objects from which a plan is made. They are read, never modified. What is missing is nil, and
// Missing says so in sentences.
type Cluster struct {
	// At is when it was read, if files say so.
	At time.Time
	// Location says which cluster it is; empty if its objects come from files.
	Location Location

	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Policies may object to what taints do.
	Policies []*v1alpha1.EvictionPolicy
	// Controllers are the controllers of what owns pods, by the UID of the owner: a ReplicaSet's Deployment, a Job's
	// CronJob.
	Controllers map[types.UID]metav1.OwnerReference
	// Templates are the pod templates of workloads by their UID, read from files alone.
	Templates map[types.UID]*Template
	// Selectors are the selectors of workloads by their UID. Only files have them.
	Selectors map[types.UID]*metav1.LabelSelector

	// Namespaces are there if policies or the scheduler ask for their labels.
	Namespaces []*corev1.Namespace

	// What the scheduler asks for besides, when a plan says where pods would go.
	Services       []*corev1.Service
	Claims         []*corev1.PersistentVolumeClaim
	Volumes        []*corev1.PersistentVolume
	StorageClasses []*storagev1.StorageClass
	CSINodes       []*storagev1.CSINode
	// Jobs are those that run. They tell whether a pod that leaves gets a successor.
	Jobs []*batchv1.Job

	// Signs are traces of the controllers that evict and taint, and Workloads those of which there is no more than a
	// template; both for a check.
	Signs     Signs
	Workloads []WorkloadTemplate
	// Unreadable are workloads of files whose pod templates cannot be read, with why; for a check, too.
	Unreadable map[cliv1alpha1.CheckedObject]error
	// Renewed is when nodes last renewed their Leases, for a plan of silent nodes. What is not there is not known.
	Renewed map[string]time.Time
	// Sources are the files that objects were read from, by their kind, namespace and name; for a check, too.
	Sources map[cliv1alpha1.CheckedObject]string

	// Missing says what could not be read, and what follows. BudgetsUnknown and PoliciesUnknown: PodDisruptionBudgets and
	// EvictionPolicies are among that.
	Missing         []string
	BudgetsUnknown  bool
	PoliciesUnknown bool
	// Idle says that Taintkeeper does not evict, and what follows; empty if it evicts, and if nobody asked.
	Idle string
}

// AddRenewal takes the Lease of a node, in which its kubelet says when it renewed it.
func (c *Cluster) AddRenewal(lease *coordinationv1.Lease) {
	isOfNode := lease.Namespace == corev1.NamespaceNodeLease && lease.Name != NodeHealthLease
	if !isOfNode || lease.Spec.RenewTime == nil {
		return
	}
	if c.Renewed == nil {
		c.Renewed = map[string]time.Time{}
	}
	c.Renewed[lease.Name] = lease.Spec.RenewTime.Time
}

// Node returns the node of that name, nil if there is none.
func (c *Cluster) Node(name string) *corev1.Node {
	i := slices.IndexFunc(c.Nodes, func(node *corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return c.Nodes[i]
}

// ByNode returns the pods that are bound, by node.
func (c *Cluster) ByNode() map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	return byNode
}

// templateHash is the label with which the Deployment controller names a ReplicaSet and its pods.
const templateHash = "pod-template-hash"

// Owner returns the topmost owner of a pod that is known, nil for a pod without a controller.
func (c *Cluster) Owner(pod *corev1.Pod) *cliv1alpha1.Owner {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return nil
	}
	owner := &cliv1alpha1.Owner{Kind: controller.Kind, Name: controller.Name}
	if above, ok := c.Controllers[controller.UID]; ok {
		return &cliv1alpha1.Owner{Kind: above.Kind, Name: above.Name}
	}
	if hash := pod.Labels[templateHash]; hash != "" && controller.Kind == "ReplicaSet" {
		if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok {
			return &cliv1alpha1.Owner{Kind: "Deployment", Name: deployment}
		}
	}
	return owner
}

// WithUID gives a pod a UID if it has none, as in some files and before it is made: pods are told apart by it.
func WithUID(pod *corev1.Pod) *corev1.Pod {
	if pod.UID != "" {
		return pod
	}
	named := *pod
	named.UID = types.UID(pod.Namespace + "/" + pod.Name)
	return &named
}

// IsStatic reports whether a pod is the mirror image of a static pod: only its kubelet can end it.
func IsStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// IsFinished reports whether the containers of a pod have ended for good.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsOver reports whether a pod has finished, or is about to go.
func IsOver(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || IsFinished(pod) }

// IsReady reports whether nothing says that the pod is not ready.
func IsReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return !IsOver(pod)
}

// Location says which cluster something was read from: the context and the cluster of the kubeconfig, and the address
// of the API server.
type Location struct{ Context, Cluster, Server string }

// String names the cluster as its user does; empty for files.
func (l Location) String() string {
	switch {
	case l.Context == "":
		return l.Server
	case l.Cluster == "":
		return fmt.Sprintf("%s (context %s)", l.Server, l.Context)
	}
	return fmt.Sprintf("%s (context %s, %s)", l.Cluster, l.Context, l.Server)
}
