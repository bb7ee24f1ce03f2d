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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/taintkeeper/taintkeeper/taints"
)

// Nobody has checked the objects of files, as an API server does: what no API server would have is refused here.

var (
	nodeKind = schema.GroupKind{Kind: "Node"}
	podKind  = schema.GroupKind{Kind: "Pod"}
	jobKind  = schema.GroupKind{Group: "batch", Kind: "Job"}
)

// objectName tells the nodes and pods of a cluster apart.
type objectName struct{ kind, namespace, name string }

// knows reports whether an object was taken already: it has the same UID or, if files leave that out, the same name. A
// node or pod that has another UID makes no cluster with the first. Manifests are not a cluster yet, and all of them
// count.
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
	if c.wants.Templates || kind != nodeKind && kind != podKind {
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
		return false, errors.New("the files hold it twice, with different UIDs: they are from two clusters, or from two times; plan with one of them at a time")
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

// checkSeconds returns an error for tolerationSeconds that are no whole number. Converted, they would be another
// number.
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

// convert fills a typed object. An error names the field.
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
		return fmt.Errorf("%s is %s, and should be %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// inFiles says what cannot be read of files, each on a line of its own, and short: some errors quote all that they were
// given.
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
			advice = ": is it cut off, or no object as 'kubectl get -o yaml' writes it?"
		}
		all[i] = fmt.Errorf("read files: %s%s", text, advice)
	}
	return errors.Join(all...)
}

// strict is convert that refuses fields that a type does not have.
func strict(object map[string]any, typed any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true)
	if err == nil || runtime.IsStrictDecodingError(err) {
		return err
	}
	return convert(object, typed)
}
