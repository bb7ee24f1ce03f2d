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
	one, other = normal(one), normal(other)
	return (one.Effect == "" || one.Effect == other.Effect) && (one.Key == "" || one.Key == other.Key) &&
		(one.Operator == corev1.TolerationOpExists || one.Operator == other.Operator && one.Value == other.Value)
}

// normal returns a toleration with its operator, which is Equal if it is not set.
func normal(toleration corev1.Toleration) corev1.Toleration {
	if toleration.Operator == "" {
		toleration.Operator = corev1.TolerationOpEqual
	}
	return toleration
}

// contains reports whether tolerations contain one.
func contains(all []corev1.Toleration, one corev1.Toleration) bool {
	return slices.ContainsFunc(all, func(other corev1.Toleration) bool {
		return equality.Semantic.DeepEqual(normal(other), normal(one))
	})
}

// origin says who put a toleration into the pod, and whether that is certain or inferred from its form.
func (s *Subject) origin(i int) (origin cliv1alpha1.TolerationOrigin, detail string, certain bool) {
	static := state.IsStatic(s.Pod)
	byForm, detail := s.byForm(i)
	switch {
	case static && byForm == "":
		return cliv1alpha1.OriginManifest, "the static pod's file", true
	case s.Template != nil && contains(s.Template.Tolerations, s.Pod.Spec.Tolerations[i]):
		return cliv1alpha1.OriginTemplate, s.Template.String(), true
	case byForm != "":
		return byForm, detail, s.Template != nil || static
	case s.Template != nil:
		detail = fmt.Sprintf("not in the template of %s %s: added by a policy, a webhook, or someone who changed the pod", s.Template.Kind, s.Template.Name)
	case metav1.GetControllerOfNoCopy(s.Pod) == nil:
		detail = "the pod has no owner: added by its creator or a policy"
	default:
		detail = "from the owner's template, which could not be read, or from a policy"
	}
	return cliv1alpha1.OriginUnknown, detail, false
}

// ofDaemons are the tolerations that the DaemonSet controller adds to its pods.
var ofDaemons = map[string]corev1.TaintEffect{
	corev1.TaintNodeNotReady:           corev1.TaintEffectNoExecute,
	corev1.TaintNodeUnreachable:        corev1.TaintEffectNoExecute,
	corev1.TaintNodeDiskPressure:       corev1.TaintEffectNoSchedule,
	corev1.TaintNodeMemoryPressure:     corev1.TaintEffectNoSchedule,
	corev1.TaintNodePIDPressure:        corev1.TaintEffectNoSchedule,
	corev1.TaintNodeUnschedulable:      corev1.TaintEffectNoSchedule,
	corev1.TaintNodeNetworkUnavailable: corev1.TaintEffectNoSchedule,
}

// byForm says who adds tolerations of this form. It is empty if no such writer is known.
func (s *Subject) byForm(i int) (origin cliv1alpha1.TolerationOrigin, detail string) {
	t := s.Pod.Spec.Tolerations[i]
	always := t.Operator == corev1.TolerationOpExists && t.TolerationSeconds == nil
	switch {
	case taints.IsForNoTime(t):
		return cliv1alpha1.OriginTaintkeeper, "Taintkeeper, so that the pod stays alive if its kubelet restarts"
	case always && state.IsStatic(s.Pod) && t.Key == "" && t.Effect == corev1.TaintEffectNoExecute:
		return cliv1alpha1.OriginKubelet, "the kubelet, for every static pod"
	case always && state.IsOfDaemonSet(s.Pod) && t.Effect != "" && t.Effect == ofDaemons[t.Key]:
		return cliv1alpha1.OriginDaemonSetController, "the DaemonSet controller, for every pod of a DaemonSet"
	}
	noSchedule := always && t.Effect == corev1.TaintEffectNoSchedule
	return s.byAPIServer(i, noSchedule)
}

// byAPIServer says which admission plugin adds a toleration.
func (s *Subject) byAPIServer(i int, noSchedule bool) (origin cliv1alpha1.TolerationOrigin, detail string) {
	t, class := s.Pod.Spec.Tolerations[i], s.Pod.Status.QOSClass
	switch {
	case contains(s.namespaceDefaults(), t):
		return cliv1alpha1.OriginPodTolerationRestriction, "the API server, from the default tolerations of namespace " + s.Pod.Namespace
	case s.isDefaultSeconds(i):
		return cliv1alpha1.OriginDefaultTolerationSeconds, "the API server, for every pod without a toleration for " + strings.TrimPrefix(t.Key, "node.kubernetes.io/")
	case noSchedule && t.Key == corev1.TaintNodeMemoryPressure && class != "" && class != corev1.PodQOSBestEffort:
		return cliv1alpha1.OriginPodTolerationRestriction, fmt.Sprintf("the API server, for the pod's QoS class %s", class)
	case noSchedule && s.requests(t.Key):
		return cliv1alpha1.OriginExtendedResourceToleration, "the API server, because the pod requests " + t.Key
	}
	return "", ""
}

// namespaceDefaults are the tolerations that the admission plugin PodTolerationRestriction takes from an annotation of
// the namespace. If they cannot be read, the API server refuses every pod.
func (s *Subject) namespaceDefaults() (defaults []corev1.Toleration) {
	if s.Namespace != nil {
		_ = json.Unmarshal([]byte(s.Namespace.Annotations["scheduler.alpha.kubernetes.io/defaultTolerations"]), &defaults)
	}
	return defaults
}

// defaultSeconds is what DefaultTolerationSeconds adds unless a flag of the API server changes it.
const defaultSeconds = 300

// isDefaultSeconds reports whether DefaultTolerationSeconds adds this toleration, which it does if no earlier one
// tolerates the key. Since a flag of the API server sets the seconds, only the usual ones are evidence if there is no
// template.
func (s *Subject) isDefaultSeconds(i int) bool {
	t := &s.Pod.Spec.Tolerations[i]
	if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable ||
		t.Effect != corev1.TaintEffectNoExecute || t.Operator != corev1.TolerationOpExists ||
		t.TolerationSeconds == nil || *t.TolerationSeconds != defaultSeconds && s.Template == nil {
		return false
	}
	return !slices.ContainsFunc(s.Pod.Spec.Tolerations[:i], func(earlier corev1.Toleration) bool {
		return (earlier.Key == "" || earlier.Key == t.Key) && (earlier.Effect == "" || earlier.Effect == t.Effect)
	})
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

// writers notes who else wrote the pod's tolerations, according to its managed fields. kube-controller-manager creates
// the pods of workloads, so it is not worth mentioning.
func (s *Subject) writers() []string {
	others := slices.DeleteFunc(state.WritersOf(s.Pod.ManagedFields, "spec", "tolerations"), func(name string) bool {
		return name == "kube-controller-manager"
	})
	if len(others) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("According to its managed fields, the pod's own tolerations were last written by %s.", strings.Join(others, ", "))}
}
