// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pendingcmd

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// troubleEvery is how often a broken watch is noted while it stays broken.
const troubleEvery = time.Minute

// breaks notes broken watches, at most once per kind and troubleEvery.
type breaks struct {
	clock clock.PassiveClock
	note  func(sentence string)
	noted map[string]time.Time // by kind
}

func newBreaks(clock clock.PassiveClock, note func(sentence string)) *breaks {
	return &breaks{clock: clock, note: note, noted: map[string]time.Time{}}
}

// tell notes that the watch of a kind is broken, and why.
func (b *breaks) tell(kind string, err error) {
	if now := b.clock.Now(); now.Sub(b.noted[kind]) >= troubleEvery {
		b.noted[kind] = now
		b.note(fmt.Sprintf("The watch of %s broke (%v). Until it is restarted, you see the last known state.", kind, err))
	}
}
