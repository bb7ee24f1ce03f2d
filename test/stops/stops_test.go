// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"testing"
	"time"
)

func TestACleanStopDuringAStormDeletesNoPodThatReplacedAnEvictedOne(t *testing.T) {
	s := newScene(t, setting{due: 80, credentials: true})
	s.taint()
	s.evicted()
	s.leaves(20)
	s.stop()
	s.noneWrong()
}

// The clock is stale half a minute after the kill.
func TestAKillDuringAStormDeletesNoPodThatReplacedAnEvictedOne(t *testing.T) {
	s := newScene(t, setting{due: 120, credentials: false})
	s.taint()
	s.evicted()
	s.kill()
	s.leaves(80)
	s.noneWrong()
}

func TestAStopAfterAnUntaintDeletesNoPodOfTheNode(t *testing.T) {
	s := newScene(t, setting{due: 80, credentials: true})
	s.taint()
	s.after(200 * time.Millisecond)
	s.untaint()
	s.after(3 * time.Second)
	s.leaves(20)
	s.stop()
	s.noneWrong()
}
