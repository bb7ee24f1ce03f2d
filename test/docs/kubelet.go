// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// holds is the finalizer that keeps a pod until its process has ended.
const holds = "taintkeeper.dev/docs-run"

// kubelet runs bin/taintkeeper for the pods of its Deployment, which kwok only plays: with the arguments of the pod but
// for the addresses, and with a token of its service account. It serves the log of each.
type kubelet struct {
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	logs    *httptest.Server
	// stop ends all processes.
	stop func()

	mu      sync.Mutex
	running map[string]*localcluster.Taintkeeper // by the name of the pod
}

func newKubelet(ctx context.Context, cluster *localcluster.Cluster) (*kubelet, error) {
	admin, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	if err := cluster.AddNodes(ctx, nodes...); err != nil {
		return nil, err
	}
	k := &kubelet{cluster: cluster, admin: admin, running: map[string]*localcluster.Taintkeeper{}}
	k.logs = httptest.NewTLSServer(http.HandlerFunc(k.serveLog))
	endpoint := fmt.Appendf(nil, `{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`,
		k.logs.Listener.Addr().(*net.TCPAddr).Port)
	for _, node := range nodes {
		if _, err := admin.CoreV1().Nodes().PatchStatus(ctx, node.Name, endpoint); err != nil {
			return nil, fmt.Errorf("say where the logs of node %s are: %w", node.Name, err)
		}
	}
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); k.run(running) }()
	k.stop = func() { end(); <-ended }
	return k, nil
}

// serveLog serves /containerLogs/NAMESPACE/POD/CONTAINER.
func (k *kubelet) serveLog(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) != 5 || parts[1] != "containerLogs" {
		http.NotFound(w, r)
		return
	}
	http.ServeFile(w, r, k.cluster.LogPath(localcluster.Component(parts[3])))
}

// run syncs until the context ends, and then ends all processes.
func (k *kubelet) run(ctx context.Context) {
	for ctx.Err() == nil {
		// An error is returned to who waits for a sync.
		_ = k.sync(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, process := range k.running {
		_ = process.Kill()
	}
	k.logs.Close()
}

// sync returns when every pod that runs has a process that is ready, and every pod that was deleted has none.
func (k *kubelet) sync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=taintkeeper"}
	pods, err := k.admin.CoreV1().Pods("").List(ctx, ours)
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if k.running[pod.Name] == nil && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			if err := k.start(ctx, &pod); err != nil {
				return fmt.Errorf("start pod %s: %w", pod.Name, err)
			}
		}
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil && slices.Contains(pod.Finalizers, holds) {
			if err := k.end(ctx, &pod); err != nil {
				return fmt.Errorf("end pod %s: %w", pod.Name, err)
			}
		}
	}
	return nil
}

// end stops the process of a pod that was deleted, if it has one, and lets the pod go.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) error {
	if process := k.running[pod.Name]; process != nil {
		if err := process.Stop(); err != nil {
			return err
		}
		delete(k.running, pod.Name)
	}
	return k.setFinalizers(ctx, pod, "null")
}

func (k *kubelet) start(ctx context.Context, pod *corev1.Pod) error {
	if err := k.setFinalizers(ctx, pod, `["`+holds+`"]`); err != nil {
		return err
	}
	access, err := k.cluster.ConfigOf(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	k.running[pod.Name], err = k.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Name: pod.Name, Access: access, Granted: true, Args: localcluster.ArgsOf(pod.Spec),
	})
	if err != nil {
		delete(k.running, pod.Name)
	}
	return err
}

func (k *kubelet) setFinalizers(ctx context.Context, pod *corev1.Pod, list string) error {
	patch := []byte(`{"metadata":{"finalizers":` + list + `}}`)
	_, err := k.admin.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
