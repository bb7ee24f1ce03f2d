// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state is a cluster as commands see it: its nodes, pods, policies and budgets, and what shows who controls
// them. It is pure: the API server and files fill it, and it keeps of each object only what commands need.
package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// ViewerRole is the role that may read everything that commands read: charts/taintkeeper/templates/viewer.yaml. In
// kube-system its name has no namespace.
const ViewerRole = "taintkeeper-viewer[.NAMESPACE]"

// Cluster contains the objects from which a plan is made. They are never modified. A missing field is nil, and Unknown
// says so.
type Cluster struct {
	// At is when the cluster was read, if files say so.
	At time.Time
	// Location says which cluster it is. It is empty if its objects come from files.
	Location Location

	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	sharer  sharer
	Budgets []*policyv1.PodDisruptionBudget
	// Policies may object to taint-based evictions.
	Policies []*v1alpha1.EvictionPolicy
	// Controllers are the controllers of the pods' owners, by the UID of the owner: a ReplicaSet's Deployment, a Job's
	// CronJob.
	Controllers map[types.UID]metav1.OwnerReference
	// Templates are the pod templates of workloads by UID. They are read only from files.
	Templates map[types.UID]*Template
	// Selectors are the selectors of workloads by UID. Only files contain them.
	Selectors map[types.UID]*metav1.LabelSelector

	// Namespaces are read if policies or the scheduler need their labels.
	Namespaces []*corev1.Namespace

	// The scheduler also needs these, if a plan says where pods would go.
	Services       []*corev1.Service
	Claims         []*corev1.PersistentVolumeClaim
	Volumes        []*corev1.PersistentVolume
	StorageClasses []*storagev1.StorageClass
	CSINodes       []*storagev1.CSINode
	// Attachments say which volumes are attached to which nodes.
	Attachments []*storagev1.VolumeAttachment
	// StatefulSets say whether they create their pods in order.
	StatefulSets []*appsv1.StatefulSet
	// Quotas may refuse successors.
	Quotas []*corev1.ResourceQuota
	// Jobs are those that still run. They show whether a pod that leaves gets a successor.
	Jobs []*batchv1.Job

	// Signs are traces of the controllers that evict and taint. Workloads are those that have only a template in the
	// files; they are for check.
	Signs     Signs
	Workloads []WorkloadTemplate
	// Flaws are what an API server would refuse in files. Also for check.
	Flaws []Flaw
	// Renewed is when nodes last renewed their Leases, for a plan of silent nodes. It has only those that are known.
	Renewed map[string]time.Time
	// Sources are the files that objects were read from, by kind, namespace and name. Also for check.
	Sources map[cliv1alpha1.CheckedObject]string

	// Unknown is what could not be read. Only is the namespace that was read of OnlyThere, which are kinds that a user
	// may not list in all namespaces.
	Unknown   []Unknown
	Only      string
	OnlyThere []string

	Evictor
}

// Flaw is something in a file that an API server would refuse.
type Flaw struct {
	Object cliv1alpha1.CheckedObject
	Source string // the file; empty if it is stdin
	// IsRead says that the object was read anyway.
	IsRead bool
	Why    error
}

// Unknown is something that could not be read.
type Unknown struct {
	// Resource is its name in the API. It is empty if no resource is unknown as a whole.
	Resource string
	// Says says in a sentence what is unknown, and how that limits the answer. It is empty if that needs no words.
	Says string
}

// Knows reports whether a resource could be read, or is not asked for.
func (c *Cluster) Knows(resource string) bool {
	return !slices.ContainsFunc(c.Unknown, func(u Unknown) bool { return u.Resource == resource })
}

// KnowsAttachments reports whether Attachments has all VolumeAttachments. Most files have none.
func (c *Cluster) KnowsAttachments() bool {
	return len(c.Attachments) > 0 || c.Location != Location{} && c.Knows(Attachments.Resource)
}

