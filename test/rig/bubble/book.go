// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Call is a recorded call.
type Call struct {
	What string
	At   time.Duration // since the Book was made
}

// Book records the calls of a client that a test is interested in. It is safe for concurrent use.
type Book struct {
	client   *fake.Clientset
	describe func(clienttesting.Action) string
	begun    time.Time

	mu    sync.Mutex
	calls []Call
}

// NewBook makes a Book of all calls of a client for which describe returns a description.
func NewBook(client *fake.Clientset, describe func(clienttesting.Action) string) *Book {
	b := &Book{client: client, describe: describe, begun: time.Now()}
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		b.Note(action)
		return false, nil, nil
	})
	return b
}

// Note records a call that the Book does not see because a reactor that was added later answers it.
func (b *Book) Note(action clienttesting.Action) {
	what := b.describe(action)
	if what == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, Call{what, time.Since(b.begun)})
}

// Refuse answers the calls of a verb on a resource, or on its subresource, with an error as long as answer returns one.
// They are recorded like any other call.
func (b *Book) Refuse(verb, resource, subresource string, answer func() error) {
	b.client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != subresource {
			return false, nil, nil
		}
		if err := answer(); err != nil {
			b.Note(action)
			return true, nil, err
		}
		return false, nil, nil
	})
}

// Calls returns all calls in their order.
func (b *Book) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// When returns the instants of the calls whose description begins with the given words.
func (b *Book) When(words string) []time.Duration {
	var at []time.Duration
	for _, call := range b.Calls() {
		if strings.HasPrefix(call.What, words) {
			at = append(at, call.At)
		}
	}
	return at
}

// Forget empties the list of calls. Instants still count from when the Book was made.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = nil
}
