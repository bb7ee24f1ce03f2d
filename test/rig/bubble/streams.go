// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Streaming returns a clientset that requests lists through watches, as a real one does. It hides that the fake one
// cannot stream.
func Streaming(client *fake.Clientset) kubernetes.Interface { return streaming{client} }

type streaming struct{ kubernetes.Interface }

// Streams are the watches that a client has begun, each of which the test feeds. They are safe for concurrent use.
type Streams struct {
	mu  sync.Mutex
	all []*watch.RaceFreeFakeWatcher
}

// StreamsOf makes the client answer every watch of a resource with one that the test feeds.
func StreamsOf(client *fake.Clientset, resource string) *Streams {
	s := &Streams{}
	client.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, watch.NewRaceFreeFake())
		return true, s.all[len(s.all)-1], nil
	})
	return s
}

// Newest returns the newest watch.
func (s *Streams) Newest() *watch.RaceFreeFakeWatcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[len(s.all)-1]
}

// Len returns how many watches were begun.
func (s *Streams) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Expired is what ends a watch from which one cannot continue: 410 Gone.
func Expired() *metav1.Status {
	return &apierrors.NewResourceExpired("too old resource version").ErrStatus
}

// EndOfList is the annotation of the bookmark that ends a streamed list.
func EndOfList() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		ResourceVersion: "9",
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}
}
