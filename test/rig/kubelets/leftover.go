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
	"syscall"
)

// rigVariable is in the environment of the processes of all machines, with the id of the process of the rig.
const rigVariable = "TAINTKEEPER_KUBELETS_RIG"

// removeLeftovers ends what rigs whose processes no longer exist have left, and removes their cgroups. Usually only
// cgroups are left, which no watchdog removes.
func removeLeftovers(ctx context.Context) error {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, path := range environments {
		environment, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && isAbandoned(environment) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // the only error is that it has ended
		}
	}
	names, err := abandonedCgroups()
	for _, name := range names {
		if failed := removeCgroup(ctx, name); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove what a rig has left: %w", failed))
		}
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
