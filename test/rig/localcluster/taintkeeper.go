// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
)

// TaintkeeperConfig describes a taintkeeper that runs outside the cluster as it would inside. The zero value is the
// program that `make build` built, alone and without an election.
type TaintkeeperConfig struct {
	// Binary is the program; by default bin/taintkeeper of the Go module that the working directory belongs to.
	Binary string
	// Name tells several apart, in the names of log and kubeconfig; by default it is taintkeeper.
	Name string
	// Access is how it reaches the API server; by default it is [Cluster.TaintkeeperAccess].
	Access *rest.Config
	// Coexist installs config/coexistence.yaml and starts it with --coexist, for a cluster whose built-in evicts, too. The
	// built-in cannot evict once Taintkeeper has started.
	Coexist bool
	// Granted means that Access already has its permissions, so nothing of config/ is installed.
	Granted bool
	// Args are added to its command line, and override the default of no election.
	Args []string
	// Env is added to its environment, each as name=value.
	Env []string
}

const defaultTaintkeeper = "bin/taintkeeper"

// Taintkeeper is a running taintkeeper. It does not outlive this program. Its methods are safe for concurrent use.
type Taintkeeper struct {
	cluster *Cluster
	process *component
	metrics string // address
}

// ArgsOf returns the arguments with which a pod of the chart runs taintkeeper, except for the addresses, which are
// those of this machine here.
func ArgsOf(pod corev1.PodSpec) []string {
	args := slices.DeleteFunc(slices.Clone(pod.Containers[0].Args), func(arg string) bool {
		return strings.Contains(arg, "-bind-address=")
	})
	return append(args, "--leader-elect")
}

// StartTaintkeeper grants taintkeeper its rights if it needs them, starts it and returns once its caches are complete.
// A name may be reused once the process has ended.
func (c *Cluster) StartTaintkeeper(ctx context.Context, cfg TaintkeeperConfig) (*Taintkeeper, error) {
	if c.components.isClosed() {
		return nil, errStopped
	}
	if cfg.Name == "" {
		cfg.Name = "taintkeeper"
	}
	binary, err := taintkeeperBinary(cfg.Binary)
	if err != nil {
		return nil, err
	}
	if err := c.prepareFor(ctx, cfg); err != nil {
		return nil, err
	}
	if cfg.Coexist {
		cfg.Args = append([]string{"--coexist"}, cfg.Args...)
	}
	kubeconfig, err := c.taintkeeperKubeconfig(cfg)
	if err != nil {
		return nil, err
	}
	metrics, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a port for the metrics of %s: %w", cfg.Name, err)
	}
	t := &Taintkeeper{cluster: c, metrics: fmt.Sprintf("127.0.0.1:%d", metrics)}
	t.process, err = c.run(ctx, program{
		component: Component(cfg.Name), binary: binary, env: cfg.Env, health: "http://127.0.0.1:%d/readyz",
		args: func(port int) []string {
			return slices.Concat([]string{
				"--kubeconfig=" + kubeconfig,
				"--leader-elect=false",
				"--metrics-bind-address=" + t.metrics,
				fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", port),
			}, cfg.Args)
		},
	})
	if err != nil {
		return nil, err
	}
	if cfg.Coexist {
		if err := c.WaitHeldOff(ctx); err != nil {
			return nil, errors.Join(err, t.Kill())
		}
	}
	return t, nil
}

// ShadowReport returns the report of a taintkeeper in shadow mode whose namespace this is.
func (c *Cluster) ShadowReport(ctx context.Context, namespace string) (*v1alpha1.ShadowReport, error) {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return nil, err
	}
	configMap, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, v1alpha1.ShadowConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return v1alpha1.ParseShadowReport(configMap)
}

// prepareFor installs what a taintkeeper needs in the cluster.
func (c *Cluster) prepareFor(ctx context.Context, cfg TaintkeeperConfig) error {
	if cfg.Granted {
		return nil
	}
	if err := c.GrantTaintkeeper(ctx); err != nil || !cfg.Coexist {
		return err
	}
	return c.install(ctx, "coexistence.yaml", config.Coexistence)
}

func taintkeeperBinary(path string) (string, error) {
	if path == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", fmt.Errorf("find taintkeeper: %w", err)
		}
		path = filepath.Join(root, filepath.FromSlash(defaultTaintkeeper))
	}
	path, err := absolute(path)
	if err == nil && !isFile(path) {
		err = fmt.Errorf("%s is missing: run `make build`", shortPath(path))
	}
	return path, err
}

func (c *Cluster) taintkeeperKubeconfig(cfg TaintkeeperConfig) (string, error) {
	access := cfg.Access
	if access == nil {
		var err error
		if access, err = c.TaintkeeperAccess(); err != nil {
			return "", err
		}
	}
	return c.Kubeconfig(cfg.Name, access)
}

// MetricsURL returns the address of its metrics, unless [TaintkeeperConfig.Args] changed it.
func (t *Taintkeeper) MetricsURL() string { return "http://" + t.metrics + "/metrics" }

// ReadyURL returns the address of its readiness check.
func (t *Taintkeeper) ReadyURL() string { return t.process.health }

// PID returns its process id while it runs, and 0 afterwards.
func (t *Taintkeeper) PID() int { return t.process.PID() }

// Component returns its name in the cluster.
func (t *Taintkeeper) Component() Component { return t.process.name }

// LogPath returns the file with its output, and that of earlier processes of the same name.
func (t *Taintkeeper) LogPath() string { return t.cluster.LogPath(t.process.name) }

// Ended returns a channel that is closed when the process has ended.
func (t *Taintkeeper) Ended() <-chan struct{} { return t.process.Ended() }

// Stop ends it as Kubernetes would, with SIGTERM and after a while with SIGKILL, and returns when it has ended. It is
// an error if the process had already ended by itself.
func (t *Taintkeeper) Stop() error {
	defer t.cluster.components.forget(t.process)
	if t.process.hasEnded() {
		return t.cluster.failure(t.process, errEndedByItself)
	}
	t.process.stop()
	return nil
}

// Kill ends it with SIGKILL and returns when it has ended, which it may have before.
func (t *Taintkeeper) Kill() error {
	t.process.Kill()
	t.cluster.components.forget(t.process)
	return nil
}
