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
	"runtime"
	"slices"
	"strings"
)

// Missing says why real nodes cannot run on this machine, in a sentence, or nothing if they can, once `make` has
// installed and built what they need. It takes less than a second.
func Missing(ctx context.Context) string {
	switch {
	case runtime.GOOS != "linux":
		return "real kubelets need Linux"
	case os.Geteuid() != 0:
		return "real kubelets need root, for namespaces, mounts and cgroups: run the command with sudo"
	}
	try := exec.CommandContext(ctx, "unshare", slices.Concat(namespaces, []string{"true"})...)
	if output, err := try.CombinedOutput(); err != nil {
		return "real kubelets need namespaces, which are refused here: " + strings.TrimSpace(fmt.Sprintf("%s %v", output, err))
	}
	probe := cgroupOf(os.Getpid(), 0)
	if err := errors.Join(makeCgroup(probe), removeCgroup(ctx, probe)); err != nil {
		return "real kubelets need cgroups of their own, which are refused here: " + err.Error()
	}
	absent := absentPackages()
	if _, err := exec.LookPath("apt-get"); err != nil && len(absent) > 0 {
		return "real kubelets need programs that are missing: install " + strings.Join(absent, ", ")
	}
	return ""
}

// absentPackages are the packages of Debian with programs that are missing. tools/needs.sh installs them.
func absentPackages() (absent []string) {
	for program, in := range map[string]string{"ip": "iproute2", "runc": "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			absent = append(absent, in)
		}
	}
	if pluginFolder() == "" {
		absent = append(absent, "containernetworking-plugins")
	}
	return absent
}

// pluginFolder is where the CNI plugins are, which may differ between distributions.
func pluginFolder() string {
	for _, folder := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(folder, "ptp")); err == nil {
			return folder
		}
	}
	return ""
}