// Unread says what is unknown, in sentences.
func (c *Cluster) Unread() (all []string) {
	if c.Only != "" {
		kinds := c.OnlyThere
		if slices.Contains(kinds, Pods.Resource) {
			kinds = []string{Pods.Resource} // the rest belongs to them
		}
		all = append(all, fmt.Sprintf("You may list %s only in namespace %s, so the answer is about that namespace.",
			sentence.Enumerate(kinds), c.Only))
	}
	for _, unknown := range c.Unknown {
		if unknown.Says != "" {
			all = append(all, unknown.Says)
		}
	}
	return all
}

// Notes say what a reader must know about a cluster: what is unknown, and that Taintkeeper does not evict.
func (c *Cluster) Notes() []string {
	if c.Idle == "" {
		return c.Unread()
	}
	return append(c.Unread(), c.Idle)
}

// AddRenewal adds the Lease of a node, which says when the node's kubelet last renewed it.
func (c *Cluster) AddRenewal(lease *coordinationv1.Lease) {
	isOfNode := lease.Namespace == corev1.NamespaceNodeLease && lease.Name != v1alpha1.NodeHealthLease
	if !isOfNode || lease.Spec.RenewTime == nil {
		return
	}
	if c.Renewed == nil {
		c.Renewed = map[string]time.Time{}
	}
	c.Renewed[lease.Name] = lease.Spec.RenewTime.Time
}

// Node returns the node with that name, or nil.
func (c *Cluster) Node(name string) *corev1.Node {
	i := slices.IndexFunc(c.Nodes, func(node *corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil
	}
	return c.Nodes[i]
}

// ByNode returns the bound pods by node.
func (c *Cluster) ByNode() map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	return byNode
}

// templateHash is the label from which the Deployment controller derives the name of a ReplicaSet and its pods.
const templateHash = "pod-template-hash"

// Owner returns the topmost known owner of a pod, or nil if the pod has no controller.
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

// WithUID gives a pod a UID if it has none, as in some files and before it is created. Pods are identified by UID.
func WithUID(pod *corev1.Pod) *corev1.Pod {
	if pod.UID != "" {
		return pod
	}
	named := *pod
	named.UID = types.UID(pod.Namespace + "/" + pod.Name)
	return &named
}

// IsStatic reports whether a pod is the mirror pod of a static pod, which only its kubelet can stop.
func IsStatic(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// IsFinished reports whether all containers of a pod have ended and will not restart.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsOver reports whether a pod has finished or is terminating.
func IsOver(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil || IsFinished(pod) }

// IsBare reports whether no controller replaces a pod that leaves. A pod that is over needs no replacement.
func IsBare(pod *corev1.Pod) bool {
	return metav1.GetControllerOfNoCopy(pod) == nil && !IsStatic(pod) && !IsOver(pod)
}

// HasLocalData reports whether a pod that leaves loses data: it has emptyDir volumes. kubectl drain refuses to delete
// such pods, unless it is told to.
func HasLocalData(pod *corev1.Pod) bool {
	return !IsOver(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.EmptyDir != nil
	})
}

// IsReady reports whether a pod is ready, or does not say that it is not.
func IsReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return !IsOver(pod)
}

// Location is where objects were read from: the context and the cluster in the kubeconfig, and the address of the API
// server.
type Location struct{ Context, Cluster, Server string }

// String names the cluster as its users do. It is empty for files.
func (l Location) String() string {
	switch {
	case l.Context == "":
		return l.Server
	case l.Cluster == "":
		return fmt.Sprintf("%s (context %s)", l.Server, l.Context)
	}
	return fmt.Sprintf("%s (context %s, %s)", l.Cluster, l.Context, l.Server)
}

// Rule decides in all commands. Pods whose tolerations compare with Gt or Lt exist only if the API server has the
// feature gate TaintTolerationComparisonOperators, so the rule assumes the gate too.
var Rule = verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: true}}

// Compares reports whether a toleration compares numbers.
func Compares(tolerations []corev1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool {
		return toleration.Operator == corev1.TolerationOpGt || toleration.Operator == corev1.TolerationOpLt
	})
}

