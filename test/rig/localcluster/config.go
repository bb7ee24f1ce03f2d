// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// Component is a process of the control plane, called as its binary is.
type Component string

// The components, in the order in which they start. The first two cannot be left out.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kwok              Component = "kwok"
)

var allComponents = []Component{Etcd, APIServer, ControllerManager, Scheduler, Kwok}

// TaintEviction says what evicts the pods of tainted nodes.
type TaintEviction int

const (
	// BuiltInOff leaves eviction to a process outside the cluster: kube-controller-manager runs without its
	// taint-eviction-controller, as a cluster with Taintkeeper does.
	BuiltInOff TaintEviction = iota
	// BuiltInOn lets kube-controller-manager evict.
	BuiltInOn
)

// Config describes a cluster. The zero value is a whole control plane with the built-in taint eviction off.
type Config struct {
	// Binaries is the folder with the binaries; by default [DefaultBinaries] of the Go module that the working
	// directory belongs to.
	Binaries string
	// Dir is the state folder: data, certificates, kubeconfig files and a log per component. It must be new or
	// empty, and is kept. By default a temporary folder is used, which is removed when the cluster ends; it is
	// kept when something failed.
	Dir string
	// TaintEviction switches kube-controller-manager's taint-eviction-controller.
	TaintEviction TaintEviction
	// Without leaves components out. With etcd and kube-apiserver alone a cluster starts within seconds.
	Without []Component
	// ControllerManagerArgs are added to kube-controller-manager's command line, where the last value of a flag counts;
	// --controllers adds to the existing list.
	ControllerManagerArgs []string
	// APIServerArgs are added to kube-apiserver's command line, each as --name=value or --name; they replace
	// the default of that name.
	APIServerArgs []string
	// NodeLeaseSeconds is how long the leases of kwok's nodes last, in seconds; each is renewed four times in it. By
	// default it is 40, as with a kubelet.
	NodeLeaseSeconds int
	// Audit makes the API server write audit.log into the state folder, one line per finished request that the policy
	// is about. Package auditlog has the policies and reads the log.
	Audit auditlog.Policy
	// Log receives a line per step; nil means no output.
	Log io.Writer
}

// complete validates cfg and fills in the defaults that need no cleaning up.
func (cfg Config) complete() (Config, error) {
	if slices.Contains(cfg.Without, Etcd) || slices.Contains(cfg.Without, APIServer) {
		return cfg, errors.New("etcd and kube-apiserver cannot be left out: remove them from Config.Without")
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if cfg.NodeLeaseSeconds == 0 {
		cfg.NodeLeaseSeconds = defaultNodeLeaseSeconds
	}
	var err error
	if cfg.Binaries, err = binariesFolder(cfg.Binaries); err != nil {
		return cfg, err
	}
	return cfg, requireBinaries(cfg)
}

func (cfg Config) has(component Component) bool {
	return !slices.Contains(cfg.Without, component)
}

const (
	// binariesVariable is the environment variable that chooses another version of Kubernetes for all tests at once.
	binariesVariable = "CONTROLPLANE"
	defaultBinaries  = "bin/controlplane"
)

// DefaultBinaries returns the default folder of the binaries: the environment variable CONTROLPLANE, or
// bin/controlplane. It is relative to the root of the Go module, or absolute.
func DefaultBinaries() string {
	return cmp.Or(os.Getenv(binariesVariable), defaultBinaries)
}

// binariesFolder returns folder as an absolute path, or the default folder when it is empty.
func binariesFolder(folder string) (string, error) {
	if folder != "" {
		return absolute(folder)
	}
	folder = filepath.FromSlash(DefaultBinaries())
	if filepath.IsAbs(folder) {
		return folder, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", fmt.Errorf("find the control plane binaries: %w", err)
	}
	return filepath.Join(root, folder), nil
}

// moduleRoot returns the nearest folder with a go.mod, from the working directory upwards.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		if isFile(filepath.Join(folder, "go.mod")) {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no go.mod in %s or above it: run inside the repository, or set Config.Binaries", start)
		}
	}
}

func requireBinaries(cfg Config) error {
	for _, component := range allComponents {
		if !cfg.has(component) || isFile(filepath.Join(cfg.Binaries, string(component))) {
			continue
		}
		return fmt.Errorf("%s is missing: run `%s` (the first build takes minutes)",
			shortPath(filepath.Join(cfg.Binaries, string(component))), buildCommand(cfg.Binaries))
	}
	return nil
}

// buildCommand returns what builds the binaries of a folder, whose name ends with the version unless it is the default.
func buildCommand(folder string) string {
	if version, ok := strings.CutPrefix(filepath.Base(folder), "controlplane-"); ok {
		return "make controlplane KUBE=" + version
	}
	return "make controlplane"
}

// shortPath shows a path in the default folder relative to the module root, as make does.
func shortPath(path string) string {
	root, err := moduleRoot()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(short) {
		return path
	}
	return filepath.ToSlash(short)
}

// stateFolder returns the folder to use and whether it is ours to remove.
func stateFolder(dir string) (path string, temporary bool, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "localcluster-")
		return path, true, err
	}
	if path, err = absolute(dir); err != nil {
		return "", false, err
	}
	if err = os.MkdirAll(path, 0o700); err != nil {
		return "", false, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false, err
	}
	if len(entries) > 0 {
		return "", false, fmt.Errorf("the state folder %s is not empty: name a new or an empty one in Config.Dir", path)
	}
	return path, false, nil
}

func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return abs, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
