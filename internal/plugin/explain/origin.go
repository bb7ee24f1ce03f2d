// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// This file finds out where a pod's tolerations come from. The API server does not record what its admission plugins
// add, so the answer comes from the owner's template if it is known, or else from the form of the toleration.

// toleration says where one toleration of the pod comes from, and whether it can ever count.
func (s *Subject) toleration(i int) cliv1alpha1.ExplainedToleration {
	all := s.Pod.Spec.Tolerations
	explained := cliv1alpha1.ExplainedToleration{Toleration: *all[i].DeepCopy()}
	if by := slices.IndexFunc(all[:i], func(earlier corev1.Toleration) bool { return Covers(earlier, all[i]) }); by >= 0 {
		explained.ShadowedBy = &by
	}
	explained.Origin, explained.OriginDetail, explained.Certain = s.origin(i)
	return explained
}

// Covers reports whether one toleration matches every taint that the other matches. The other never counts if it comes
// later.
func Covers(one, other corev1.Toleration) bool {
	if one.Effect != "" && one.Effect != other.Effect || one.Key != "" && one.Key != other.Key {
		return false
	}
	if one.Operator == corev1.TolerationOpExists {
		return true
	}
	return isEqual(one) == isEqual(other) && (isEqual(one) || one.Operator == other.Operator) && one.Value == other.Value
}

// isEqual reports whether a toleration requires a value. No operator means Equal.
func isEqual(toleration corev1.Toleration) bool {
	return toleration.Operator == "" || toleration.Operator == corev1.TolerationOpEqual
}

// origin says who put a toleration into the pod, and whether that is certain or inferred from its form.
func (s *Subject) origin(i int) (origin cliv1alpha1.TolerationOrigin, detail string, certain bool) {
	toleration := &s.Pod.Spec.Tolerations[i]
	byForm, detail := s.byForm(i)
	switch {
	case state.IsStatic(s.Pod) && byForm == "":
		return cliv1alpha1.OriginManifest, "the static pod's file", true
	case s.isInTemplate(toleration):
		return cliv1alpha1.OriginTemplate, s.Template.String(), true
	case byForm != "":
		return byForm, detail, s.Template != nil || state.IsStatic(s.Pod)
	case s.Template != nil:
		return cliv1alpha1.OriginUnknown, fmt.Sprintf("not in the template of %s %s: added by a policy, a webhook, or someone who changed the pod", s.Template.Kind, s.Template.Name), false
	case metav1.GetControllerOfNoCopy(s.Pod) == nil:
		return cliv1alpha1.OriginUnknown, "the pod has no owner: added by its creator or a policy", false
	}
	return cliv1alpha1.OriginUnknown, "from the owner's template, which could not be read, or from a policy", false
}

// isInTemplate reports whether the owner's template contains a toleration.
func (s *Subject) isInTemplate(toleration *corev1.Toleration) bool {
	return s.Template != nil && slices.ContainsFunc(s.Template.Tolerations, func(other corev1.Toleration) bool {
		return sameToleration(&other, toleration)
	})
}

func sameToleration(a, b *corev1.Toleration) bool {
	return isEqual(*a) == isEqual(*b) && (isEqual(*a) || a.Operator == b.Operator) &&
		a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect &&
		equality.Semantic.DeepEqual(a.TolerationSeconds, b.TolerationSeconds)
}

// defaultSeconds is what DefaultTolerationSeconds adds unless a flag of the API server changes it.
const defaultSeconds = 300

// byForm says who adds tolerations of this form. It is empty if no such writer is known.
func (s *Subject) byForm(i int) (origin cliv1alpha1.TolerationOrigin, detail string) {
	t := &s.Pod.Spec.Tolerations[i]
	switch {
	case s.isNamespaceDefault(t):
		return cliv1alpha1.OriginPodTolerationRestriction, "the API server, from the default tolerations of namespace " + s.Pod.Namespace
	case taints.IsForNoTime(*t):
		return cliv1alpha1.OriginTaintkeeper, "Taintkeeper, so that the pod stays alive if its kubelet restarts"
	case t.Operator != corev1.TolerationOpExists:
		return "", ""
	case state.IsStatic(s.Pod) && isOfStaticPods(t):
		return cliv1alpha1.OriginKubelet, "the kubelet, for every static pod"
	case state.IsOfDaemonSet(s.Pod) && isDaemonToleration(t):
		return cliv1alpha1.OriginDaemonSetController, "the DaemonSet controller, for every pod of a DaemonSet"
	case s.isDefaultSeconds(i):
		return cliv1alpha1.OriginDefaultTolerationSeconds, fmt.Sprintf("the API server, for every pod without a toleration for %s", strings.TrimPrefix(t.Key, "node.kubernetes.io/"))
	case s.isForMemoryPressure(t):
		return cliv1alpha1.OriginPodTolerationRestriction,
			fmt.Sprintf("the API server, for the pod's QoS class %s", s.Pod.Status.QOSClass)
	case s.isForRequest(t):
		return cliv1alpha1.OriginExtendedResourceToleration, "the API server, because the pod requests " + t.Key
	}
	return "", ""
}

