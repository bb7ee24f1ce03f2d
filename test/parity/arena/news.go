// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// News is what the API server tells those who watch, by resource. It must not be used concurrently; the watches
// that it gives may.
type News map[string]*bubble.Watches

func (n News) of(resource string) *bubble.Watches {
	if n[resource] == nil {
		n[resource] = &bubble.Watches{}
	}
	return n[resource]
}

// Interrupt ends all watches of a resource, as when their resource version is too old to go on from.
func (n News) Interrupt(resource string) { n.of(resource).Expire() }

// Tell reports a change of an object: before is nil for what came, after for what went. An object that went is reported
// with the version that the cluster then has.
func Tell[T any, O Object[T]](n News, resource string, before, after O, version int) {
	kind, object := watch.Modified, after
	switch {
	case before == nil:
		kind = watch.Added
	case after == nil:
		kind, object = watch.Deleted, O(new(*before))
		object.SetResourceVersion(strconv.Itoa(version))
	}
	n.of(resource).Tell("", kind, object)
}

// Watch answers a WATCH: first what is newer than the given resource version, then what comes.
func (n News) Watch(action clienttesting.Action) (watch.Interface, error) {
	var options metav1.ListOptions
	if action, ok := action.(clienttesting.WatchActionImpl); ok {
		options = action.ListOptions
	}
	return n.of(action.GetResource().Resource).Begin("", "", bubble.VersionOf(options.ResourceVersion))
}
