// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// quotas are the ResourceQuotas of namespaces, and what their pods use: pods, requests and limits, as the API server
// counts them (pkg/quota/v1/evaluator/core). A controller whose pod is refused tries again. Terminating pods count
// until they are gone. Ignored are other objects, the scope CrossNamespacePodAffinity, and that a quota may require
// pods to have requests.
type quotas map[string][]*quota

type quota struct {
	*corev1.ResourceQuota

	used    corev1.ResourceList
	refuses bool // it has refused a pod, and no pod has left it since then
}

func quotasOf(cluster *state.Cluster) quotas {
	all := quotas{}
	for _, object := range cluster.Quotas {
		all[object.Namespace] = append(all[object.Namespace], &quota{ResourceQuota: object, used: corev1.ResourceList{}})
	}
	return all
}

// admit counts a pod that its controller creates, unless a quota refuses it, and then says why. It admits a pod once.
func (q quotas) admit(p *pod) string {
	if p.charged != nil {
		return ""
	}
	for _, is := range q.of(p.Pod) {
		if name := is.exceeded(usageOf(p.Pod)); name != "" {
			is.refuses = true
			return fmt.Sprintf("Quota %s/%s allows no more %s.", is.Namespace, is.Name, name)
		}
	}
	q.charge(p)
	return ""
}

// charge counts a pod that exists.
func (q quotas) charge(p *pod) {
	p.charged = append([]*quota{}, q.of(p.Pod)...)
	for _, is := range p.charged {
		is.change((*resource.Quantity).Add, usageOf(p.Pod))
	}
}

// release counts a pod no more, and reports whether others may have waited for that.
func (q quotas) release(p *pod) (waited bool) {
	for _, is := range p.charged {
		is.change((*resource.Quantity).Sub, usageOf(p.Pod))
		waited, is.refuses = waited || is.refuses, false
	}
	p.charged = p.charged[:0]
	return waited
}

// of returns the quotas in which a pod counts.
func (q quotas) of(pod *corev1.Pod) (all []*quota) {
	for _, is := range q[pod.Namespace] {
		if is.counts(pod) {
			all = append(all, is)
		}
	}
	return all
}

// counts reports whether a pod is in all scopes of the quota.
func (q *quota) counts(pod *corev1.Pod) bool {
	for _, scope := range q.Spec.Scopes {
		if !inScope(pod, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	return q.Spec.ScopeSelector == nil || !slices.ContainsFunc(q.Spec.ScopeSelector.MatchExpressions,
		func(is corev1.ScopedResourceSelectorRequirement) bool { return !inScope(pod, is) })
}

func inScope(pod *corev1.Pod, scope corev1.ScopedResourceSelectorRequirement) bool {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.Spec.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.Spec.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(scope, pod.Spec.PriorityClassName)
	}
	return false
}

// selects reports whether the name of a PriorityClass, which may be empty, is in the scope of a quota.
func selects(scope corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch scope.Operator {
	case corev1.ScopeSelectorOpIn:
		return slices.Contains(scope.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(scope.Values, class)
	case corev1.ScopeSelectorOpExists:
		return class != ""
	}
	return class == ""
}

// isBestEffort reports whether a pod requests no CPU and no memory, and has no limit for them.
func isBestEffort(pod *corev1.Pod) bool {
	uses := usageOf(pod)
	requested := func(name corev1.ResourceName) bool {
		used := uses[name]
		return !used.IsZero()
	}
	return !slices.ContainsFunc([]corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	}, requested)
}

// exceeded returns the first resource of which there would be too much with one more pod, or an empty string.
func (q *quota) exceeded(uses corev1.ResourceList) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		more := uses[name]
		if more.IsZero() {
			continue
		}
		more = more.DeepCopy()
		more.Add(q.used[name])
		if more.Cmp(q.Spec.Hard[name]) > 0 {
			return name
		}
	}
	return ""
}

// change adds what a pod uses to what is used, or subtracts it.
func (q *quota) change(by func(*resource.Quantity, resource.Quantity), uses corev1.ResourceList) {
	for name, used := range uses {
		sum := q.used[name]
		by(&sum, used)
		q.used[name] = sum
	}
}

// usageOf returns what quotas count of a pod. One that has finished is only an object.
func usageOf(pod *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	uses := corev1.ResourceList{"count/pods": one}
	if state.IsFinished(pod) {
		return uses
	}
	uses[corev1.ResourcePods] = one
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	for name, requested := range resourcehelper.PodRequests(pod, options) {
		uses[name], uses[corev1.DefaultResourceRequestsPrefix+name] = requested, requested
	}
	for name, limit := range resourcehelper.PodLimits(pod, options) {
		uses["limits."+name] = limit
	}
	return uses
}
