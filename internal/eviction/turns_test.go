// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"testing"
	"time"
)

func TestTurns(t *testing.T) {
	var turns turns
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %d, want %d", what, got, want)
		}
	}
	want("the turn of a node's first pod", turn(turns.rank("n", 40)), 0)
	want("the turn of its second", turn(turns.rank("n", 40)+1), 1)
	want("the turn of its 17th", turn(turns.rank("n", 40)+16), 1)
	want("the turn of its 18th", turn(turns.rank("n", 40)+17), 2)
	for range 40 {
		turns.begin("n")
	}
	want("the rank of the first of those that are left", turns.rank("n", 30), 40)
	turns.serve(2)
	want("the turn of a node whose pods come late", turn(turns.rank("late", 5)), 2)
	turns.begin("late")
	want("the turn of its next", turn(turns.rank("late", 4)), 3)
	want("the rank of a node without pods", turns.rank("n", 0), 0)
	want("its turn when it has some again", turn(turns.rank("n", 1)), 2)
	turns.rank("n", 0)
	turns.rank("late", 0)
	want("the rank of a node after all were idle", turns.rank("late", 1), 0)
}

// A read serves for half a second: with 50 nodes and 50 ms a call, 16 slots need 2.5 s for a pod of each of them.
func TestANodeIsReadOncePerTurnAndNotOncePerPod(t *testing.T) {
	playMany(t, func(t *testing.T, w *world) {
		server := w.slow(func(string, string) (time.Duration, error) { return 50 * ms, nil })
		const nodes, perNode = 50, 48
		for i := range nodes {
			w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
		}
		for i := range nodes * perNode {
			w.addPod(fmt.Sprint("p-", i), onNode(fmt.Sprint("n", i%nodes)))
		}
		w.run(server.behind)
		w.pass(time.Minute)
		if got := len(w.deleted()); got != nodes*perNode {
			t.Errorf("%d pods left, want all %d", got, nodes*perNode)
		}
		reads := 0
		for _, action := range w.client.Actions() {
			if action.Matches("get", "nodes") {
				reads++
			}
		}
		if most := nodes * (1 + perNode/podsPerTurn*2); reads > most {
			t.Errorf("the nodes were read %d times, want %d at most: for the first pod of each, and twice in a turn", reads, most)
		}
	})
}
