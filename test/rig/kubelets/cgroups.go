// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	cgroupFS = "/sys/fs/cgroup"
	// cgroupPrefix begins the names of our cgroups. The id of the process of their rig follows.
	cgroupPrefix = "taintkeeper-kubelets-"
)

// hierarchies are the folders in which each cgroup has a folder: one with cgroup v2, and one for each controller
// with v1.
func hierarchies() (all []string, err error) {
	if isV2() {
		return []string{cgroupFS}, nil
	}
	entries, err := os.ReadDir(cgroupFS)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries { // links are other names of the same
		if folder := filepath.Join(cgroupFS, entry.Name()); entry.IsDir() && exists(filepath.Join(folder, "cgroup.procs")) {
			all = append(all, folder)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no cgroups are mounted at %s", cgroupFS)
	}
	return all, nil
}

func isV2() bool { return exists(filepath.Join(cgroupFS, "cgroup.controllers")) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cgroupOf names the cgroup of a machine.
func cgroupOf(rig, machine int) string { return fmt.Sprintf("%s%d-%d", cgroupPrefix, rig, machine) }

// makeCgroup makes a cgroup in each hierarchy. With v1, one without processors can have no processes, and gets those of
// the root. With v2, what it may control depends on the root.
func makeCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	if isV2() {
		enableControllers()
	}
	for _, hierarchy := range all {
		folder := filepath.Join(hierarchy, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if value, err := os.ReadFile(filepath.Join(hierarchy, file)); err == nil && !isV2() {
				if err := os.WriteFile(filepath.Join(folder, file), value, 0o600); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// enableControllers lets cgroups below the root control what a kubelet wants to. What the root lacks, or has enabled
// already, is left as it is; if something is missing, the kubelet names it.
func enableControllers() {
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids", "hugetlb"} {
		_ = os.WriteFile(filepath.Join(cgroupFS, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
	}
}

// removeCgroup removes a cgroup and those in it, once their processes have ended.
func removeCgroup(ctx context.Context, name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	return await.Poll(ctx, func(context.Context) error {
		var failed []error
		for _, hierarchy := range all {
			failed = append(failed, rmdirAll(filepath.Join(hierarchy, name)))
		}
		return errors.Join(failed...)
	})
}

// rmdirAll removes a cgroup and those in it, the innermost first.
func rmdirAll(folder string) error {
	var folders []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(folders) {
		if err := syscall.Rmdir(path); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", path, err)
		}
	}
	return nil
}

// abandonedCgroups are the cgroups of rigs whose processes no longer exist.
func abandonedCgroups() (names []string, err error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, hierarchy := range all {
		found, err := filepath.Glob(filepath.Join(hierarchy, cgroupPrefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, folder := range found {
			name := filepath.Base(folder)
			rig, _, _ := strings.Cut(strings.TrimPrefix(name, cgroupPrefix), "-")
			if isGone(rig) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// isGone reports whether there is no process with an id.
func isGone(pid string) bool {
	id, err := strconv.Atoi(pid)
	return err == nil && errors.Is(syscall.Kill(id, 0), syscall.ESRCH)
}
