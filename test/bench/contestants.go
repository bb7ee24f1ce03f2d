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

var allContestants = []string{nameFloor, nameOurs, namePrevious, nameCoexist, nameUnlimited, nameBuiltIn}

// contestant is a program that evicts, or that monitors nodes.
type contestant struct {
	name string
	args []string // its command line, the program first
	// ready returns once the process is up and has nothing to do.
	ready func(context.Context, *process) error
}

// prepare makes what all scenes use: a role for the contestants, namespaces, and the node of the canaries.
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

// contestant makes the one with a name. If it runs other controllers than those that evict, it is ready when it has
// tainted a cordoned node.
func (b *bench) contestant(name, controllers string) (c contestant, err error) {
	switch name {
	case nameFloor:
		c, err = b.floor()
	case nameOurs:
		c, err = b.taintkeeper(name, "bin/taintkeeper")
	case namePrevious:
		c, err = b.taintkeeper(name, b.previous)
	case nameCoexist:
		c, err = b.coexist()
	case nameUnlimited:
		c, err = b.builtIn("--kube-api-qps=5000", "--kube-api-burst=5000")
	case nameBuiltIn:
		c, err = b.builtIn()
	}
	c.name = name
	if controllers != "" {
		c.args = slices.DeleteFunc(c.args, func(arg string) bool { return strings.HasPrefix(arg, "--controllers=") })
		c.args, c.ready = append(c.args, "--controllers="+controllers), b.awaitCordon
	}
	return c, err
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
		args:  []string{self, floorCommand, kubeconfig},
		ready: func(_ context.Context, p *process) error { return p.expectLine() },
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
	return contestant{args: args, ready: b.awaitCanary}, nil
}

// coexist is taintkeeper with the identity that config/coexistence.yaml names, and a built-in that is refused.
func (b *bench) coexist() (contestant, error) {
	c, err := b.taintkeeper(nameOurs, "bin/taintkeeper")
	if err != nil {
		return contestant{}, err
	}
	rival, err := b.builtIn()
	if err != nil {
		return contestant{}, err
	}
	rival.name = "refused"
	c.args = append(c.args, "--coexist")
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

// builtIn is kube-controller-manager with the controllers that it needs to evict: its taint-eviction-controller waits
// indefinitely for an index of the pod informer that the daemonset or the node-lifecycle controller registers.
func (b *bench) builtIn(limits ...string) (contestant, error) {
	config, err := b.cluster.ConfigFor("system:kube-controller-manager")
	kubeconfig, err := b.writeKubeconfig(nameBuiltIn, config, err)
	if err != nil {
		return contestant{}, err
	}
	args := []string{
		filepath.Join(b.cluster.Binaries(), "kube-controller-manager"),
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
		"--controllers=taint-eviction-controller,daemonset-controller",
	}
	return contestant{args: append(args, limits...), ready: b.awaitCanary}, nil
}

// A canary is a pod on a node that has been tainted all along. It is due when a contestant starts, so its end shows
// that the contestant works, whatever the contestant considers ready.
const (
	canaryNode      = "canary"
	canaryNamespace = "canary"
)

// startLimit is how long a contestant may take before it acts.
const startLimit = 15 * time.Minute

// launch starts a contestant and returns as soon as it is ready.
func (b *bench) launch(ctx context.Context, c contestant) (*process, error) {
	mark, err := b.audit.mark()
	if err != nil {
		return nil, err
	}
	before, err := b.serverCPU(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.createCanary(ctx); err != nil {
		return nil, err
	}
	p, err := b.start(c)
	if err != nil {
		return nil, err
	}
	p.mark, p.serverBefore = mark, before
	if err := c.ready(ctx, p); err != nil {
		p.stop()
		return nil, fmt.Errorf("wait for %s to be ready: %w", c.name, err)
	}
	return p, nil
}

// settleTime is how long a process is left alone, so that nothing is under way.
const settleTime = 2 * time.Second

func (b *bench) createCanary(ctx context.Context) error {
	b.serial++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("canary-%03d", b.serial), Namespace: canaryNamespace},
		Spec: corev1.PodSpec{
			NodeName:   canaryNode,
			Containers: []corev1.Container{{Name: "canary", Image: "registry.example.com/canary"}},
		},
	}
	if _, err := b.admin.CoreV1().Pods(canaryNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a canary: %w", err)
	}
	return nil
}

// awaitCanary returns once the process has deleted a canary, and notes how long after its start that was.
func (b *bench) awaitCanary(ctx context.Context, p *process) error {
	ctx, cancel := p.running(ctx)
	defer cancel()
	calls, err := b.audit.awaitDeletes(ctx, p.mark, 1, startLimit)
	if err != nil {
		return err
	}
	for _, accepted := range deletes(calls) {
		p.startup = accepted.Sub(p.started)
	}
	return nil
}
