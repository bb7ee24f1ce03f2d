// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector selects objects by their labels, like Kubernetes' label selectors. An object must match all parts.
type Selector struct {
	// Labels and their values.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$') && (key.contains('/') ? key.split('/')[0].size() <= 253 && key.split('/')[1].size() <= 63 : key.size() <= 63))",message="a key is not a valid label key: it must be a name of at most 63 characters, after a DNS prefix of at most 253 and a slash if there is one"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// Requirements on labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []SelectorRequirement `json:"matchExpressions,omitempty"`
}

// SelectorRequirement is a requirement on a label.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",message="the operators In and NotIn need values; Exists and DoesNotExist take none"
type SelectorRequirement struct {
	// The key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.contains('/') ? self.split('/')[0].size() <= 253 && self.split('/')[1].size() <= 63 : self.size() <= 63",message="it must be a name of at most 63 characters, after a prefix of at most 253 and a slash if there is one"
	Key string `json:"key"`

	// In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// The values, for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Values []LabelValue `json:"values,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// Compile converts the selector to Kubernetes' own type. A nil selector selects everything. The API server refuses
// selectors for which this returns an error, except in objects that it accepted before it knew that rule.
func (s *Selector) Compile() (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	said := &metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for key, value := range s.MatchLabels {
		said.MatchLabels[key] = string(value)
	}
	for _, requirement := range s.MatchExpressions {
		next := metav1.LabelSelectorRequirement{Key: requirement.Key, Operator: requirement.Operator}
		for _, value := range requirement.Values {
			next.Values = append(next.Values, string(value))
		}
		said.MatchExpressions = append(said.MatchExpressions, next)
	}
	return metav1.LabelSelectorAsSelector(said)
}
