// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// rigVariable is in the environment of the processes of all machines, with the id of the process of the rig.
const rigVariable = "TAINTKEEPER_KUBELETS_RIG"

// removeLeftovers ends what rigs whose processes no longer exist have left, and removes their cgroups and folders.
// Usually only empty cgroups are left, which no watchdog removes, or a folder into which something was written while
// its watchdog removed it.
func removeLeftovers(ctx context.Context) error {
	if err := await.Poll(ctx, func(context.Context) error { return killAbandoned() }); err != nil {
		return err
	}
	names, err := abandonedCgroups()
	for _, name := range names {
		err = errors.Join(err, removeCgroup(ctx, name))
	}
	folders, failed := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	err = errors.Join(err, failed)
	for _, folder := range folders {
		rig, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		if isGone(rig) {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	if err != nil {
		return fmt.Errorf("remove what a rig has left: %w", err)
	}
	return nil
}

// killAbandoned kills the processes of rigs that no longer exist. It is an error if there were any, because they may
// take a moment to end.
func killAbandoned() error {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, path := range environments {
		environment, failed := os.ReadFile(path)
		if failed != nil || !isAbandoned(environment) { // it has ended, or is another's
			continue
		}
		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		err = errors.Join(err, failed, fmt.Errorf("process %d of a rig still runs", pid))
		_ = syscall.Kill(pid, syscall.SIGKILL) // the only error is that it has ended
	}
	return err
}

// isAbandoned reports whether an environment is of a rig that no longer exists.
func isAbandoned(environment []byte) bool {
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if rig, ok := bytes.CutPrefix(entry, []byte(rigVariable+"=")); ok {
			return isGone(string(rig))
		}
	}
	return false
}
