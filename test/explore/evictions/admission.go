// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/taintkeeper/taintkeeper/config"
)

// admissionPolicy is a ValidatingAdmissionPolicy, compiled and evaluated with the API server's own code
// (compilePolicy in k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go).
type admissionPolicy struct {
	validator validating.Validator
	known     sync.Map // what it said about updates before
}

// coexistence is the policy that keeps the built-in from marking pods.
var coexistence = sync.OnceValue(func() *admissionPolicy {
	policy, err := admissionPolicyOf(config.Coexistence, "taintkeeper-coexistence")
	if err != nil {
		panic(err)
	}
	return policy
})

// admissionPolicyOf compiles a policy of a manifest.
func admissionPolicyOf(manifest []byte, name string) (*admissionPolicy, error) {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		err := documents.Decode(&policy)
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("the manifest has no ValidatingAdmissionPolicy %s", name)
		case err != nil:
			return nil, err
		case policy.Kind == "ValidatingAdmissionPolicy" && policy.Name == name:
			return compile(&policy)
		}
	}
}

func compile(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (*admissionPolicy, error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	const mode = environment.StoredExpressions
	declared := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, mode)
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	fails := policy.Spec.FailurePolicy
	compiled := func(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(all, declared, mode)
	}
	matcher := matchconditions.NewMatcher(compiled(conditions), fails, "policy", "validate", policy.Name)
	return &admissionPolicy{validator: validating.NewValidator(
		compiled(validations), matcher, compiled(nil), compiled(messages), fails, nil,
	)}, nil
}

// update is an update of the status of a pod.
type update struct {
	before, after *corev1.Pod
	params        *corev1.ServiceAccount
}

// refuses returns why an update is refused; empty if it is not. The key identifies the update.
func (p *admissionPolicy) refuses(key any, updates func() update) string {
	if said, known := p.known.Load(key); known {
		return said.(string)
	}
	said := p.validate(updates())
	p.known.Store(key, said)
	return said
}

func (p *admissionPolicy) validate(u update) string {
	before, after := u.before, u.after
	resource, kind := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod")
	attributes := admission.NewAttributesRecord(after, before, kind, after.Namespace, after.Name, resource, "status",
		admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "system:kube-controller-manager"})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind}
	versioned.VersionedObject.Set(after)
	versioned.VersionedOldObject.Set(before)
	const budget = apiservercel.RuntimeCELCostBudget
	result := p.validator.Validate(context.Background(), resource, versioned, u.params, nil, budget, nil)
	for _, decision := range result.Decisions {
		if decision.Action == validating.ActionDeny {
			return decision.Message
		}
	}
	return ""
}
