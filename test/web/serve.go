// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// Serve runs kubectl taintkeeper board with some flags, and returns the address that it prints. It serves until the
// context ends or end is called, which returns why it ended if that is an error.
func Serve(ctx context.Context, flags ...string) (address string, end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: in, ErrOut: io.Discard}
	env := cmd.Env{IOStreams: streams, Clock: clock.RealClock{}}
	command := cmd.New(env) //nolint:contextcheck // cobra passes the context on
	command.SetArgs(slices.Concat([]string{"board"}, flags))
	ended := make(chan error, 1)
	go func() {
		err := command.ExecuteContext(ctx)
		_ = in.CloseWithError(err) // it never fails
		ended <- err
	}()
	end = func() error { cancel(); return <-ended }
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("open the board: %w", err)
	}
	return strings.TrimSpace(address), end, nil
}