// defaultTolerations is the annotation of a namespace from which the admission plugin PodTolerationRestriction takes
// tolerations.
const defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"

func (s *Subject) isNamespaceDefault(t *corev1.Toleration) bool {
	if s.Namespace == nil || s.Namespace.Annotations[defaultTolerations] == "" {
		return false
	}
	var defaults []corev1.Toleration
	if err := json.Unmarshal([]byte(s.Namespace.Annotations[defaultTolerations]), &defaults); err != nil {
		return false // the API server would refuse every pod
	}
	return slices.ContainsFunc(defaults, func(other corev1.Toleration) bool { return sameToleration(&other, t) })
}

// isForRequest reports whether ExtendedResourceToleration adds this toleration to a pod that requests the resource in
// its key.
func (s *Subject) isForRequest(t *corev1.Toleration) bool {
	return t.Effect == corev1.TaintEffectNoSchedule && t.TolerationSeconds == nil && s.requests(t.Key)
}

// isOfStaticPods reports whether the kubelet adds this toleration to its static pods.
func isOfStaticPods(t *corev1.Toleration) bool {
	return t.Key == "" && t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds == nil
}

// isDaemonToleration reports whether the DaemonSet controller adds this toleration to its pods.
func isDaemonToleration(t *corev1.Toleration) bool {
	if t.TolerationSeconds != nil {
		return false
	}
	switch t.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
		corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable:
		return t.Effect == corev1.TaintEffectNoSchedule
	}
	return false
}

// isDefaultSeconds reports whether DefaultTolerationSeconds adds this toleration, which it does if no earlier one
// tolerates the key. Since a flag of the API server sets the seconds, only the usual ones are evidence if there is no
// template.
func (s *Subject) isDefaultSeconds(i int) bool {
	t := &s.Pod.Spec.Tolerations[i]
	if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable ||
		t.Effect != corev1.TaintEffectNoExecute {
		return false
	}
	if t.TolerationSeconds == nil || *t.TolerationSeconds != defaultSeconds && s.Template == nil {
		return false
	}
	return !slices.ContainsFunc(s.Pod.Spec.Tolerations[:i], func(earlier corev1.Toleration) bool {
		return (earlier.Key == "" || earlier.Key == t.Key) && (earlier.Effect == "" || earlier.Effect == t.Effect)
	})
}

func (s *Subject) isForMemoryPressure(t *corev1.Toleration) bool {
	return t.Key == corev1.TaintNodeMemoryPressure &&
		t.Effect == corev1.TaintEffectNoSchedule && t.TolerationSeconds == nil &&
		s.Pod.Status.QOSClass != "" && s.Pod.Status.QOSClass != corev1.PodQOSBestEffort
}

// requests reports whether a container requests an extended resource with that name.
func (s *Subject) requests(name string) bool {
	if !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) {
		return false
	}
	containers := slices.Concat(s.Pod.Spec.InitContainers, s.Pod.Spec.Containers)
	return slices.ContainsFunc(containers, func(container corev1.Container) bool {
		_, requested := container.Resources.Requests[corev1.ResourceName(name)]
		return requested
	})
}

// controllerManager creates the pods of workloads, so it is not worth mentioning as the writer of their tolerations.
const controllerManager = "kube-controller-manager"

// writers says who else wrote the pod's tolerations, according to its managed fields.
func (s *Subject) writers() string {
	others := slices.DeleteFunc(state.WritersOf(s.Pod.ManagedFields, "spec", "tolerations"), func(name string) bool {
		return name == controllerManager
	})
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("According to its managed fields, the pod's own tolerations were last written by %s.", strings.Join(others, ", "))
}
