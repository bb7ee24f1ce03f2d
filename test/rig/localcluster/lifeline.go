// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// launcherScript runs one component; see newLauncher for its placeholders. The outer shell notes how the
// component ended, which envtest does not tell. It survives the signal that its process group gets, so that it
// can. The inner one notes the process id before it becomes the component.
//
//go:embed launcher.sh
var launcherScript string

// watchdogScript ends what the launchers started once this program is gone; see newLifeline.
//
//go:embed watchdog.sh
var watchdogScript string

// lifeline ties processes to this program: whichever way the program ends, they do. A parent-death signal would
// be shorter, but Linux alone has it, it follows the thread that forked and not the process, and envtest offers
// no place for it. So each component is started by a launcher, which notes the process id in a file, and a
// watchdog reads from a pipe that this program alone holds open: at its end, it kills what the files name.
type lifeline struct {
	dir      string
	watchdog *exec.Cmd
	pipe     io.WriteCloser
}

// newLifeline starts the watchdog of the state folder dir. Of a program that was killed, the watchdog also removes the
// folder leftover, unless it is empty.
func newLifeline(dir, leftover string) (*lifeline, error) {
	l := &lifeline{dir: filepath.Join(dir, "run")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		return nil, err
	}
	l.watchdog = exec.Command("/bin/sh", "-c", watchdogScript, "localcluster-watchdog", l.dir, leftover)
	// In the state folder itself it would stand in the way of whoever unmounts or removes that.
	l.watchdog.Dir = "/"
	isolate(l.watchdog)
	var err error
	if l.pipe, err = l.watchdog.StdinPipe(); err != nil {
		return nil, fmt.Errorf("open the pipe to the watchdog: %w", err)
	}
	if err := l.watchdog.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return l, nil
}

// close ends the watchdog. Every component must have ended before.
func (l *lifeline) close() error {
	_, writeErr := io.WriteString(l.pipe, "all ended\n")
	return errors.Join(writeErr, l.pipe.Close(), l.watchdog.Wait())
}

// launcher writes the script that runs binary as component and returns its path. It takes the component's
// arguments.
func (l *lifeline) launcher(component Component, binary string) (string, error) {
	path := filepath.Join(l.dir, string(component))
	script := strings.NewReplacer(
		"@BINARY@", shellQuote(binary),
		"@SELF@", shellQuote(path),
		"@RUN@", shellQuote(l.dir),
	).Replace(launcherScript)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("write the launcher of %s: %w", component, err)
	}
	return path, nil
}

// pid returns the process id of a component, or 0 when it does not run.
func (l *lifeline) pid(component Component) int {
	content, err := os.ReadFile(filepath.Join(l.dir, string(component)+".pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return pid
}

// exitStatus describes how a component ended, or is empty when it did not.
func (l *lifeline) exitStatus(component Component) string {
	content, err := os.ReadFile(filepath.Join(l.dir, string(component)+".exit"))
	if err != nil {
		return ""
	}
	return "exit status " + strings.TrimSpace(string(content))
}

// kill ends a component at once.
func (l *lifeline) kill(component Component) error {
	pid := l.pid(component)
	if pid == 0 {
		return nil
	}
	if err := killProcess(pid); err != nil {
		return fmt.Errorf("kill %s (process %d): %w", component, pid, err)
	}
	return nil
}

// waitGone returns once a component that was killed is gone. Its launcher may be gone as well, so there is nothing to
// wait for but the process id.
func (l *lifeline) waitGone(component Component) error {
	pid := l.pid(component)
	deadline := time.Now().Add(stopGrace)
	for ; pid != 0 && processExists(pid); time.Sleep(healthPeriod) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s (process %d) survives SIGKILL", component, pid)
		}
	}
	err := os.Remove(filepath.Join(l.dir, string(component)+".pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
