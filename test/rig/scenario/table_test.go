// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestATableSaysWhatIsPromisedAndWhatWasSeen(t *testing.T) {
	var began time.Time
	tables := map[time.Duration][]string{}
	note := func(at time.Duration) Step {
		return Steps(At("node", at), func(_ context.Context, p *Play) error {
			tables[at] = Table(p.Rows(began))
			return nil
		})
	}
	story := Scenario{
		Given: []Step{
			Node("node"), On("node", "settled", scene.Indefinitely("gone"), scene.Indefinitely("hot")), Alone("elsewhere"),
			On("node", "first", scene.Tolerating("gone", 3), scene.Indefinitely("")),
			On("node", "sooner", scene.Tolerating("gone", 9), scene.Tolerating("hot", 1)), On("node", "at-once"),
			On("node", "spared", scene.Tolerating("gone", 30), scene.Indefinitely("hot")),
			func(context.Context, *Play) error { began = time.Now(); return nil },
		},
		When: []Step{
			Taint("node", "gone"), note(2 * time.Second), Taint("node", "hot"), At("node", 5*time.Second),
			Untaint("node", "gone"), note(6 * time.Second),
		},
		Promised: []Check{ByRule, ByContestant},
	}
	if found, err := PlayVirtually(t, Ours, story); err != nil || !found.Right {
		t.Fatalf("%v, %v", found, err)
	}
	want := map[time.Duration][]string{
		2 * time.Second: {
			"POD        NODE               TOLERATES                 DUE       LEFT AT    LATENESS",
			"at-once    virtual-node       -                         0.000 s   0.000 s    0 ms",
			"first      virtual-node       gone for 3 s, everything  3.000 s   in 1.0 s   -",
			"sooner     virtual-node       gone for 9 s              9.000 s   in 7.0 s   -",
			"spared     virtual-node       gone for 30 s             30.000 s  in 28.0 s  -",
			"elsewhere  virtual-elsewhere  -                         never     stays      -",
			"settled    virtual-node       gone                      never     stays      -",
		},
		6 * time.Second: {
			"POD        NODE               TOLERATES                  DUE                   LEFT AT  LATENESS",
			"at-once    virtual-node       -                          0.000 s               0.000 s  0 ms",
			"first      virtual-node       gone for 3 s, everything   3.000 s               3.000 s  0 ms",
			"sooner     virtual-node       gone for 9 s, hot for 1 s  3.000 s, was 9.000 s  3.000 s  0 ms",
			"spared     virtual-node       gone for 30 s, hot         was 30.000 s          stays    -",
			"elsewhere  virtual-elsewhere  -                          never                 stays    -",
			"settled    virtual-node       gone, hot                  never                 stays    -",
		},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Error(diff)
	}
}
