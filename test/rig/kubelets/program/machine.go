// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// up is the file that says that a machine has started. Each start has a new /run.
const up = "/run/up"

// machine is the first process of a machine. It takes over orphans, as init does, and forwards connections to an
// address of the machine, which has no network, to a socket file, behind which the rig is.
func machine(args []string) error {
	if len(args) != 2 {
		return errors.New("it wants an address and a socket")
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	go reap(notified(syscall.SIGCHLD))
	if err := os.WriteFile(up, nil, 0o600); err != nil {
		return err
	}
	for {
		from, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept connections: %w", err)
		}
		go forward(from.(*net.TCPConn), args[1])
	}
}

// reap takes note of the end of all children. One signal may be about several.
func reap(children <-chan os.Signal) {
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

// forward copies in both directions until both have ended. An error ends them, too.
func forward(from *net.TCPConn, socket string) {
	defer from.Close()
	dialed, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	to := dialed.(*net.UnixConn)
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); _ = to.CloseWrite() })
	both.Go(func() { _, _ = io.Copy(from, to); _ = from.CloseWrite() })
	both.Wait()
}
