// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/taintkeeper/taintkeeper/test/web"
)

// withBoard serves kubectl taintkeeper board for the cluster while something is shown.
func (s *stage) withBoard(ctx context.Context, show func(address string) error) error {
	address, end, err := web.Serve(ctx, "--kubeconfig="+s.kubeconfig)
	if err != nil {
		return err
	}
	return errors.Join(show(address), end())
}

// playWithBoard plays the demo with the board open. The board stays open afterwards, so that it can be looked at.
func playWithBoard(ctx context.Context, s *stage) error {
	return s.withBoard(ctx, func(address string) error {
		s.title("The board: " + address)
		s.say("")
		if err := playDemo(ctx, s); err != nil {
			return err
		}
		s.say("")
		s.say("The board stays open until Ctrl-C: %s", address)
		<-ctx.Done()
		return nil
	})
}