// ComparisonNotes says what Rule assumes if some pods have tolerations that compare.
func ComparisonNotes(pods int) []string {
	if pods == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Tolerations of %s use Gt or Lt. The API server accepts them only with the feature gate "+
		"TaintTolerationComparisonOperators, so this answer assumes that the controllers have the gate on too.",
		sentence.Counted(pods, "pod"))}
}

// IsOutOfService reports whether pod garbage collection deletes the terminating pods of a node, whose kubelet does not
// end them: the node is not ready and has the taint out-of-service (gcTerminating in pkg/controller/podgc).
func IsOutOfService(node *corev1.Node) bool {
	return !readiness.IsReady(node) && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeOutOfService
	})
}

// FactsOf are what the rule needs to know about a pod.
func FactsOf(pod *corev1.Pod, at time.Time) verdict.Pod {
	return verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(at).Start(verdict.Bound(pod))}
}

// Unwanted reports whether the DaemonSet controller deletes a pod regardless of policies. It does if the pod does not
// tolerate a NoExecute taint at all (NodeShouldRunDaemonPod in pkg/controller/daemon).
func Unwanted(pod *corev1.Pod, causes []policy.Cause) bool {
	return IsOfDaemonSet(pod) && Refused(pod.Spec.Tolerations, causes)
}

// IsOfDaemonSet reports whether a DaemonSet controls a pod.
func IsOfDaemonSet(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "DaemonSet"
}

// Refused reports whether tolerations do not tolerate one of the causes at all.
func Refused(tolerations []corev1.Toleration, causes []policy.Cause) bool {
	return slices.ContainsFunc(causes, func(cause policy.Cause) bool {
		_, untolerated := Rule.Matcher.Untolerated([]corev1.Taint{*cause.Taint}, taints.Lasting(tolerations))
		return untolerated
	})
}

// EndedBy returns a taint, formatted, because of which a kubelet that starts ends a pod with these tolerations. It is
// empty if there is none.
func EndedBy(tolerations []corev1.Toleration, onNode []verdict.Taint) string {
	for _, taint := range onNode {
		if len(Rule.Matcher.Unadmitted([]corev1.Taint{taint.Taint}, tolerations)) > 0 {
			return taints.Format(taint.Taint)
		}
	}
	return ""
}

// Covering is a PodDisruptionBudget with its parsed selector.
type Covering struct {
	*policyv1.PodDisruptionBudget

	selector labels.Selector
}

// Coverage is the PodDisruptionBudgets of each namespace.
type Coverage map[string][]Covering

// CoverageOf parses the selectors. A budget with an invalid selector covers nothing, as in the disruption controller.
func CoverageOf(all []*policyv1.PodDisruptionBudget) Coverage {
	byNamespace := Coverage{}
	for _, budget := range all {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil {
			byNamespace[budget.Namespace] = append(byNamespace[budget.Namespace], Covering{budget, selector})
		}
	}
	return byNamespace
}

// Of returns the budgets that cover a pod with these labels.
func (c Coverage) Of(namespace string, pod labels.Set) []Covering {
	var all []Covering
	for _, budget := range c[namespace] {
		if budget.selector.Matches(pod) {
			all = append(all, budget)
		}
	}
	return all
}

// PoliciesOf returns the policies of a cluster, or nil if it has none.
func (c *Cluster) PoliciesOf() *policies.Set {
	if len(c.Policies) == 0 {
		return nil
	}
	return policies.New(c.Policies, c.Namespaces, c.BudgetsOf())
}

// BudgetsOf returns a function that finds the PodDisruptionBudgets of a pod.
func (c *Cluster) BudgetsOf() policies.BudgetsOf {
	covers := CoverageOf(c.Budgets)
	return func(namespace string, pod labels.Set) (all []*policyv1.PodDisruptionBudget) {
		for _, budget := range covers.Of(namespace, pod) {
			all = append(all, budget.PodDisruptionBudget)
		}
		return all
	}
}
