// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

func TestQuietErrorsAreWrittenOnlyAtLevelOne(t *testing.T) {
	for level, want := range [][]string{
		{`"level"=0 "msg"="said" "controller"="c"`},
		{`"level"=0 "msg"="said" "controller"="c"`, `"level"=1 "msg"="Reconciler error" "controller"="c" "node"="n" "error"="refused"`},
	} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: level})
		log = QuietErrors(log).WithName("name").WithValues("controller", "c")
		log.Info("said")
		log.Error(errors.New("refused"), "Reconciler error", "node", "n")
		if !slices.Equal(lines, want) {
			t.Errorf("at level %d it writes %q, want %q", level, lines, want)
		}
	}
	QuietErrors(logr.Discard()).Error(errors.New("refused"), "Reconciler error")
}
