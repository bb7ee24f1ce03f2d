// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestTheHelpNamesEveryKindInASnapshot(t *testing.T) {
	help := strings.ToLower(newSnapshot(command.Env{}, genericclioptions.NewConfigFlags(false)).Long)
	for _, kind := range state.Kinds {
		if !strings.Contains(help, kind.Resource) {
			t.Errorf("the help does not name %s", kind.Resource)
		}
	}
}
