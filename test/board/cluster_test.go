// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/cli"
	"github.com/taintkeeper/taintkeeper/test/page"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// real is a real control plane, whose kube-controller-manager evicts.
type real struct {
	*localcluster.Cluster

	admin kubernetes.Interface
}

func startReal(t *testing.T) real {
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
	return real{cluster, admin}
}

// command runs kubectl taintkeeper board as somebody, and returns the address that it prints.
func (r real) command(t *testing.T, name string, as *rest.Config) string {
	t.Helper()
	kubeconfig, err := r.Kubeconfig(name, as)
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	command := cli.New(cli.Env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: in, ErrOut: io.Discard}, Clock: clock.RealClock{}})
	command.SetArgs([]string{"board", "--kubeconfig=" + kubeconfig})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		err := command.ExecuteContext(ctx)
		ended <- err
		_ = in.CloseWithError(err)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// pod creates a pod on a node that tolerates a taint with a key for a while.
func (r real) pod(t *testing.T, name, node, key string, seconds int64) {
	t.Helper()
	pod := localcluster.NewPod(name, node, func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
	})
	if _, err := r.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// taint gives a node a taint, or takes all off, and returns when the API server had answered.
func (r real) taint(t *testing.T, node, taints string) time.Time {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"taints":%s}}`, taints)
	if _, err := r.admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// stamp returns when an expression became true in the page, by the page's own clock, which is this machine's.
func stamp(t *testing.T, tab *page.Tab, expression string) <-chan time.Time {
	t.Helper()
	looking := fmt.Sprintf(`new Promise((done) => {
		const look = () => { if (%s) done(performance.timeOrigin + performance.now()); };
		new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
		look();
	})`, expression)
	at := make(chan time.Time, 1)
	go func() {
		ms, err := chromedp.Run(tab.Context, chromedp.Evaluate[float64](looking, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Error(err)
		}
		at <- time.UnixMilli(int64(ms))
	}()
	return at
}

// All scenes share one control plane, which has no API server for a while in the last one.
func TestOfARealControlPlane(t *testing.T) {
	cluster := startReal(t)
	address := cluster.command(t, "admin", cluster.AdminConfig())
	tab := open(t, browser(t), address, look)
	until(t, tab, rows("nodes")+` === 2`)

	t.Run("the page follows a taint and an untaint within a second", func(t *testing.T) {
		cluster.pod(t, "web", "n-1", "maintenance", 3600)
		until(t, tab, `document.querySelector('h1').textContent === 'No pod has to leave.'`)
		for round := range 3 {
			for _, change := range []struct{ taints, seen string }{
				{
					fmt.Sprintf(`[{"key":"maintenance","value":"v%d","effect":"NoExecute"}]`, round),
					fmt.Sprintf(`document.querySelector('table[data-sheet=pending] tbody tr')?.textContent.includes('maintenance=v%d:NoExecute')`, round),
				},
				{`null`, rows("pending") + ` === 0`},
			} {
				seen := stamp(t, tab, change.seen)
				answered := cluster.taint(t, "n-1", change.taints)
				took := (<-seen).Sub(answered)
				t.Logf("the page shows the taints %s %v after the API server's answer", change.taints, took.Round(time.Millisecond))
				if took > time.Second {
					t.Errorf("the page follows after %v", took)
				}
			}
		}
	})

	t.Run("an eviction of the built-in is listed with its lateness", func(t *testing.T) {
		cluster.pod(t, "quick", "n-2", "maintenance", 2)
		cluster.taint(t, "n-2", `[{"key":"maintenance","effect":"NoExecute"}]`)
		until(t, tab, rows("evictions")+` === 1`)
		text := value[string](t, tab, rowOf("evictions", "quick"))
		for _, part := range []string{"default/quick", "built-in", "n-2", "maintenance:NoExecute"} {
			if !strings.Contains(text, part) {
				t.Errorf("it says %q, without %q", text, part)
			}
		}
		if strings.Contains(text, "not known") {
			t.Errorf("it says %q", text)
		}
	})

	t.Run("a cluster without NodeTaintRules is none that is broken", func(t *testing.T) {
		until(t, tab, `document.querySelector('[data-none=rules]').textContent.startsWith('The cluster has no NodeTaintRules')`)
		expect(t, "the alert is hidden", value[bool](t, tab, `document.getElementById('stale').hidden`), true)
	})

	t.Run("who may read nothing is told what is missing", func(t *testing.T) {
		nobody, err := cluster.ConfigFor("nobody")
		if err != nil {
			t.Fatal(err)
		}
		tab := open(t, browser(t), cluster.command(t, "nobody", nobody), look)
		until(t, tab, `['nodes', 'pods', 'events', 'nodetaintrules'].every((kind) => document.getElementById('problems').textContent.includes('You may not list ' + kind + ': '))`)
	})

	t.Run("while the API server is away the page says since when it is not current", func(t *testing.T) {
		if err := cluster.StopAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, tab, `document.getElementById('stale').textContent.startsWith('Not current since ')`)
		expect(t, "nodes that are shown", value[int](t, tab, shown("nodes")), 2)
		if err := cluster.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, tab, `document.getElementById('stale').hidden`)
		cluster.taint(t, "n-1", `[{"key":"back","effect":"NoExecute"}]`)
		until(t, tab, rowOf("nodes", "n-1")+`.includes('back:NoExecute')`)
	})
}
