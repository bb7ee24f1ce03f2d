// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// controllerManagerUser is who kube-controller-manager is for the API server.
const controllerManagerUser = "system:kube-controller-manager"

// startControllerManager starts kube-controller-manager as kubeadm does: every controller under its own service account
// and with its own bootstrap role, so that what is seen of it is true of real clusters.
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
	binary := cmp.Or(c.manager.Binary, c.binary(ControllerManager))
	_, err = c.startProcess(ctx, ControllerManager, binary, func(port int) ([]string, string) {
		return slices.Concat(c.controllerManagerArgs(kubeconfig), securePort(port), c.manager.Args), secureHealth(port)
	}, c.manager.Env...)
	if err != nil {
		return err
	}
	return c.waitDefaultServiceAccount(ctx)
}

func (c *Cluster) controllerManagerArgs(kubeconfig string) []string {
	controllers := "*"
	if c.cfg.TaintEviction == BuiltInOff {
		controllers += ",-taint-eviction-controller"
	}
	return append(leaderlessArgs(kubeconfig),
		"--controllers="+controllers,
		fmt.Sprintf("--use-service-account-credentials=%t", !c.manager.AsItself),
		"--service-account-private-key-file="+filepath.Join(c.dir, "certs", "sa-signer.key"),
		"--root-ca-file="+filepath.Join(c.dir, caName),
		"--allocate-node-cidrs=false",
	)
}

func (c *Cluster) grantAllToControllerManager(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager-itself"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: controllerManagerUser}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give %s the rights of all controllers: %w", controllerManagerUser, err)
	}
	return nil
}

func (c *Cluster) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFor(Scheduler, "system:kube-scheduler")
	if err != nil {
		return err
	}
	_, err = c.startProcess(ctx, Scheduler, c.binary(Scheduler), func(port int) ([]string, string) {
		return append(leaderlessArgs(kubeconfig), securePort(port)...), secureHealth(port)
	})
	return err
}

// leaderlessArgs are common to kube-controller-manager and kube-scheduler. With the kubeconfig for authentication and
// authorization they serve their metrics to whoever the API server would let in.
func leaderlessArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
	}
}

func securePort(port int) []string {
	return []string{"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port)}
}

func secureHealth(port int) string {
	return "https://" + loopback(port) + "/healthz"
}

// waitDefaultServiceAccount returns once the controllers have proved that they work by making the service account
// default in the namespace default.
func (c *Cluster) waitDefaultServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, healthPeriod, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return c.failure(ControllerManager, fmt.Errorf("it made no default service account: %w", errors.Join(err, last)))
	}
	return nil
}

// ControllerManagerPID returns the process id of kube-controller-manager, for measurements, or 0 when it does not run.
func (c *Cluster) ControllerManagerPID() int {
	return c.lifeline.pid(ControllerManager)
}

// ControllerManagerURL returns where kube-controller-manager serves its health and, to those whom the API server would
// let in, its metrics, or nothing when it does not run. It signs its serving certificate itself.
func (c *Cluster) ControllerManagerURL() string {
	manager := c.processes.get(ControllerManager)
	if manager == nil {
		return ""
	}
	for _, arg := range slices.Backward(manager.cmd.Args) { // the last one wins
		if port, ok := strings.CutPrefix(arg, "--secure-port="); ok {
			return "https://127.0.0.1:" + port
		}
	}
	return ""
}

// ControllerManagerConfig describes how kube-controller-manager runs. The zero value is what is in [Config.Binaries],
// with its defaults.
type ControllerManagerConfig struct {
	// Binary is the program, if it is another.
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
	running := c.processes.get(ControllerManager)
	if running == nil {
		return errors.New("kube-controller-manager was left out: remove it from Config.Without")
	}
	if err := running.stop(); err != nil {
		return err
	}
	c.manager = manager
	return c.startControllerManager(ctx)
}
