// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// Now is the instant at which the plans and simulations of tests and pictures are made. The example cluster is in its
// state at that time.
var Now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// Print returns what kubectl taintkeeper prints with these arguments.
func Print(args ...string) ([]byte, error) {
	var out, errOut bytes.Buffer
	command := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		Clock:     clocktesting.NewFakePassiveClock(Now),
	})
	command.SetArgs(args)
	if err := command.Execute(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return out.Bytes(), nil
}
