// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Unlike objects from an API server, objects in files have not been validated. This rejects those that no API server
// would have.

// checks are what is checked before an object is converted, by kind.
var checks = map[*state.Kind]func(*unstructured.Unstructured) error{
	state.Pods:     func(pod *unstructured.Unstructured) error { return checkSeconds(pod, "spec") },
	state.Policies: checkPolicy,
}

// checkPolicy returns the error that the API server would return. It would ignore a field with a typo.
func checkPolicy(object *unstructured.Unstructured) error {
	if err := strict(object.Object, &v1alpha1.EvictionPolicy{}); err != nil {
		return err
	}
	return validatePolicy(object.Object)
}

// objectName identifies a node or a pod of a cluster.
type objectName struct{ kind, namespace, name string }

// knows reports whether an object was already taken: it has the same UID or, if files do not contain UIDs, the same
// name. It returns an error for a node or pod with the same name and another UID, because they cannot be from the same
// cluster. For check, whose files may be manifests, names are not compared, so objects without a UID all count.
func (c *collector) knows(object *unstructured.Unstructured) (bool, error) {
	uid, kind := object.GetUID(), object.GroupVersionKind().GroupKind()
	name := objectName{kind.Kind, object.GetNamespace(), object.GetName()}
	if uid != "" {
		switch seen, ok := c.seen[uid]; {
		case ok && seen == name:
			return true, nil
		case ok:
			return false, fmt.Errorf("%s %s has the same UID: give each object its own, or none", seen.kind, seen.name)
		}
		c.seen[uid] = name
	}
	if c.wants.Templates || kind != state.Nodes.GroupKind() && kind != state.Pods.GroupKind() {
		return false, nil
	}
	if object.GetName() == "" {
		return false, errors.New("it has no name")
	}
	known, ok := c.named[name]
	switch {
	case !ok:
		c.named[name] = uid
		return false, nil
	case known != uid:
		return false, errors.New("the files contain it twice, with different UIDs, so they are from two clusters or two points in time: plan with one of them at a time")
	}
	return true, nil
}

// checkTaints returns an error for taints that no node can have. A later Kubernetes may have other effects.
func checkTaints(all []corev1.Taint) error {
	for _, taint := range all {
		if taint.Effect == "" {
			return fmt.Errorf("taint %q has no effect", taints.Format(taint))
		}
		taint.Effect = corev1.TaintEffectNoExecute
		if _, err := taints.Parse(taints.Format(taint)); err != nil {
			return err
		}
	}
	return nil
}

// checkSeconds returns an error for tolerationSeconds that are not a whole number. The conversion would change them.
func checkSeconds(object *unstructured.Unstructured, path ...string) error {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, append(slices.Clone(path), "tolerations")...)
	tolerations, _ := value.([]any)
	for i, value := range tolerations {
		toleration, _ := value.(map[string]any)
		seconds, ok := toleration["tolerationSeconds"].(float64)
		if ok && (seconds != math.Trunc(seconds) || math.Abs(seconds) >= math.MaxInt64) {
			return fmt.Errorf("tolerationSeconds of tolerations[%d] is %g: write a whole number of seconds", i, seconds)
		}
	}
	return nil
}

// convert converts an object to a type. Its error names the field.
func convert(object map[string]any, typed any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed)
	if err == nil {
		return nil
	}
	data, broken := json.Marshal(object)
	if broken != nil {
		return err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(data, typed)); ok {
		return fmt.Errorf("%s has the type %s, but should have the type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// inFiles says what cannot be read in files, one short line each, because some errors quote their whole input.
func inFiles(err error) error {
	const most = 400
	var all []error
	if many, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		all = utilerrors.Flatten(many).Errors()
	} else {
		all = []error{err}
	}
	for i, one := range all {
		text, _, _ := strings.Cut(one.Error(), "\n")
		if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most {
			text = string(runes[:most]) + "…"
		}
		advice := ""
		if strings.HasPrefix(text, "unable to decode") || strings.HasPrefix(text, "error parsing") {
			advice = ": is it incomplete, or not an object that 'kubectl get -o yaml' wrote?"
		}
		all[i] = fmt.Errorf("read files: %s%s", text, advice)
	}
	return errors.Join(all...)
}

// strict is like convert, but rejects fields that the type does not have.
func strict(object map[string]any, typed any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true)
	if err == nil || runtime.IsStrictDecodingError(err) {
		return err
	}
	return convert(object, typed)
}
