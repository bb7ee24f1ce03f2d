// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// The contestants, by the names of the flag -without.
const (
	nameFloor     = "floor"
	nameOurs      = "taintkeeper"
	namePrevious  = "previous"  // another build of taintkeeper, see the flag -previous
	nameCoexist   = "coexist"   // taintkeeper with --coexist, next to a kube-controller-manager with its defaults
	nameUnlimited = "unlimited" // kube-controller-manager without its client limits
	nameBuiltIn   = "built-in"  // kube-controller-manager with its defaults
)

// allContestants are in the order of the report's columns.
var allContestants = []string{nameFloor, nameOurs, namePrevious, nameCoexist, nameUnlimited, nameBuiltIn}

// contestant is a program that evicts.
type contestant struct {
	name string
	args []string // its command line, the program first
	// ready returns once the process is up and has nothing to do.
	ready func(context.Context, *process) error
	// learn is called before each storm, once its pods exist.
	learn func(*process) error
	// begin is called when the first taint is accepted.
	begin func(*process) error
}

// prepare makes what all parts use: a role for the contestants, namespaces, and the node of the canaries.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.grant(ctx); err != nil {
		return fmt.Errorf("grant the contestants their permissions: %w", err)
	}
	if err := b.createNamespaces(ctx); err != nil {
		return fmt.Errorf("create the namespaces: %w", err)
	}
	if err := b.createNodes(ctx, []string{canaryNode}); err != nil {
		return err
	}
	return b.taint(ctx, canaryNode)
}

// grant gives all contestants what config/rbac.yaml gives Taintkeeper. They are service accounts in kube-system: the
// API server's priority and fairness treats them like kube-controller-manager's, and unlike administrators, whom it
// never makes wait.
func (b *bench) grant(ctx context.Context) error {
	if err := b.cluster.GrantTaintkeeper(ctx); err != nil {
		return err
	}
	of := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: nameOurs}
	}
	name := metav1.ObjectMeta{Name: "bench"}
	others := []rbacv1.Subject{
		{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: serviceAccount(nameFloor)},
		{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: serviceAccount(namePrevious)},
	}
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: of("ClusterRole"), Subjects: others}
	if _, err := b.admin.RbacV1().ClusterRoleBindings().Create(ctx, everywhere, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, namespace := range []string{metav1.NamespaceSystem, corev1.NamespaceNodeLease} {
		there := &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: of("Role"), Subjects: others}
		if _, err := b.admin.RbacV1().RoleBindings(namespace).Create(ctx, there, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func serviceAccount(name string) string {
	return "system:serviceaccount:" + metav1.NamespaceSystem + ":" + name
}

// kubeconfig writes the kubeconfig of a contestant that runs as a service account.
func (b *bench) kubeconfig(name string) (string, error) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + metav1.NamespaceSystem}
	config, err := b.cluster.ConfigFor(serviceAccount(name), groups...)
	return b.writeKubeconfig(name, config, err)
}

func (b *bench) writeKubeconfig(name string, config *rest.Config, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return b.cluster.Kubeconfig(name, config)
}

// contestants returns those of the given names that are not left out.
func (b *bench) contestants(wanted ...string) ([]contestant, error) {
	makers := map[string]func() (contestant, error){
		nameFloor:    b.floor,
		nameOurs:     func() (contestant, error) { return b.taintkeeper(nameOurs, b.ours) },
		namePrevious: func() (contestant, error) { return b.taintkeeper(namePrevious, b.previous) },
		nameCoexist:  b.coexist,
		nameUnlimited: func() (contestant, error) {
			return b.builtIn(nameUnlimited, "--kube-api-qps=5000", "--kube-api-burst=5000")
		},
		nameBuiltIn: func() (contestant, error) { return b.builtIn(nameBuiltIn) },
	}
	var all []contestant
	for _, name := range wanted {
		if slices.Contains(b.without, name) || name == namePrevious && b.previous == "" {
			continue
		}
		c, err := makers[name]()
		if err != nil {
			return nil, fmt.Errorf("set up %s: %w", name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (b *bench) floor() (contestant, error) {
	kubeconfig, err := b.kubeconfig(nameFloor)
	if err != nil {
		return contestant{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return contestant{}, fmt.Errorf("find this program: %w", err)
	}
	return contestant{
		name:  nameFloor,
		args:  []string{self, floorCommand, "-kubeconfig=" + kubeconfig, "-workers=" + strconv.Itoa(b.workers)},
		ready: func(_ context.Context, p *process) error { return p.expectLine() },
		learn: func(p *process) error { return errors.Join(p.sendLine(), p.expectLine()) },
		begin: func(p *process) error { return p.sendLine() },
	}, nil
}

func (b *bench) taintkeeper(name, program string) (contestant, error) {
	kubeconfig, err := b.kubeconfig(name)
	if err != nil {
		return contestant{}, err
	}
	if _, err := os.Stat(program); err != nil {
		return contestant{}, fmt.Errorf("%s is missing: run `make build`, and run this program in the root of the repository", program)
	}
	args := []string{
		program, "--kubeconfig=" + kubeconfig, "--leader-elect=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
	if name == nameOurs {
		args = append(args, strings.Fields(b.args)...)
	}
	return contestant{name: name, args: args, ready: b.awaitCanary, learn: nothing, begin: nothing}, nil
}

// coexist is taintkeeper with the identity that config/coexistence.yaml names, and a built-in that is refused.
func (b *bench) coexist() (contestant, error) {
	c, err := b.taintkeeper(nameOurs, b.ours)
	if err != nil {
		return contestant{}, err
	}
	rival, err := b.builtIn("refused")
	if err != nil {
		return contestant{}, err
	}
	c.name, c.args = nameCoexist, append(c.args, "--coexist")
	c.ready = func(ctx context.Context, p *process) error {
		if err := errors.Join(b.awaitCanary(ctx, p), b.cluster.WaitHeldOff(ctx)); err != nil {
			return err
		}
		var err error
		p.rival, err = b.start(rival)
		return errors.Join(err, await.Pause(ctx, rivalStart))
	}
	return c, nil
}

// rivalStart is the time that kube-controller-manager gets to list what it watches. It has nothing to evict then, so no
// canary could show that it is ready.
const rivalStart = 15 * time.Second

const builtInControllers = "--controllers=taint-eviction-controller,daemonset-controller"

// builtIn is kube-controller-manager with the controllers that it needs to evict: its taint-eviction-controller waits
// indefinitely for an index of the pod informer that the daemonset or the node-lifecycle controller registers.
func (b *bench) builtIn(name string, limits ...string) (contestant, error) {
	config, err := b.cluster.ConfigFor("system:kube-controller-manager")
	kubeconfig, err := b.writeKubeconfig(name, config, err)
	if err != nil {
		return contestant{}, err
	}
	args := []string{
		filepath.Join(b.plane, "kube-controller-manager"),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
		builtInControllers,
	}
	return contestant{name: name, args: append(args, limits...), ready: b.awaitCanary, learn: nothing, begin: nothing}, nil
}

func nothing(*process) error { return nil }
