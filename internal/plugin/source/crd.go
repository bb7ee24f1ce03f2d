// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// policyRules are the API server's rules for an EvictionPolicy, checked with the API server's library.
type policyRules struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

var readPolicyRules = sync.OnceValues(func() (*policyRules, error) {
	objects, err := config.Objects(config.CRD)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		crd, ok := object.(*apiextensionsv1.CustomResourceDefinition)
		if ok && crd.Spec.Group == state.Policies.Group && crd.Spec.Names.Kind == state.Policies.Kind {
			return rulesOf(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		}
	}
	return nil, fmt.Errorf("there is no definition of %s", state.Policies.Kind)
})

func rulesOf(schema *apiextensionsv1.JSONSchemaProps) (*policyRules, error) {
	var props apiextensions.JSONSchemaProps
	convert := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps
	if err := convert(schema, &props, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &policyRules{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// validatePolicy returns the error that the API server would return for an EvictionPolicy from a file.
func validatePolicy(object map[string]any) error {
	rules, err := readPolicyRules()
	if err != nil {
		return fmt.Errorf("read the rules for EvictionPolicies: %w", err)
	}
	object = runtime.DeepCopyJSON(object)
	defaulting.Default(object, rules.structural)
	wrong := validation.ValidateCustomResource(nil, object, rules.schema)
	if len(wrong) == 0 {
		wrong, _ = rules.cel.Validate(
			context.Background(), nil, rules.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	var all []string
	for _, one := range wrong {
		says := one.ErrorBody()
		if one.Type == field.ErrorTypeInvalid && one.Detail != "" { // the value is the whole object if a rule fails
			says = one.Detail
		}
		all = append(all, one.Field+": "+says)
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}
