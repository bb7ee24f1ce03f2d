// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAProcessTellsHowItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		end    func(*Process)
		want   string
	}{
		"by itself":                        {"exit 3", func(*Process) {}, "exit status 3"},
		"by SIGTERM":                       {"echo; exec sleep 1000", func(p *Process) { p.Stop(time.Minute) }, "signal: terminated"},
		"by SIGKILL when it ignores it":    {"trap '' TERM; echo; sleep 1000", func(p *Process) { p.Stop(0) }, "signal: killed"},
		"by SIGKILL":                       {"echo; sleep 1000", (*Process).Kill, "signal: killed"},
		"before it could be stopped":       {"exit 3", func(p *Process) { _ = p.Wait(); p.Stop(time.Minute); p.Kill() }, "exit status 3"},
		"by SIGKILL while it stands still": {"echo; sleep 1000", func(p *Process) { standStill(t, p); p.Stop(0) }, "signal: killed"},
		"as its arguments and files say":   {`exit "$1"`, func(*Process) {}, "exit status 7"},
		"without a file of its watchdog's": {"true <&3 && exit 1; true <&4 && exit 1; exit 0", func(*Process) {}, "exit status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", test.script, "it's a name", "7")
			output, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			p, err := Start(cmd, "")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = bufio.NewReader(output).ReadString('\n') // its signals are set up
			test.end(p)
			if err := p.Wait(); (err == nil) != (test.want == "exit status 0") {
				t.Errorf("error %v", err)
			}
			if got := p.Status(); got != test.want || p.PID() != 0 {
				t.Errorf("it ended with %s as process %d, want %s", got, p.PID(), test.want)
			}
		})
	}
}

// standStill returns once the process stands still. A SIGTERM that comes earlier ends it: of the signals that wait, the
// kernel takes the one with the lowest number first.
func standStill(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.PID(), &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("its status is %v, error %v", status, err)
	}
}

func TestAProgramThatIsMissingIsAnError(t *testing.T) {
	if _, err := Start(exec.CommandContext(t.Context(), "/nowhere/program"), ""); !strings.Contains(fmt.Sprint(err), "/nowhere/program") {
		t.Errorf("error %v", err)
	}
}
