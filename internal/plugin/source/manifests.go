// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// A check reads manifests from the folders of a repository: some of their files are no objects, and nothing has
// validated the others. It checks what it can read, and says what it did not.

// addManifest takes the pod template of an object, and notes which of its fields an API server would refuse.
func (c *collector) addManifest(source string, object *unstructured.Unstructured) {
	path := []string{"spec", "template"} // also of kinds that are not Kubernetes' own, such as Rollout
	kind, known := Workloads[object.GroupVersionKind().GroupKind()]
	if known {
		path = kind.template
	}
	template, found, err := unstructured.NestedMap(object.Object, path...)
	_, isPod, _ := unstructured.NestedMap(template, "spec")
	switch {
	case err != nil && known:
		c.flaw(source, object, false, fmt.Errorf("its pod template cannot be read: %w", err))
	case found && (known || isPod):
		if err := c.addTemplateOf(source, object, template, append(path, "spec")); err != nil {
			c.flaw(source, object, false, fmt.Errorf("its pod template cannot be read: %w", err))
			return
		}
		c.strictly(source, object)
	case object.GroupVersionKind().GroupKind() == state.Pods.GroupKind():
		c.strictly(source, object)
	case state.KindOf(object.GroupVersionKind().GroupKind()) == nil && hasTolerations(object.Object):
		c.foreign = append(c.foreign, fmt.Sprintf("%s %s", object.GetKind(), nameOf(object)))
	}
}

func (c *collector) addTemplateOf(
	source string, object *unstructured.Unstructured, template map[string]any, spec []string,
) error {
	if err := checkSeconds(object, spec...); err != nil {
		return err
	}
	pod := &corev1.Pod{}
	if err := convert(template, pod); err != nil {
		return err
	}
	pod.Namespace, pod.Name = namespaceOf(object), nameOf(object)
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil || !found {
		replicas = 1
	}
	c.cluster.Workloads = append(c.cluster.Workloads, state.WorkloadTemplate{
		CheckedObject: checked(object), Source: fileOf(source), Replicas: int(replicas), Pod: state.SlimPod(pod),
	})
	return nil
}

// strictly notes fields that the kind of an object does not have, or that a file has twice. Objects from a cluster have
// passed an API server, which may be newer.
func (c *collector) strictly(source string, object *unstructured.Unstructured) {
	if object.GetUID() != "" {
		return
	}
	if typed, err := scheme.Scheme.New(object.GroupVersionKind()); err == nil {
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true)
		if strict, ok := runtime.AsStrictDecodingError(err); ok {
			for _, unknown := range strict.Errors() {
				c.flaw(source, object, true, fmt.Errorf("the %w%s", unknown, meant(unknown)))
			}
		}
	}
	c.rereadYAML(source)
}

// rereadYAML notes the fields that objects of a file have twice, of which the last one counts.
func (c *collector) rereadYAML(source string) {
	if c.read[source] || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(source)) {
		return
	}
	if c.read == nil {
		c.read = map[string]bool{}
	}
	c.read[source] = true
	data, err := os.ReadFile(source)
	if err != nil {
		return // it was read a moment ago
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if err != nil {
			return
		}
		object := &unstructured.Unstructured{}
		_, err = yaml.YAMLToJSONStrict(document)
		if err == nil || yaml.Unmarshal(document, &object.Object) != nil || object.GetKind() == "" {
			continue
		}
		for line := range strings.Lines(err.Error()) {
			if _, twice, found := strings.Cut(strings.TrimSpace(line), ": key "); found {
				field, _, _ := strings.Cut(twice, " already set")
				c.flaw(source, object, true, fmt.Errorf("the field %s twice, and only the last one counts", field))
			}
		}
	}
}

func (c *collector) flaw(source string, object *unstructured.Unstructured, isRead bool, why error) {
	c.cluster.Flaws = append(c.cluster.Flaws, state.Flaw{
		Object: checked(object), Source: fileOf(source), IsRead: isRead, Why: why,
	})
}

