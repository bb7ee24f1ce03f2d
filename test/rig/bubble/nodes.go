// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// DescribeWrites has words for the calls that change something: patches and events.
func DescribeWrites(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.PatchActionImpl:
		return fmt.Sprintf("patch %s %s/%s", action.Resource.Resource, action.Name, action.Subresource)
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			return fmt.Sprintf("event %s %s %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	return ""
}

// LockNodes gives patches of nodes the optimistic lock of the API server, which the fake clientset has not: one of
// another version is refused, and each makes a new one. They are noted in the book.
func LockNodes(client *fake.Clientset, book *Book) {
	client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		book.Note(action)
		patch := action.(clienttesting.PatchActionImpl)
		object, err := client.Tracker().Get(patch.Resource, "", patch.Name)
		if err != nil {
			return true, nil, err
		}
		version := object.(*corev1.Node).ResourceVersion
		said := fmt.Sprintf("%q:%q", "resourceVersion", version)
		if !strings.Contains(string(patch.Patch), said) {
			return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), patch.Name, errors.New("it was changed"))
		}
		next := fmt.Sprintf("%q:%q", "resourceVersion", NextVersion(version))
		patch.Patch = []byte(strings.Replace(string(patch.Patch), said, next, 1))
		return clienttesting.ObjectReaction(client.Tracker())(patch)
	})
}

// NextVersion is the resource version after another.
func NextVersion(version string) string {
	number, _ := strconv.Atoi(version)
	return strconv.Itoa(number + 1)
}

// TaintsOf returns the taints of a node as key:Effect, in alphabetical order, without the prefix of Kubernetes' own.
func TaintsOf(node *corev1.Node) []string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, strings.TrimPrefix(taint.ToString(), "node.kubernetes.io/"))
	}
	slices.Sort(all)
	return all
}
