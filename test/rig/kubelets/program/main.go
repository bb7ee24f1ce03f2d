// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Program program is the only one in the image of the rig's containers: what a pod runs, its hooks and its sandbox. It
// writes what happens to it, and when, into a file that all containers share. It is also the first process of a
// machine.
//
//	program pause                     the sandbox of a pod
//	program run                       runs until SIGTERM, and ends at once
//	program run -stop 5s              ends 5 s after SIGTERM
//	program run -ignore               ignores SIGTERM
//	program run -exit 30s             ends by itself after 30 s
//	program sleep -name hook 5s       a hook, or an init container
//	program machine ADDRESS SOCKET    the first process of a machine
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// seen is the file with what the containers saw. Its lines are "nanoseconds UID container what".
const seen = "/seen/log"

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	switch name, args := args[0], args[1:]; name {
	case "pause":
		<-notified(syscall.SIGTERM, syscall.SIGINT)
		return nil
	case "run":
		return run(args)
	case "sleep":
		return sleep(args)
	case "machine":
		return machine(args)
	default:
		return fmt.Errorf("there is no command %q", name)
	}
}

func notified(signals ...os.Signal) <-chan os.Signal {
	received := make(chan os.Signal, 10)
	signal.Notify(received, signals...)
	return received
}

// say writes a line with a single call, so that lines of several containers do not mix.
func say(name, what string) error {
	line := fmt.Sprintf("%d %s %s %s\n", time.Now().UnixNano(), os.Getenv("POD_UID"), name, what)
	file, err := os.OpenFile(seen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if _, err = file.WriteString(line); err != nil {
		return err
	}
	return file.Close()
}

func run(args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	name := flags.String("name", "main", "the container")
	stop := flags.Duration("stop", 0, "how long it takes to end")
	ignore := flags.Bool("ignore", false, "ignore SIGTERM")
	exit := flags.Duration("exit", 0, "when to end by itself")
	if err := flags.Parse(args); err != nil {
		return err
	}
	terms := notified(syscall.SIGTERM)
	if err := say(*name, "starts"); err != nil {
		return err
	}
	var over <-chan time.Time
	if *exit > 0 {
		over = time.After(*exit)
	}
	for {
		select {
		case <-over:
			return say(*name, "ends")
		case <-terms:
			if err := say(*name, "SIGTERM"); err != nil {
				return err
			}
			if !*ignore {
				<-time.After(*stop)
				return say(*name, "ends")
			}
		}
	}
}

func sleep(args []string) error {
	flags := flag.NewFlagSet("sleep", flag.ExitOnError)
	name := flags.String("name", "hook", "the container or hook")
	if err := flags.Parse(args); err != nil {
		return err
	}
	length, err := time.ParseDuration(flags.Arg(0))
	if err != nil {
		return err
	}
	terms := notified(syscall.SIGTERM)
	if err := say(*name, "starts"); err != nil {
		return err
	}
	select {
	case <-terms:
		return errors.Join(say(*name, "SIGTERM"), errors.New("it was ended"))
	case <-time.After(length):
		return say(*name, "ends")
	}
}
