// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/cli"
)

// boardCommand returns kubectl taintkeeper board, which prints its address.
func boardCommand(kubeconfig string, out io.Writer) *cobra.Command {
	command := cli.New(cli.Env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard}, Clock: clock.RealClock{}})
	command.SetArgs([]string{"board", "--kubeconfig=" + kubeconfig})
	return command
}

// openBoard starts kubectl taintkeeper board for the cluster, and returns its address and what ends it.
func (s *stage) openBoard(ctx context.Context) (address string, closeBoard func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	ended := make(chan struct{})
	board := boardCommand(s.kubeconfig, in)
	go func() {
		defer close(ended)
		err := board.ExecuteContext(ctx)
		if err != nil {
			fmt.Fprintf(os.Stderr, "the board has ended: %v\n", err)
		}
		_ = in.CloseWithError(err) // it never fails
	}()
	closeBoard = func() { cancel(); <-ended }
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		closeBoard()
		return "", nil, fmt.Errorf("open the board: %w", err)
	}
	return strings.TrimSpace(address), closeBoard, nil
}

// playBesideBoard plays the demo with the board open, which stays open at its end to be looked at.
func playBesideBoard(ctx context.Context, s *stage) error {
	address, closeBoard, err := s.openBoard(ctx)
	if err != nil {
		return err
	}
	defer closeBoard()
	s.title("The board: " + address)
	s.say("")
	if err := playDemo(ctx, s); err != nil {
		return err
	}
	s.say("")
	s.say("The board stays open until Ctrl-C: %s", address)
	<-ctx.Done()
	return nil
}
