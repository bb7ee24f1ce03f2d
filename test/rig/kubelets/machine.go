// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/process"
)

// namespaces are flags of unshare: a machine has namespaces of its own, which end with its first process.
var namespaces = []string{"--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"}

// replaced are the folders of which each machine has its own.
var replaced = []string{"run", "var/lib", "var/log"}

// boot starts a machine: $0 is its folder, $1 its address, $2 the program, $3 the address of the API server, and $4 the
// folder in which containers write what they see.
const boot = `set -e
for value in kernel/random/boot_id vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
	kernel/keys/root_maxkeys kernel/keys/root_maxbytes
do
	copy="$0/$(echo "$value" | tr / -)"
	cat "/proc/sys/$value" >"$copy"
	mount --bind "$copy" "/proc/sys/$value"
done
cat /proc/sys/kernel/random/uuid >/proc/sys/kernel/random/boot_id
for folder in run var/lib var/log; do mount --bind "$0/$folder" "/$folder"; done
mount --bind "$4" /run/seen
ip link set lo up
ip address add "$1/32" dev lo
exec "$2" machine "$3" "$0/api.sock"`

// Machine is a node of the cluster. Its methods must not be called at the same time.
type Machine struct {
	// Node is its name in the cluster.
	Node string

	rig      *Rig
	number   int
	labels   string
	settings map[string]any
	link     *link

	first, runtime, kubelet *process.Process
}

// NodeConfig describes a node.
type NodeConfig struct {
	Name   string
	Labels map[string]string
	// Settings are fields of the KubeletConfiguration that differ from those of other nodes.
	Settings map[string]any
}

// AddMachine starts a machine, whose kubelet adds its node to the cluster. The node is ready a few seconds later.
func (r *Rig) AddMachine(ctx context.Context, cfg NodeConfig) (*Machine, error) {
	m := r.newMachine(cfg)
	if err := m.add(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a machine for node %s: %w", m.Node, err), m.Remove(ctx))
	}
	return m, nil
}

func (r *Rig) newMachine(cfg NodeConfig) *Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	m := &Machine{Node: cfg.Name, rig: r, number: r.last, labels: labels(cfg.Labels), settings: cfg.Settings}
	r.machines = append(r.machines, m)
	return m
}

