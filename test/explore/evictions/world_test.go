// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/test/explore"
)

// everything is what Taintkeeper promises to bear.
var everything = []string{Taint, Untaint, Tolerate, DeletePod, Crash, Stop, Pause, Refuse, Lose}

func world(size Size) func() explore.World { return func() explore.World { return New(size) } }

// In these worlds, every history was walked, and what breaks a promise is a gap that docs/coexistence.md describes.
func TestNothingButDocumentedGapsBreaksAPromise(t *testing.T) {
	for name, test := range map[string]struct {
		size Size
		gaps []string
		long bool
	}{
		"two replicas, two of everything": {
			size: Size{Replicas: 2, Disturbances: 2, Kinds: everything},
			gaps: []string{BuiltInDeletesNext},
		},
		"one replica, three of everything": {
			size: Size{Replicas: 1, Disturbances: 3, Pods: []string{"web"}, Kinds: everything},
			gaps: []string{BuiltInDeletesUnrecorded, BuiltInDeletesNext, BuiltInWaits},
		},
		"taints that come and go": {
			size: Size{Replicas: 1, Disturbances: 3, Pods: []string{"db"}, Taints: []string{"out"}, Kinds: []string{Taint, Untaint, Crash}},
			gaps: []string{BuiltInDeletesUnrecorded, BuiltInDeletesNext, BuiltInWaits},
		},
		"one replica crashes and starts": {
			size: Size{Replicas: 1, Disturbances: 4, Pods: []string{"web"}, Taints: []string{"out"}, Kinds: []string{Taint, Crash}},
			gaps: []string{BuiltInDeletesNext, BuiltInWaits},
		},
		"three of everything to a pod that tolerates for a while": {
			size: Size{Replicas: 1, Disturbances: 3, Pods: []string{"db"}, Kinds: everything},
			gaps: []string{BuiltInDeletesUnrecorded, BuiltInDeletesNext, BuiltInDeletesAlone, BuiltInWaits}, long: true,
		},
		"two replicas, three of everything": {
			size: Size{Replicas: 2, Disturbances: 3, Pods: []string{"web"}, Kinds: everything},
			gaps: []string{BuiltInDeletesUnrecorded, BuiltInDeletesNext}, long: true,
		},
	} {
		if test.long && testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			begin := world(test.size)
			undocumented := func(promise string) bool { return !slices.Contains(test.gaps, promise) }
			is := explore.Search{New: begin, Until: undocumented}.Walk()
			t.Logf("%d states, %d steps, at most %d in a history", is.States, is.Steps, is.Depth)
			for promise, history := range is.Broken {
				if undocumented(promise) {
					t.Errorf("%s:\n%s", promise, strings.Join(history.Timeline(begin), "\n"))
				}
			}
			for _, gap := range test.gaps {
				if is.Broken[gap] == nil {
					t.Errorf("the gap is not there: %s", gap)
				}
			}
		})
	}
}

// Docs/coexistence.md describes the gaps. Each is found in a world in which it can exist, as a history that shows it.
func TestEachDocumentedGapIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		size    Size
		promise string
	}{
		"tainted while nobody runs":    {Size{Replicas: 1, Pods: []string{"db"}, Disturbances: 3, Kinds: []string{Taint, Stop}}, BuiltInWaits},
		"untaint that nobody recorded": {Size{Replicas: 1, Disturbances: 3, Kinds: []string{Taint, Untaint, Crash}}, BuiltInDeletesUnrecorded},
		"due after the last replica died": {
			Size{Replicas: 1, Disturbances: 3, Pods: []string{"db"}, Kinds: []string{Taint, Crash, DeletePod}}, BuiltInDeletesAlone,
		},
		"delete after the mark": {Size{Replicas: 1, Disturbances: 3, Pods: []string{"web", "db"}, Kinds: []string{Taint, Crash, DeletePod}}, BuiltInDeletesNext},
		"no admission policy":   {Size{Replicas: 1, Disturbances: 2, Kinds: []string{Taint, RemovePolicy}}, BuiltInDeletesFreely},
	} {
		t.Run(name, func(t *testing.T) {
			begin := world(test.size)
			is := explore.Search{New: begin, Until: func(promise string) bool { return promise == test.promise }}.Walk()
			history, found := is.Broken[test.promise]
			if !found {
				t.Fatalf("not found in %d states", is.States)
			}
			golden(t, strings.ReplaceAll(name, " ", "-"), history.Timeline(begin))
		})
	}
}

// golden compares lines with a file in testdata, or writes it if UPDATE_HISTORIES is set.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path, text := filepath.Join("testdata", name+".txt"), strings.Join(lines, "\n")+"\n"
	if os.Getenv("UPDATE_HISTORIES") != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("another history (-want +got):\n%s", diff)
	}
}

// Without the record of the built-in's backlog, its old tries delete pods that took the names of evicted ones.
func TestWithoutTheRecordThereAreWrongDeletes(t *testing.T) {
	begin := world(Size{Replicas: 1, Disturbances: 2, Kinds: []string{Taint, Crash}, Unrecorded: true})
	is := explore.Search{New: begin, Until: func(promise string) bool { return promise == BuiltInDeletes }}.Walk()
	if is.Broken[BuiltInDeletes] == nil {
		t.Fatalf("not found in %d states", is.States)
	}
	golden(t, "without-the-record", is.Broken[BuiltInDeletes].Timeline(begin))
}

// A search goes on from copies, and a timeline is played from the beginning: both must be the same world.
func TestACopyIsTheSameWorld(t *testing.T) {
	begin := world(Size{Replicas: 2, Disturbances: 4, Kinds: append(everything, RestartKCM, RemovePolicy)})
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(46, seed))
		var history explore.History
		copied := begin()
		for range 60 {
			step := uint8(random.IntN(len(copied.Steps())))
			history = append(history, step)
			before := copied
			copied = before.Clone()
			was := before.Fingerprint()
			copied.Steps()[step]()
			if before.Fingerprint() != was {
				t.Fatalf("seed %d: a step of a copy changes the original:\n%s", seed, strings.Join(history.Timeline(begin), "\n"))
			}
		}
		if history.Replay(begin).Fingerprint() != copied.Fingerprint() {
			t.Fatalf("seed %d: a copy of a copy is not what the history leads to", seed)
		}
	}
}
