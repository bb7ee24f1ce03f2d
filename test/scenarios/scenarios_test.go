// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func TestMain(m *testing.M) { bubble.Main(m) }

func TestOursKeepsWhatIsPromisedInEachScenario(t *testing.T) {
	for _, s := range All {
		t.Run(s.Name, func(t *testing.T) {
			found := scenario.PlayVirtually(t, scenario.Ours, s)
			t.Log(found)
			if !found.Right {
				t.Error(found)
			}
		})
	}
}
