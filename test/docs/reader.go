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
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// commandTimeout is for a command that a reader would interrupt.
const commandTimeout = 2 * time.Minute

// reader is who reads pages, and types their commands into a shell.
type reader struct {
	kubelet *kubelet
	// home is the folder that is $HOME, with a copy of what the commands need of the repository.
	home, checkout string
	env            []string
}

// carriesOver lets a command have the variables of those before it, as in one shell.
const carriesOver = `set -eu; [ ! -f ~/variables ] || . ~/variables; set -a; trap 'export -p >~/variables' EXIT
`

func newReader(home, kubeconfig string, k *kubelet) (*reader, error) {
	bin, err := filepath.Abs("bin")
	if err != nil {
		return nil, err
	}
	r := &reader{kubelet: k, home: home, checkout: filepath.Join(home, "taintkeeper")}
	for _, folder := range []string{"charts", "config", "examples"} {
		if err := os.CopyFS(filepath.Join(r.checkout, folder), os.DirFS(folder)); err != nil {
			return nil, err
		}
	}
	path := strings.Join([]string{bin, filepath.Join(bin, "conformance"), os.Getenv("PATH")}, string(os.PathListSeparator))
	r.env = []string{"HOME=" + home, "KUBECONFIG=" + kubeconfig, "PATH=" + path, "TERM=dumb"}
	return r, os.Symlink(bin, filepath.Join(r.checkout, "bin"))
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
	shell.WaitDelay = time.Second
	printed, err := shell.CombinedOutput()
	return string(printed), errors.Join(err, ctx.Err())
}

// read plays a story on a control plane of its own, and returns what is wrong with the page.
func (s *story) read(ctx context.Context) (report, error) {
	blocks, err := readPage(s.page)
	if err != nil {
		return report{}, err
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
		return report{}, err
	}
	found, err := s.readOn(ctx, cluster, blocks)
	return found, errors.Join(err, cluster.Stop())
}

func (s *story) readOn(ctx context.Context, cluster *localcluster.Cluster, blocks []block) (found report, err error) {
	k, err := newKubelet(ctx, cluster, nodes...)
	if err != nil {
		return found, err
	}
	home, err := os.MkdirTemp("", "docs-run-")
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	kubeconfig, err := cluster.Kubeconfig("reader", cluster.AdminConfig())
	if err != nil {
		return found, err
	}
	r, err := newReader(home, kubeconfig, k)
	if err != nil {
		return found, err
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); k.run(running) }()
	defer func() { end(); <-ended }()
	for _, command := range strings.Split(strings.TrimSpace(s.given), "\n") {
		if printed, err := r.types(ctx, command); err != nil {
			return found, fmt.Errorf("what %s presupposes: %s: %w\n%s", s.page, command, err, printed)
		}
	}
	for _, b := range blocks {
		if s.has(b.section) {
			found.add(s.readBlock(ctx, r, b))
		}
	}
	return found, ctx.Err()
}

func (s *story) has(section string) bool {
	return (len(s.only) == 0 || slices.Contains(s.only, section)) && !slices.Contains(s.without, section)
}

func (s *story) readBlock(ctx context.Context, r *reader, b block) (found report) {
	at, printed := fmt.Sprintf("%s:%d", s.page, b.line), ""
	for _, command := range b.commands {
		if b.skip.says(command) {
			found.notRun = append(found.notRun, fmt.Sprintf("%s: %s: %s", at, command, b.skip.why))
			continue
		}
		command = s.bind(command)
		fmt.Printf("  $ %s\n", command)
		out, err := r.types(ctx, command)
		if printed += out; err != nil {
			found.wrong = append(found.wrong, fmt.Sprintf("%s: %s: %v\n%s", at, command, err, out))
		}
	}
	if b.skip != nil && len(found.notRun) == 0 {
		found.wrong = append(found.wrong, at+": the comment before it is about no command")
	}
	if line := missing(b.output, printed); line != "" && (b.skip == nil || b.skip.begin != "") {
		found.wrong = append(found.wrong, fmt.Sprintf("%s: the page shows, but the command did not print:\n%s\n%s", at, line, printed))
	}
	return found
}

var placeholder = regexp.MustCompile(`[${]*[A-Z][A-Z0-9_]+\b`)

// bind replaces placeholders, which are words in capitals that are no variables of the shell.
func (s *story) bind(command string) string {
	return placeholder.ReplaceAllStringFunc(command, func(word string) string {
		if bound, ok := s.words[word]; ok {
			return bound
		}
		return word
	})
}
