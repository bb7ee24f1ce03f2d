// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// names keeps the name of every node.
type names struct{}

func (names) Key(node *corev1.Node) (string, bool) { return node.Name, true }

func (names) Keep(change *Change[corev1.Node, string]) bool {
	change.After = new(change.Object.Name)
	return true
}

func (names) Drop(string, *string) {}

func named(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestWhatIsOfAnotherKindIsRefusedAndChangesNothing(t *testing.T) {
	tests := []struct {
		name string
		do   func(s listwatch.Store) error
		want string
	}{
		{"added", func(s listwatch.Store) error { return s.Add(&corev1.Pod{}) }, "the watch of nodes delivered a *v1.Pod"},
		{"updated", func(s listwatch.Store) error { return s.Update(nil) }, "the watch of nodes delivered a <nil>"},
		{"deleted", func(s listwatch.Store) error { return s.Delete(&metav1.Status{}) }, "the watch of nodes delivered a *v1.Status"},
		{"collected by the reflector", func(s listwatch.Store) error { return s.Replace([]any{named("b")}, "1") }, "of nodes should be empty, but has objects: 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := New("nodes", &cache.ListWatch{}, fake.NewClientset(), &timeline.Clock{}, names{})
			await.Must(t, c.Store().Add(named("a")))
			if err := test.do(c.Store()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
			if c.HasSynced() {
				t.Error("synced by a list that was refused")
			}
			if all := c.All(); len(all) != 1 || *all[0] != "a" {
				t.Errorf("%d records, want that of a alone", len(all))
			}
		})
	}
}
