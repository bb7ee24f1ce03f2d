// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// Process is the process of a contestant, which a history starts and kills, one run after the other.
// It lives in one synctest bubble.
type Process struct {
	// T is the test of the bubble. It fails when a run ends with an error.
	T *testing.T
	// Run is what the process does until the context ends.
	Run func(context.Context) error

	stop func() // nil while it does not run
}

// Start starts the process, if it does not run, and lets what can happen happen.
func (p *Process) Start() {
	if p.stop != nil {
		return
	}
	p.stop = bubble.Run(p.T, "the contestant", p.Run)
}

// Kill ends the process, if it runs, and lets what can happen happen.
func (p *Process) Kill() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.stop = nil
	synctest.Wait()
}
