// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
)

// Object is a pointer to an object of the API.
type Object[T any] interface {
	*T
	metav1.Object
	runtime.Object
}

// Put replaces the object with a name, or removes it if after is nil. The change gets the next version of the cluster,
// and is passed to changed: before is nil for a new object.
func Put[T any, O Object[T]](objects map[string]O, version *int, name string, after O, changed func(before, after O)) {
	before := objects[name]
	if before == nil && after == nil {
		return
	}
	*version++
	delete(objects, name)
	if after != nil {
		after.SetResourceVersion(strconv.Itoa(*version))
		objects[name] = after
	}
	changed(before, after)
}

// Sorted returns the values of a map in the order of its keys.
func Sorted[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// Patched returns an object after a patch. If the patch names a UID or a resource version, the result has them. They
// are preconditions, and the caller checks them.
func Patched[T any, O Object[T]](before O, action clienttesting.PatchActionImpl) (O, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	merged, err := merge(old, action, *before)
	if err != nil {
		return nil, err
	}
	after := O(new(T))
	if err := json.Unmarshal(merged, after); err != nil {
		return nil, err
	}
	return after, nil
}

func merge(old []byte, action clienttesting.PatchActionImpl, schemaOf any) ([]byte, error) {
	switch action.PatchType {
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(old, action.Patch, schemaOf)
	case types.MergePatchType:
		return jsonpatch.MergePatch(old, action.Patch)
	}
	return nil, Unexpected(action)
}

// Unexpected is the answer to a call that no contestant should make.
func Unexpected(action clienttesting.Action) error {
	return apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), action.GetVerb())
}
