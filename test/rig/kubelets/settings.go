// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// configure writes the configuration of containerd, of its network and of the kubelet.
func (m *Machine) configure() error {
	credentials, err := m.rig.cfg.Kubeconfig("system:node:"+m.Node, "system:nodes")
	if err != nil {
		return fmt.Errorf("make the credentials of node %s: %w", m.Node, err)
	}
	kubelet, err := json.Marshal(m.kubeletConfiguration())
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"kubeconfig": credentials, "kubelet.json": kubelet, "containerd.toml": m.containerdConfig(),
		"cni/pods.conflist": m.network(),
	} {
		if err := os.MkdirAll(filepath.Dir(m.file(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(m.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// kubeletConfiguration is a KubeletConfiguration. The comment of the package says why its values are not the defaults.
func (m *Machine) kubeletConfiguration() map[string]any {
	settings := map[string]any{
		"apiVersion":                "kubelet.config.k8s.io/v1beta1",
		"kind":                      "KubeletConfiguration",
		"containerRuntimeEndpoint":  "unix:///run/containerd/containerd.sock",
		"staticPodPath":             m.file("static"),
		"cgroupDriver":              "cgroupfs",
		"cgroupRoot":                "/" + m.cgroup(),
		"failCgroupV1":              false,
		"failSwapOn":                false,
		"enableServer":              false,
		"resolvConf":                "",
		"makeIPTablesUtilChains":    false,
		"nodeLeaseDurationSeconds":  m.rig.cfg.LeaseSeconds,
		"nodeStatusUpdateFrequency": "2s",
		// A pressure that is over is reported at once, and an idle disk of the host that is nearly full is none.
		"evictionPressureTransitionPeriod": "1s",
		"imageGCHighThresholdPercent":      100,
		"imageGCLowThresholdPercent":       99,
		"evictionHard":                     Thresholds(nil),
	}
	maps.Copy(settings, m.settings)
	return settings
}

// Thresholds are the values of evictionHard, with which a kubelet sees no pressure, but for some that replace them.
func Thresholds(others map[string]string) map[string]string {
	all := map[string]string{
		"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
		"imagefs.available": "1%", "imagefs.inodesFree": "1%",
	}
	maps.Copy(all, others)
	return all
}

func (m *Machine) containerdConfig() []byte {
	return fmt.Appendf(nil, `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%q]
  conf_dir = %q
`, Image, pluginFolder(), m.file("cni"))
}

// network gives each pod an address that only the machine can reach.
func (m *Machine) network() []byte {
	return []byte(`{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {
		"type": "host-local", "ranges": [[{"subnet": "10.57.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`)
}
