// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package questions plays ten questions of an engineer on call on a real control plane: one command answers each, on one
// screen. With -nodes=5000, the log shows whether that takes longer than ten seconds.
package questions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

var (
	nodeCount  = flag.Int("nodes", 300, "how many nodes the cluster has")
	podsANode  = flag.Int("pods", 4, "how many pods a node has")
	kubeconfig string
	plugin     string
	admin      kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// screen is how many lines of 80 columns an answer may have.
const screen = 50

// What the questions are about. All nodes have names of their own, so that each trouble has one node.
const (
	taint   = "maintenance:NoExecute"
	tainted = "node-00000" // its pods may stay for an hour
	drained = "node-00001" // its pods have left
	silent  = "node-00002" // its kubelet does not end the pod that was evicted
	healthy = "node-00003"
	zone    = "zone-b"
	doomed  = "cart" // a workload with all its pods in the zone
)

func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	if plugin, err = suite.Build(ctx, shared.Dir, "kubectl-taintkeeper"); err != nil {
		return err
	}
	taintkeeper, err := suite.Build(ctx, shared.Dir, "taintkeeper")
	if err != nil {
		return err
	}
	// Nodes without kubelets stay ready and pods without ReplicaSets stay, because the controllers that would change that
	// are off.
	cluster, _, err := shared.StartCluster(ctx, localcluster.Config{
		TaintEviction:         localcluster.BuiltInOn,
		Without:               []localcluster.Component{localcluster.Scheduler, localcluster.Kwok},
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller,-garbage-collector-controller"},
	})
	if err != nil {
		return err
	}
	config := rest.CopyConfig(cluster.AdminConfig())
	config.QPS = -1
	if admin, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if kubeconfig, err = cluster.Kubeconfig("admin", cluster.AdminConfig()); err != nil {
		return err
	}
	if err := cluster.InstallResources(ctx); err != nil {
		return err
	}
	if err := populate(ctx); err != nil {
		return err
	}
	_, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{
		Binary: taintkeeper, Coexist: true, Args: []string{"--leader-elect"},
	})
	if err != nil {
		return err
	}
	return makeTrouble(ctx)
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// populate creates the nodes, and pods on them: three of the doomed workload in one zone, and many of others.
func populate(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	err := inParallel(ctx, *nodeCount, func(ctx context.Context, i int) error {
		name := nodeName(i)
		nodes := admin.CoreV1().Nodes()
		_, err := nodes.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+i%3), corev1.LabelTopologyRegion: localcluster.Region,
			}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
				Capacity:   room, Allocatable: room,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		// New nodes get the taint not-ready.
		_, err = nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	err = inParallel(ctx, *nodeCount**podsANode, func(ctx context.Context, i int) error {
		return create(ctx, fmt.Sprintf("web-%03d", i%400), i, nodeName(i%*nodeCount), endsAtOnce)
	})
	for i := range 3 {
		err = errors.Join(err, create(ctx, doomed, i, nodeName(4+3*i))) // nodes of the zone
	}
	return errors.Join(err,
		create(ctx, "patient", 0, tainted, func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{
				Key: "maintenance", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3600)),
			}}
		}),
		create(ctx, "gone", 0, drained, endsAtOnce),
		create(ctx, "stuck", 0, silent),
		create(ctx, "waiting", 0, "", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"gpu": "yes"} }))
}

// endsAtOnce lets a pod go without a kubelet.
func endsAtOnce(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }

// podName is the name of a pod of a Deployment's ReplicaSet.
func podName(workload string, i int) string { return fmt.Sprintf("%s-%s-%05d", workload, hash, i) }

const hash = "6d4cf56db6"

// create creates a pod that runs on a node, or waits for one.
func create(ctx context.Context, workload string, i int, node string, edits ...func(*corev1.Pod)) error {
	pod := localcluster.NewPod(podName(workload, i), node, edits...)
	pod.Labels = map[string]string{"app": workload, "pod-template-hash": hash}
	owner := workload + "-" + hash
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true),
	}}
	pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil || node == "" {
		return err
	}
	created.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

func inParallel(ctx context.Context, count int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// makeTrouble taints three nodes, and waits until the pods have left that can.
func makeTrouble(ctx context.Context) error {
	if answer, code := ask(ctx, "taint", tainted, drained, silent, taint, "--yes"); code != 0 {
		return fmt.Errorf("taint nodes: exit code %d: %s", code, answer)
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
		if _, err := pods.Get(ctx, podName("gone", 0), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is not gone: %w", err)
		}
		stuck, err := pods.Get(ctx, podName("stuck", 0), metav1.GetOptions{})
		if err == nil && stuck.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return err
	})
}

// ask runs a command as a user would, and returns what it prints and its exit code.
func ask(ctx context.Context, args ...string) (answer string, code int) {
	command := exec.CommandContext(ctx, plugin, append(args, "--kubeconfig="+kubeconfig)...)
	out, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), -1
	}
	return string(out), 0
}

func TestOneCommandOnOneScreenAnswersEachQuestion(t *testing.T) {
	for _, question := range []struct {
		asks string
		args []string
		want []string
	}{
		{"Why was my pod evicted? It is gone.", []string{"why", podName("gone", 0)}, []string{"is gone: Taintkeeper evicted it from node " + drained, taint}},
		{"When will it leave?", []string{"why", podName("patient", 0)}, []string{"leaves node " + tainted + " in ", taint}},
		{"Who set this taint, and when?", []string{"taints"}, []string{taint, "kubectl-taintkeeper"}},
		{"What happens if I untaint?", []string{"plan", tainted, taint + "-"}, []string{"1 pod that would otherwise leave may stay"}},
		{"Does the eviction controller work?", []string{"status"}, []string{"Taintkeeper is running"}},
		{"Which workloads die with zone b?", []string{"simulate", "--silent", "-l", "topology.kubernetes.io/zone=" + zone, "--for=10m"}, []string{"Deployment default/" + doomed + " has no ready replica"}},
		{"May I taint this node now?", []string{"plan", healthy, taint, "--fail-on=lost-workload,lost-pod,budget"}, []string{"4 of 4 pods on 1 node leave"}},
		{"Where will its pods go?", []string{"plan", healthy, taint, "--where-to"}, []string{"node-0"}},
		{"Why is it stuck in Terminating?", []string{"why", podName("stuck", 0)}, []string{"terminating"}},
		{"Why is it Pending?", []string{"why", podName("waiting", 0)}, []string{"there is no node that it can go to", "Its node selector and node affinity allow 0 of "}},
		{"Stop everything.", []string{"pause", "the", "network", "is", "down"}, []string{"pause created"}},
	} {
		t.Run(question.asks, func(t *testing.T) {
			begun := time.Now()
			answer, code := ask(t.Context(), question.args...)
			lines := strings.Count(answer, "\n")
			t.Logf("kubectl taintkeeper %s: %d lines after %.1fs\n%s", strings.Join(question.args, " "), lines, time.Since(begun).Seconds(), answer)
			if code != 0 || lines > screen {
				t.Errorf("the exit code is %d, and the answer has %d lines, want 0 and at most %d", code, lines, screen)
			}
			for _, want := range question.want {
				if !strings.Contains(answer, want) {
					t.Errorf("the answer lacks %q", want)
				}
			}
		})
	}
}
