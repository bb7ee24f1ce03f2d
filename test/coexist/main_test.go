// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coexist proves that Taintkeeper evicts beside the built-in taint-eviction-controller, and that the built-in
// evicts again when Taintkeeper is gone: on a real control plane whose kube-controller-manager runs with its defaults,
// with config/coexistence.yaml in it. The audit log says who evicted which pod.
//
// All tests share one cluster, and each has a node and a namespace for itself.
package coexist

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	audit   *auditlog.Log
)

const (
	// validFor is how long a renewal keeps the built-in from evicting.
	validFor = 30 * time.Second
	// waitLimit is how long a test waits before it gives up, lookAgain how often it looks.
	waitLimit = time.Minute
	lookAgain = 50 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // there is no test yet
	defer stop()
	dir, err := os.MkdirTemp("", "taintkeeper-coexist-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := 1
	if err = start(ctx, dir); err == nil {
		code = m.Run()
	}
	if cluster != nil {
		err = errors.Join(err, cluster.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start and stop what the tests of coexistence share:", err)
		return 1
	}
	return code
}

// start builds the binary of these sources and starts a cluster whose built-in controllers are all on.
func start(ctx context.Context, dir string) error {
	binary = filepath.Join(dir, "taintkeeper")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/taintkeeper/taintkeeper/cmd/taintkeeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build taintkeeper: %w\n%s", err, output)
	}
	var err error
	cluster, err = localcluster.Start(context.WithoutCancel(ctx), localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		Without:       []localcluster.Component{localcluster.Scheduler},
		Audit:         auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog())
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return err
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, rightsOfAllControllers(), metav1.CreateOptions{})
	return err
}

// rightsOfAllControllers is what kube-controller-manager needs without --use-service-account-credentials.
func rightsOfAllControllers() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager-itself"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: asItself}},
	}
}
