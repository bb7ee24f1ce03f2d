// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Config describes what the machines of a rig have in common.
type Config struct {
	// Binaries is the folder with kubelet, containerd, containerd-shim-runc-v2 and ctr.
	Binaries string
	// APIServer is the address of the API server, with its port, on the loopback interface. Machines reach it under the
	// same address.
	APIServer string
	// Kubeconfig makes the client configuration of a user with some groups.
	Kubeconfig func(user string, groups ...string) ([]byte, error)
	// LeaseSeconds is how long the lease of a node lasts. Its kubelet renews it four times in that time.
	LeaseSeconds int
}

// APIServerArgs are the flags with which an API server gives kubelets their rights, and no more.
var APIServerArgs = []string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"}

// Rig is where machines run. Its methods are safe for concurrent use.
type Rig struct {
	cfg Config
	dir string

	mu       sync.Mutex
	machines []*Machine
	last     int // number of a machine
}

// programs are what must be in [Config.Binaries].
var programs = []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr"}

// folderPrefix begins the names of the folders of rigs. The id of the process follows.
const folderPrefix = "taintkeeper-kubelets-"

// Start removes what killed rigs have left, builds the program and the image of the containers, and makes a rig without
// machines.
func Start(ctx context.Context, cfg Config) (*Rig, error) {
	for _, name := range programs {
		if !exists(filepath.Join(cfg.Binaries, name)) {
			return nil, fmt.Errorf("%s is missing in %s: run `make machines`", name, cfg.Binaries)
		}
	}
	if absent := absentPackages(); len(absent) > 0 {
		return nil, fmt.Errorf("install %s, or run `make machines`", strings.Join(absent, ", "))
	}
	if err := removeLeftovers(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	r := &Rig{cfg: cfg, dir: dir}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare real kubelets: %w", err), os.RemoveAll(dir))
	}
	return r, nil
}

func (r *Rig) prepare(ctx context.Context) error {
	for _, folder := range replaced {
		for _, path := range []string{r.dir, r.cfg.Binaries} {
			if strings.HasPrefix(path, "/"+folder+"/") {
				return fmt.Errorf("%s is in /%s, of which each machine has its own: set $TMPDIR, or move the repository", path, folder)
			}
		}
	}
	if err := os.Mkdir(r.seenFolder(), 0o777); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", r.program(),
		"github.com/taintkeeper/taintkeeper/test/rig/kubelets/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of the containers: %w\n%s", err, output)
	}
	return writeImage(r.image(), r.program())
}

func (r *Rig) program() string { return filepath.Join(r.dir, "program") }

func (r *Rig) image() string { return filepath.Join(r.dir, "image.tar") }

// seenFolder is at [SeenFolder] of each machine.
func (r *Rig) seenFolder() string { return filepath.Join(r.dir, "seen") }

// Machine returns the machine of a node that was added, or nil.
func (r *Rig) Machine(node string) *Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.machines, func(m *Machine) bool { return m.Node == node })
	if i < 0 {
		return nil
	}
	return r.machines[i]
}

// SeenBy returns what the containers of a pod have written so far.
func (r *Rig) SeenBy(pod types.UID) (of []Sight, err error) {
	all, err := r.Seen()
	return slices.DeleteFunc(all, func(s Sight) bool { return s.Pod != pod }), err
}

// Stop ends all machines and removes everything.
func (r *Rig) Stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var all []error
	for {
		r.mu.Lock()
		rest := r.machines
		r.mu.Unlock()
		if len(rest) == 0 {
			return errors.Join(append(all, os.RemoveAll(r.dir))...)
		}
		all = append(all, rest[0].Remove(ctx))
	}
}
