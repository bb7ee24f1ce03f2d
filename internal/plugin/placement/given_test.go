// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// notGiven are the kinds that plugins list but a plan does not have, and why the plugins do not need them.
var notGiven = map[string]string{
	"v1 Node":                              "the volume binder's; filters and scores read the snapshot, which has all nodes",
	"v1 Pod":                               "the volume binder's, which reads it when it binds; nothing is bound here",
	"storage.k8s.io/v1 CSIDriver":          "says whether the free capacity of storage counts, which a note says is not asked",
	"storage.k8s.io/v1 CSIStorageCapacity": "the free capacity of storage, which a note says is not asked",
	"storage.k8s.io/v1 VolumeAttachment":   "volumes that are attached although no pod of the node has them",
}

func TestPluginsAreGivenWhatTheyList(t *testing.T) {
	initScheduler()
	asked := informers.NewSharedInformerFactory(nil, 0)
	empty := schedulercache.NewEmptySnapshot()
	if _, err := newFramework(t.Context(), asked, &scheduler{snapshot: empty, counted: &counted{SharedLister: empty}}, scoreOthers); err != nil {
		t.Fatal(err)
	}
	given, err := informersOf(&state.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(slices.Concat(informed(given), slices.Collect(maps.Keys(notGiven)))))
	if got := informed(asked); !slices.Equal(got, want) {
		t.Errorf("plugins list\n\t%q, and they are given, or known to do without,\n\t%q", got, want)
	}
}

// informed returns the kinds for which a factory has informers.
func informed(factory informers.SharedInformerFactory) []string {
	var all []string
	seen := map[reflect.Type]bool{} // types such as ListOptions belong to many kinds
	for kind, is := range scheme.Scheme.AllKnownTypes() {
		object, err := scheme.Scheme.New(kind)
		if err != nil || seen[is] {
			continue
		}
		seen[is] = true
		known := true
		factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			known = false
			return cache.NewSharedIndexInformer(&cache.ListWatch{}, object, 0, nil)
		})
		if known {
			all = append(all, kind.GroupVersion().String()+" "+kind.Kind)
		}
	}
	slices.Sort(all)
	return all
}
