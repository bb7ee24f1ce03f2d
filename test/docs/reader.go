// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// commandTimeout is how long a command may take before it counts as one that hangs.
const commandTimeout = 2 * time.Minute

// reader is who reads pages, and types their commands into a shell.
type reader struct {
	kubelet *kubelet
	// home is $HOME, and checkout a copy of what the commands need of the repository.
	home, checkout string
	env            []string
}

// carriesOver lets a command have the variables of those before it, as in one shell.
const carriesOver = `set -euo pipefail; [ ! -f ~/variables ] || . ~/variables; set -a; trap 'export -p >~/variables' EXIT
`

func newReader(k *kubelet) (*reader, error) {
	home, err := os.MkdirTemp("", "docs-run-")
	if err != nil {
		return nil, err
	}
	r := &reader{kubelet: k, home: home, checkout: filepath.Join(home, "taintkeeper")}
	for _, folder := range []string{"charts", "config", "examples"} {
		if err := os.CopyFS(filepath.Join(r.checkout, folder), os.DirFS(folder)); err != nil {
			return nil, err
		}
	}
	kubeconfig, err := k.cluster.Kubeconfig("reader", k.cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	bin, err := filepath.Abs("bin")
	if err != nil {
		return nil, err
	}
	path := strings.Join([]string{bin, filepath.Join(bin, "conformance"), os.Getenv("PATH")}, string(os.PathListSeparator))
	r.env = []string{"HOME=" + home, "KUBECONFIG=" + kubeconfig, "PATH=" + path}
	return r, nil
}

// types runs a command, and returns what it prints.
func (r *reader) types(ctx context.Context, command string) (string, error) {
	if err := r.kubelet.sync(ctx); err != nil {
		return "", err
	}
	ctx, stop := context.WithTimeout(ctx, commandTimeout)
	defer stop()
	shell := exec.CommandContext(ctx, "bash", "-c", carriesOver+command)
	shell.Dir, shell.Env = r.checkout, r.env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what bash has started ends with it
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = time.Second
	printed, err := shell.CombinedOutput()
	return string(printed), errors.Join(err, ctx.Err())
}

// read plays a story on a control plane of its own, and returns what is wrong with its pages.
func (s *story) read(ctx context.Context) (found report, err error) {
	var blocks []block
	for _, page := range s.pages {
		of, err := readPage(page)
		if err != nil {
			return found, err
		}
		blocks = append(blocks, of...)
	}
	config := localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		APIServerArgs: []string{"--kubelet-preferred-address-types=InternalIP"}, // names of nodes are unknown here
	}
	if s.switchedOff != "" {
		config.ControllerManagerArgs = []string{"--controllers=" + s.switchedOff}
	}
	cluster, err := localcluster.Start(context.WithoutCancel(ctx), config)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	k, err := newKubelet(ctx, cluster)
	if err != nil {
		return found, err
	}
	defer k.stop()
	r, err := newReader(k)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.home)) }()
	given, _ := split(s.given)
	for _, command := range given {
		if printed, err := r.types(ctx, command); err != nil {
			return found, fmt.Errorf("what %s presupposes: %s: %w\n%s", s.pages, command, err, printed)
		}
	}
	for _, b := range blocks {
		if s.has(b) && ctx.Err() == nil {
			found.add(s.readBlock(ctx, r, b))
		}
	}
	return found, ctx.Err()
}

func (s *story) has(b block) bool {
	return slices.Contains(s.pages, b.page) && !slices.Contains(s.without, b.section) &&
		(len(s.only) == 0 || slices.Contains(s.only, b.section))
}

func (s *story) readBlock(ctx context.Context, r *reader, b block) (found report) {
	at, printed := fmt.Sprintf("%s:%d", b.page, b.line), ""
	wantsError := len(b.output) > 0 && strings.HasPrefix(b.output[0], "Error")
	for _, command := range b.commands {
		if b.skip.says(command) {
			found.notRun = append(found.notRun, fmt.Sprintf("%s: %s: %s", at, command, b.skip.why))
			continue
		}
		command = s.bind(command)
		fmt.Printf("  $ %s\n", command)
		out, err := r.types(ctx, command)
		if printed += out; (err != nil) != wantsError {
			found.wrong = append(found.wrong, fmt.Sprintf("%s: %s: %v\n%s", at, command, err, out))
		}
	}
	if b.skip != nil && len(found.notRun) == 0 {
		found.wrong = append(found.wrong, at+": the comment before it is about no command")
	}
	if line := missing(b.output, printed); line != "" && len(found.notRun) < len(b.commands) {
		found.wrong = append(found.wrong, fmt.Sprintf("%s: the page shows, but the command did not print:\n%s\n%s", at, line, printed))
	}
	return found
}

var placeholder = regexp.MustCompile(`[${]*[A-Z][A-Z0-9_]+\b(:\.)?`)

// bind replaces placeholders, which are words in capitals that are neither variables of the shell nor titles of
// columns.
func (s *story) bind(command string) string {
	return placeholder.ReplaceAllStringFunc(command, func(word string) string {
		if bound, ok := s.words[word]; ok {
			return bound
		}
		return word
	})
}
