// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// victimVariable makes the test binary a program that starts another and waits to be killed. Its value is the folder
// that the other leaves.
const victimVariable = "PROCESS_TEST_VICTIM"

func TestMain(m *testing.M) {
	if folder := os.Getenv(victimVariable); folder != "" {
		os.Exit(beVictim(folder))
	}
	os.Exit(m.Run())
}

// beVictim starts a program that starts another, both with this program's standard output.
func beVictim(folder string) int {
	child := exec.Command("/bin/sh", "-c", "sleep 1000 & echo started; wait")
	child.Stdout = os.Stdout
	p, err := Start(child, folder)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = p.Wait()
	return 0
}

func TestAProgramThatIsKilledLeavesNeitherProcessNorFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "leftover")
	if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), program)
	victim.Env = append(os.Environ(), victimVariable+"="+folder)
	pipe, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(pipe)
	if line, err := output.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the victim says %q: %v", line, err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The output ends when the last process that could write to it has ended. The folder is removed before.
	if _, err := io.Copy(io.Discard, output); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	_ = victim.Wait()
}

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
		"by SIGKILL while it stands still": {"echo; sleep 1000", func(p *Process) { _ = p.Signal(syscall.SIGSTOP); p.Stop(0) }, "signal: killed"},
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

func TestAProgramThatIsMissingIsAnError(t *testing.T) {
	if _, err := Start(exec.CommandContext(t.Context(), "/nowhere/program"), ""); !strings.Contains(fmt.Sprint(err), "/nowhere/program") {
		t.Errorf("error %v", err)
	}
}