func labels(all map[string]string) string {
	var pairs []string
	for key, value := range all {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

func (m *Machine) add(ctx context.Context) (err error) {
	for _, folder := range append([]string{"static"}, replaced...) {
		if err := os.MkdirAll(m.file(folder), 0o755); err != nil {
			return err
		}
	}
	if m.link, err = newLink(ctx, m.file("api.sock"), m.rig.cfg.APIServer); err != nil {
		return err
	}
	if err := m.configure(); err != nil {
		return err
	}
	return m.PowerOn(ctx)
}

// Remove ends a machine and removes what is left of it, other than what the API server has.
func (m *Machine) Remove(ctx context.Context) error {
	m.rig.mu.Lock()
	m.rig.machines = slices.DeleteFunc(m.rig.machines, func(other *Machine) bool { return other == m })
	m.rig.mu.Unlock()
	err := m.PowerOff(context.WithoutCancel(ctx))
	if m.link != nil {
		err = errors.Join(err, m.link.close())
	}
	return errors.Join(err, os.RemoveAll(m.dir()))
}

// dir is the folder of a machine. Its path is short, because that of a socket must be.
func (m *Machine) dir() string { return filepath.Join(m.rig.dir, strconv.Itoa(m.number)) }

func (m *Machine) file(name string) string { return filepath.Join(m.dir(), name) }

func (m *Machine) cgroup() string { return cgroupOf(os.Getpid(), m.number) }

// address is the address of the node. It is not reachable from anywhere else.
func (m *Machine) address() string { return fmt.Sprintf("10.56.%d.%d", m.number/250, m.number%250+1) }

// PowerOff ends everything on the machine without a warning, and so do all pods on it.
func (m *Machine) PowerOff(ctx context.Context) error {
	for _, running := range []*process.Process{m.first, m.runtime, m.kubelet} {
		if running != nil {
			running.Kill()
		}
	}
	m.first, m.runtime, m.kubelet = nil, nil, nil
	return errors.Join(removeCgroup(ctx, m.cgroup()), os.RemoveAll(m.file("run")))
}

// PowerOn starts the machine, with its container runtime and its kubelet. Its disk is as it was.
func (m *Machine) PowerOn(ctx context.Context) (err error) {
	if err := errors.Join(makeCgroup(m.cgroup()), os.MkdirAll(m.file("run/seen"), 0o755)); err != nil {
		return err
	}
	args := slices.Concat(namespaces,
		[]string{"/bin/sh", "-c", boot, m.dir(), m.address(), m.rig.program(), m.rig.cfg.APIServer, m.rig.seenFolder()})
	if m.first, err = m.start("machine", exec.Command("unshare", args...)); err != nil {
		return err
	}
	err = await.Poll(ctx, func(context.Context) error {
		if _, err := os.Stat(m.file("run/up")); err != nil && m.first.PID() != 0 {
			return err
		}
		return nil
	})
	if err != nil || m.first.PID() == 0 {
		return m.failure("machine", "it did not start")
	}
	if err := m.StartRuntime(ctx); err != nil {
		return err
	}
	if err := m.importImage(ctx); err != nil {
		return err
	}
	return m.StartKubelet()
}

// Cut cuts the network between the machine and the API server until [Machine.Heal] is called.
func (m *Machine) Cut() { m.link.cut() }

// Heal connects the machine again. Connections that were open continue.
func (m *Machine) Heal() { m.link.heal() }

// KillRuntime ends containerd with SIGKILL. Containers continue.
func (m *Machine) KillRuntime() { m.runtime.Kill() }

// KillKubelet ends the kubelet with SIGKILL. Containers continue.
func (m *Machine) KillKubelet() { m.kubelet.Kill() }

// StartRuntime starts containerd, for the first time or again, and returns once it answers.
func (m *Machine) StartRuntime(ctx context.Context) (err error) {
	command := m.inside("containerd", "--config", m.file("containerd.toml"), "--log-level=warn")
	if m.runtime, err = m.start("containerd", command); err != nil {
		return err
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", m.file("run/containerd/containerd.sock"))
		if err != nil {
			return m.failure("containerd", "it does not answer")
		}
		return connection.Close()
	})
}

// StartKubelet starts the kubelet, for the first time or again.
func (m *Machine) StartKubelet() (err error) {
	args := []string{
		"--config=" + m.file("kubelet.json"), "--kubeconfig=" + m.file("kubeconfig"), "--hostname-override=" + m.Node,
		"--node-ip=" + m.address(), "--node-labels=" + m.labels,
	}
	m.kubelet, err = m.start("kubelet", m.inside("kubelet", args...))
	return err
}

// Change changes fields of the KubeletConfiguration. It has an effect when the kubelet starts again.
func (m *Machine) Change(settings map[string]any) error {
	m.settings = settings
	return m.configure()
}

// StaticPod is the file of a static pod of the machine.
func (m *Machine) StaticPod(name string) string { return m.file("static/" + name + ".json") }

// importImage gives the machine the image, without a registry. It must come before the kubelet, which does not look
// again for a while.
func (m *Machine) importImage(ctx context.Context) error {
	return await.Poll(ctx, func(context.Context) error {
		output, err := m.inside("ctr", "--namespace=k8s.io", "images", "import", m.rig.image()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("import the image: %w\n%s", err, output)
		}
		return nil
	})
}

// inside is a command that runs on the machine.
func (m *Machine) inside(program string, args ...string) *exec.Cmd {
	pid := strconv.Itoa(m.first.PID())
	enter := []string{
		"--target=" + pid, "--mount", "--net", "--pid=/proc/" + pid + "/ns/pid_for_children",
		filepath.Join(m.rig.cfg.Binaries, program),
	}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = m.environment()
	return cmd
}

// environment lets containerd find its shim.
func (m *Machine) environment() []string {
	return append(os.Environ(),
		"PATH="+m.rig.cfg.Binaries+":"+os.Getenv("PATH"), fmt.Sprintf("%s=%d", rigVariable, os.Getpid()))
}

// start starts a program of the machine, whose output goes into a file.
func (m *Machine) start(name string, cmd *exec.Cmd) (*process.Process, error) {
	log, err := os.OpenFile(m.file(name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process keeps the file open; this program need not
	cmd.Dir, cmd.Env = m.dir(), m.environment()
	cmd.Stdout, cmd.Stderr = log, log
	started, err := process.Start(cmd, m.rig.dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return started, nil
}

// failure is an error about a program of the machine, with the end of its output.
func (m *Machine) failure(name, what string) error {
	text, err := os.ReadFile(m.file(name + ".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return errors.Join(fmt.Errorf("%s of node %s: %s:\n%s", name, m.Node, what, strings.Join(lines[max(0, len(lines)-10):], "\n")), err)
}
