// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/chart/helm"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	namespace = metav1.NamespaceSystem
	workloads = metav1.NamespaceDefault
	name      = "taintkeeper"

	us      = "system:serviceaccount:" + namespace + ":" + name
	builtIn = "system:serviceaccount:" + namespace + ":node-controller"
)

// stage is the cluster, and what is installed in it.
type stage struct {
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	audit   *auditlog.Log
	helm    helm.Client
	keeper  *localcluster.Taintkeeper
}

func newStage(ctx context.Context) (*stage, error) {
	say("Starting a control plane with the built-in taint-eviction-controller on, as every cluster has it")
	cluster, err := localcluster.Start(context.WithoutCancel(ctx), localcluster.Config{
		Binaries:      "bin/controlplane",
		TaintEviction: localcluster.BuiltInOn,
		Without:       []localcluster.Component{localcluster.Scheduler},
		Audit:         auditlog.Calls,
	})
	if err != nil {
		return nil, err
	}
	s := &stage{cluster: cluster, audit: auditlog.New(cluster.AuditLog())}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context) error {
	var err error
	if s.admin, err = kubernetes.NewForConfig(s.cluster.AdminConfig()); err != nil {
		return err
	}
	kubeconfig, err := s.cluster.Kubeconfig("helm", s.cluster.AdminConfig())
	if err != nil {
		return err
	}
	s.helm = helm.Client{Root: ".", Program: "helm", Kubeconfig: kubeconfig, Namespace: namespace}
	return s.cluster.AddNodes(ctx, localcluster.NodeSpec{Name: "node-1"}, localcluster.NodeSpec{Name: "node-2"})
}

func (s *stage) install(ctx context.Context) error {
	_, err := s.helm.Run(ctx, nil, "install", name, s.helm.Chart())
	return err
}

func (s *stage) upgrade(ctx context.Context, values map[string]any) error {
	_, err := s.helm.Run(ctx, values, "upgrade", name, s.helm.Chart(), "--reset-then-reuse-values")
	return err
}

// start runs the program as the kubelet would run the Deployment's pod, but for the addresses.
func (s *stage) start(ctx context.Context) error {
	if s.keeper != nil {
		if err := s.keeper.Stop(); err != nil {
			return err
		}
	}
	accounts := s.admin.CoreV1().ServiceAccounts(namespace)
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	access := rest.AnonymousClientConfig(s.cluster.AdminConfig())
	access.BearerToken = token.Status.Token
	deployment, err := s.admin.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(deployment.Spec.Template.Spec.Containers[0].Args, func(arg string) bool {
		return strings.Contains(arg, "-bind-address=")
	})
	say("Running bin/taintkeeper as the pod of the Deployment would: %s", strings.Join(args, " "))
	s.keeper, err = s.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: "bin/taintkeeper", Access: access, Granted: true, Args: append(args, "--leader-elect"),
	})
	return err
}

// makePods makes pods on a node that tolerate the taint maintenance for a while.
func (s *stage) makePods(ctx context.Context, node string, count int, tolerated time.Duration) error {
	seconds := int64(tolerated.Seconds())
	for i := range count {
		pod := localcluster.NewPod(fmt.Sprintf("web-%s-%d", node, i), node, func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{
				Key: "maintenance", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			}}
		})
		if _, err := s.admin.CoreV1().Pods(workloads).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) taint(ctx context.Context, node string) error {
	command("kubectl taint nodes %s maintenance:NoExecute", node)
	_, err := scene.Taint(ctx, s.admin, node, scene.NoExecute("maintenance"))
	return err
}

// gone waits until no pod is left on a node.
func (s *stage) gone(ctx context.Context, node string) error {
	return s.eventually(ctx, "the pods of "+node+" are gone", func(ctx context.Context) error {
		left, err := s.admin.CoreV1().Pods(workloads).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are left", len(left.Items))
		}
		return err
	})
}

// eventually waits until something holds.
func (s *stage) eventually(ctx context.Context, what string, holds func(context.Context) error) error {
	const lookAgain, waitLimit = 100 * time.Millisecond, 2 * time.Minute
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookAgain, waitLimit, true, func(ctx context.Context) (bool, error) {
		last = holds(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waited in vain until %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// calls counts the calls of somebody about pods, by whether they were accepted.
func (s *stage) calls(user, verb, resource string) (accepted, refused int, err error) {
	events, err := s.audit.Events(func(e auditlog.Event) bool {
		return e.User == user && e.Verb == verb && e.Resource == resource && e.Namespace == workloads
	})
	for _, event := range events {
		if event.Accepted() {
			accepted++
		} else {
			refused++
		}
	}
	return accepted, refused, err
}

// logLine returns the first line of the program's log with some words in it.
func (s *stage) logLine(words string) (string, error) {
	log, err := os.ReadFile(s.keeper.LogPath())
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, words) {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("no line of %s has %q", s.keeper.LogPath(), words)
}
