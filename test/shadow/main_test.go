// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow proves the shadow mode beside the real built-in taint-eviction-controller: on a real control plane whose
// kube-controller-manager runs with its defaults, with a taintkeeper that has no right but to look and to write events.
//
// All tests share one cluster, and each has nodes for itself.
package shadow

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

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// onlooker is who the shadow is for the API server. It has the rights that docs/shadow-mode.md names.
const onlooker = "shadow-onlooker"

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // there is no test yet
	defer stop()
	dir, err := os.MkdirTemp("", "taintkeeper-shadow-")
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
		fmt.Fprintln(os.Stderr, "start and stop what the tests of the shadow share:", err)
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
	})
	if err != nil {
		return err
	}
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return err
	}
	return grant(ctx)
}

// grant gives the onlooker its rights.
func grant(ctx context.Context) error {
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: onlooker},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: onlooker},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: onlooker},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: onlooker}},
	}, metav1.CreateOptions{})
	return err
}
