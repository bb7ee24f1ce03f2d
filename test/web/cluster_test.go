// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// realCluster is a real control plane, whose kube-controller-manager evicts.
type realCluster struct {
	*localcluster.Cluster

	admin kubernetes.Interface
}

func startReal(t *testing.T) realCluster {
	t.Helper()
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Config{
		TaintEviction: localcluster.BuiltInOn, Without: []localcluster.Component{localcluster.Scheduler},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: "n-1", Zone: "a"}, localcluster.NodeSpec{Name: "n-2", Zone: "b"}); err != nil {
		t.Fatal(err)
	}
	return realCluster{cluster, admin}
}

// command runs kubectl taintkeeper board as a user, and returns the address that it prints.
func (r realCluster) command(t *testing.T, name string, as *rest.Config) string {
	t.Helper()
	kubeconfig, err := r.Kubeconfig(name, as)
	if err != nil {
		t.Fatal(err)
	}
	address, end, err := web.Serve(context.WithoutCancel(t.Context()), "--kubeconfig="+kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return address
}

// pod creates a pod on a node. The pod tolerates a taint with a key for the given number of seconds.
func (r realCluster) pod(t *testing.T, name, node, key string, seconds int64) {
	t.Helper()
	pod := localcluster.NewPod(name, node, func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
	})
	if _, err := r.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// taint gives a node a NoExecute taint.
func (r realCluster) taint(t *testing.T, node, key string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"effect":"NoExecute"}]}}`, key)
	if _, err := r.admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// All scenes share one control plane, whose API server is down for a while in the last scene.
func TestOfARealControlPlane(t *testing.T) {
	cluster := startReal(t)
	address := cluster.command(t, "admin", cluster.AdminConfig())
	tab := open(t, address, look)
	until(t, tab, web.Rows("nodes")+` === 2`)

	t.Run("an eviction of the built-in is listed with its lateness", func(t *testing.T) {
		cluster.pod(t, "quick", "n-2", "maintenance", 2)
		cluster.taint(t, "n-2", "maintenance")
		until(t, tab, web.Rows("evictions")+` === 1`)
		text := value[string](t, tab, web.RowOf("evictions", "quick"))
		for _, part := range []string{"default/quick", "built-in", "n-2", "maintenance:NoExecute"} {
			if !strings.Contains(text, part) {
				t.Errorf("it says %q, without %q", text, part)
			}
		}
		if strings.Contains(text, "not known") {
			t.Errorf("it says %q", text)
		}
	})

	t.Run("what shadow mode finds is listed", func(t *testing.T) {
		report := v1alpha1.ShadowReport{Time: metav1.Now(), Differences: []v1alpha1.ShadowDifference{{
			Outcome: v1alpha1.ShadowNever, Namespace: "default", Pod: "web", Node: "n-1", Sentence: "still there",
		}}}
		data, err := report.Data()
		if err != nil {
			t.Fatal(err)
		}
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ShadowConfigMap}, Data: data}
		if _, err := cluster.admin.CoreV1().ConfigMaps("kube-system").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, tab, web.RowOf("differences", "n-1")+`.includes('never')`)
	})

	t.Run("a cluster without NodeTaintRules is not shown as broken", func(t *testing.T) {
		until(t, tab, `document.querySelector('#rules .nothing').textContent.startsWith('The cluster has no NodeTaintRules')`)
		expect(t, "the alert is hidden", value[bool](t, tab, `document.getElementById('stale').hidden`), true)
	})

	t.Run("a user who may read nothing is told what is missing", func(t *testing.T) {
		nobody, err := cluster.ConfigFor("nobody")
		if err != nil {
			t.Fatal(err)
		}
		tab := open(t, cluster.command(t, "nobody", nobody), look)
		until(t, tab, `['nodes', 'pods', 'events', 'configmaps', 'nodetaintrules'].every((kind) => document.getElementById('losses').textContent.includes('You may not list ' + kind + ': '))`)
		expect(t, "the figures", value[string](t, tab, `[...document.querySelectorAll('#figures strong')].map((figure) => figure.textContent).join('')`), "–––––")
	})

	t.Run("while the API server is away, the page says since when it has not been current", func(t *testing.T) {
		if err := cluster.StopAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, tab, `document.getElementById('stale').textContent.startsWith('Not current since ')`)
		expect(t, "nodes that are shown", value[int](t, tab, web.Rows("nodes")), 2)
		if err := cluster.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, tab, `document.getElementById('stale').hidden`)
		cluster.taint(t, "n-1", "back")
		until(t, tab, web.RowOf("nodes", "n-1")+`.includes('back:NoExecute')`)
	})
}