// hasTolerations reports whether an object has a list of tolerations anywhere.
func hasTolerations(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if _, isList := field.([]any); isList && name == "tolerations" || hasTolerations(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasTolerations)
	}
	return false
}

// skip records which files are not objects, and returns the other errors. The errors of cli-runtime have no type.
func (c *collector) skip(unread error) error {
	many, ok := errors.AsType[utilerrors.Aggregate](unread)
	if !ok {
		many = utilerrors.NewAggregate([]error{unread})
	}
	if many == nil {
		return nil
	}
	var others []error
	for _, err := range utilerrors.Flatten(many).Errors() {
		name, isParsed := strings.CutPrefix(err.Error(), "error parsing ")
		name, isDecoded := strings.CutPrefix(name, "unable to decode ")
		name, _, _ = strings.Cut(name, ": ")
		if name = strings.Trim(name, `"`); !isParsed && !isDecoded || name == stdin {
			others = append(others, err)
		} else if !slices.Contains(c.skipped, name) {
			c.skipped = append(c.skipped, name)
		}
	}
	return utilerrors.NewAggregate(others)
}

// unchecked says which files and objects are not checked.
func (c *collector) unchecked() (all []string) {
	if len(c.skipped) > 0 {
		text := skipped(len(c.skipped), "file") + " that are no Kubernetes objects: " + sentence.Some(c.skipped) + "."
		if slices.ContainsFunc(c.skipped, func(name string) bool {
			return slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "templates")
		}) {
			text += " For a chart, pipe the output of 'helm template' into this command with '-f -'."
		}
		all = append(all, text)
	}
	if len(c.foreign) > 0 {
		all = append(all, fmt.Sprintf("%s with tolerations in a place that this command does not know: %s.",
			skipped(len(c.foreign), "object"), sentence.Some(c.foreign)))
	}
	return all
}

func skipped(number int, noun string) string { return "Not checked: " + sentence.Counted(number, noun) }

// meant suggests a field of a toleration that an unknown field resembles.
func meant(unknown error) string {
	path := strings.Trim(strings.TrimPrefix(unknown.Error(), "unknown field "), `"`)
	name := path[strings.LastIndex(path, ".")+1:]
	for _, known := range []string{"tolerations", "tolerationSeconds", "operator", "effect"} {
		if levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(known)) <= 2 && name != known {
			return fmt.Sprintf(" (did you mean %s?)", known)
		}
	}
	return ""
}

// trace records which file contains an object, so that findings can point to it.
func (c *collector) trace(source string, object *unstructured.Unstructured) {
	if !c.wants.Templates || source == stdin {
		return
	}
	if c.cluster.Sources == nil {
		c.cluster.Sources = map[cliv1alpha1.CheckedObject]string{}
	}
	c.cluster.Sources[checked(object)] = fileOf(source)
}

// fileOf returns the file of a source; it is empty for stdin.
func fileOf(source string) string {
	if source == stdin {
		return ""
	}
	return filepath.ToSlash(source)
}

// checked returns the name of an object in a check.
func checked(object *unstructured.Unstructured) cliv1alpha1.CheckedObject {
	return cliv1alpha1.CheckedObject{
		Owner: cliv1alpha1.Owner{Kind: object.GetKind(), Name: nameOf(object)}, Namespace: namespaceOf(object),
	}
}

// nameOf returns the name of an object, or what its name begins with.
func nameOf(object *unstructured.Unstructured) string {
	return cmp.Or(object.GetName(), object.GetGenerateName())
}

// namespaceOf returns the namespace of an object, or the one it would get: manifests of workloads need not name one.
func namespaceOf(object *unstructured.Unstructured) string {
	namespace := object.GetNamespace()
	if _, ok := Workloads[object.GroupVersionKind().GroupKind()]; ok && namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

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
