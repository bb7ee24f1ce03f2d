// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package kubelets runs real nodes on this machine: each has a kubelet, containerd and runc, and runs real containers.
// They join a control plane on the loopback interface, such as that of package localcluster with the Node authorizer
// and the admission plugin NodeRestriction.
//
// # What it needs
//
// Linux with cgroup v1 or v2, root (for namespaces, mounts and cgroups), the Debian packages runc,
// containernetworking-plugins and iproute2, and the programs that `make bin/controlplane/kubelet
// bin/controlplane/containerd` builds. [Missing] says what is missing; no test is skipped without that sentence.
//
// # What a machine is
//
// A [Machine] is a process that is the first one in PID, mount and network namespaces of its own, with folders of its
// own at /run, /var/lib and /var/log. So several kubelets and containerds run with the paths that they always use, and
// when the first process ends, the kernel ends all others and removes mounts, interfaces and namespaces: that is a node
// that loses power. The network of a machine is only its loopback interface. What is sent to the address of the API
// server there is forwarded through a socket file and a link of the rig ([Machine.Cut]) to the real API server, which
// therefore needs to listen nowhere else. Nothing is added to the network of the host.
//
// # What it leaves
//
// Nothing: no process, mount, namespace, interface, folder or cgroup. A watchdog (package process) ends all processes
// and removes all folders if this program panics or is killed. What can remain then are empty cgroups and a folder. The
// next [Start] removes them, and everything else that has the name of a rig whose process no longer exists.
//
// # Unusual settings
//
//   - cgroupRoot (kubelet): each kubelet gets a cgroup of its own, made by hand. Several with the same cgroup would
//     remove the cgroups of one another's pods.
//   - failCgroupV1: false (kubelet): by default, a kubelet refuses to start with cgroup v1.
//   - restrict_oom_score_adj (containerd): without the capability CAP_SYS_RESOURCE, which virtual machines and
//     containers may lack, runc cannot lower the value of a sandbox, and fails with "can't get final child's PID from
//     pipe: EOF".
//   - failSwapOn: false (kubelet): the machines of CI have swap.
//   - enableServer: false (kubelet): it serves on no port. Containers write what they see into a file ([Rig.Seen]), so
//     no test needs their logs.
//   - resolvConf (kubelet) is empty, because the file of the host may be a link into /run.
//   - imageGCHighThresholdPercent: 100 and low thresholds for evictions (kubelet): the disk of the host may be nearly
//     full.
//   - nsenter and not `ip netns exec`, which would mount another /sys, without cgroups.
//   - Each machine has copies of the values in /proc/sys that a kubelet changes, because those are of the whole host.
//     The copy of kernel/random/boot_id changes when the machine starts, so that its kubelet notices a reboot.
//   - disable_apparmor (containerd): otherwise it would load a profile into the kernel of the host.
package kubelets
