// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// controllerManagerUser is the user of kube-controller-manager.
const controllerManagerUser = "system:kube-controller-manager"

// startControllerManager starts kube-controller-manager as kubeadm does: every controller with its own service account
// and bootstrap role, so that observations hold for real clusters. It returns once the controllers have proved that
// they work by making the service account default in the namespace default.
func (c *Cluster) startControllerManager(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFor(ControllerManager, controllerManagerUser)
	if err != nil {
		return err
	}
	if c.manager.AsItself {
		if err := c.grantAllToControllerManager(ctx); err != nil {
			return err
		}
	}
	manager, err := c.run(ctx, program{
		component: ControllerManager, binary: c.manager.Binary, env: c.manager.Env, health: secureHealth,
		args: func(port int) []string {
			return slices.Concat(c.controllerManagerArgs(kubeconfig), securePort(port), c.manager.Args)
		},
	})
	if err != nil {
		return err
	}
	return c.awaitMade(ctx, manager, "default service account", func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *Cluster) controllerManagerArgs(kubeconfig string) []string {
	controllers := "*"
	if c.cfg.TaintEviction == BuiltInOff {
		controllers += ",-taint-eviction-controller"
	}
	return append(leaderlessArgs(kubeconfig),
		"--controllers="+controllers,
		fmt.Sprintf("--use-service-account-credentials=%t", !c.manager.AsItself),
		"--service-account-private-key-file="+c.file(authorityKeyName),
		"--root-ca-file="+c.file(servingName),
		"--allocate-node-cidrs=false",
	)
}

func (c *Cluster) grantAllToControllerManager(ctx context.Context) error {
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager-itself"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controllerManagerUser}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give %s the rights of all controllers: %w", controllerManagerUser, err)
	}
	return nil
}

// ControllerManagerURL returns where kube-controller-manager serves its health and, to authorized clients, its metrics,
// or nothing if it is not running. Its serving certificate is self-signed.
func (c *Cluster) ControllerManagerURL() string {
	manager := c.components.get(ControllerManager)
	if manager == nil {
		return ""
	}
	return fmt.Sprintf("https://127.0.0.1:%d", manager.port)
}

// ControllerManagerConfig describes how kube-controller-manager runs. The zero value is what is in [Config.Binaries],
// with its defaults.
type ControllerManagerConfig struct {
	// Binary is the program, if it is not the default.
	Binary string
	// Args are added to its command line, as [Config.ControllerManagerArgs] are.
	Args []string
	// Env is added to its environment, each as name=value.
	Env []string
	// AsItself runs it without --use-service-account-credentials: all its controllers act as the user of
	// kube-controller-manager, which gets the rights for that.
	AsItself bool
}

// RestartControllerManager ends kube-controller-manager and starts it again as described, whatever [Config] says. It
// returns once the new process is healthy; its controllers may still be starting.
func (c *Cluster) RestartControllerManager(ctx context.Context, manager ControllerManagerConfig) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return errStopped
	}
	running := c.components.get(ControllerManager)
	if running == nil {
		return errors.New("kube-controller-manager was left out: remove it from Config.Without")
	}
	running.stop()
	c.manager = manager
	return c.startControllerManager(ctx)
}
