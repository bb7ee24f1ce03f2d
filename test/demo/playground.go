// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// In the playground, things happen sooner than in a usual cluster.
const (
	unreachable = corev1.TaintNodeUnreachable
	// grace is how long a node may be silent, and leaseSeconds how long the Lease of one lasts.
	grace        = 8 * time.Second
	leaseSeconds = 4
	// taintEvery is the time between the NoExecute taints of two nodes of a zone.
	taintEvery = 4 * time.Second
	// tolerated is how long pods tolerate a silent node by default.
	tolerated = 6 * time.Second
)

// agent lets a pod tolerate every taint, as node agents do.
var agent = scene.Indefinitely("")

// playground is a cluster with Taintkeeper in it, and a screen that says how to use it.
type playground struct {
	screen

	dir        string // of the cluster
	kubeconfig string // the administrator's
	cluster    *localcluster.Cluster
	client     kubernetes.Interface
	version    string // of Kubernetes
	binary     string
	keeper     *localcluster.Taintkeeper
}

func openPlayground(ctx context.Context, told screen, binary string) error {
	return (&playground{screen: told, binary: binary}).keep(ctx)
}

// keep keeps the playground and its board open until ctx ends. The cluster's folder is kept when something failed.
func (p *playground) keep(ctx context.Context) error {
	err := p.open(ctx)
	var ending []error
	if p.keeper != nil {
		ending = append(ending, p.keeper.Stop())
	}
	if p.cluster != nil {
		ending = append(ending, p.cluster.Stop())
	}
	if ctx.Err() != nil {
		err = nil // which is how it ends
	}
	if err = errors.Join(append(ending, err)...); err != nil {
		return fmt.Errorf("%w\nThe logs are in %s", err, p.dir)
	}
	return os.RemoveAll(p.dir)
}

func (p *playground) open(ctx context.Context) error {
	if _, err := os.Stat(p.binary); err != nil {
		return fmt.Errorf("find taintkeeper: %w; build it with `make build`", err)
	}
	if err := p.startCluster(ctx); err != nil {
		return err
	}
	if err := p.startKeeper(ctx); err != nil {
		return err
	}
	if err := p.startWorkloads(ctx); err != nil {
		return err
	}
	address, end, err := web.Serve(ctx, "--kubeconfig="+p.kubeconfig)
	if err != nil {
		return err
	}
	p.sayHow(address)
	return errors.Join(p.keepUp(ctx), end())
}

// startCluster starts a cluster that outlives ctx, so that it ends in order also after Ctrl-C.
func (p *playground) startCluster(ctx context.Context) (err error) {
	progress("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok ...")
	if p.dir, err = os.MkdirTemp("", "taintkeeper-playground-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	p.cluster, err = localcluster.Start(lasting, localcluster.Config{
		Dir: p.dir, Log: os.Stderr,
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
		APIServerArgs: []string{
			fmt.Sprintf("--default-unreachable-toleration-seconds=%d", int(tolerated.Seconds())),
			fmt.Sprintf("--default-not-ready-toleration-seconds=%d", int(tolerated.Seconds())),
		},
		NodeLeaseSeconds: leaseSeconds,
	})
	if err != nil {
		return err
	}
	if p.kubeconfig, err = p.cluster.Kubeconfig("admin", p.cluster.AdminConfig()); err != nil {
		return err
	}
	if p.client, err = kubernetes.NewForConfig(p.cluster.AdminConfig()); err != nil {
		return err
	}
	version, err := p.client.Discovery().ServerVersion()
	if err == nil {
		p.version = version.GitVersion
	}
	return err
}

func (p *playground) startKeeper(ctx context.Context) (err error) {
	progress("applying config/rbac.yaml and starting taintkeeper ...")
	p.keeper, err = p.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: p.binary,
		Args: []string{
			"--controllers=*", "--leader-elect=true", // status reads its Lease
			"--node-monitor-grace-period=" + grace.String(), fmt.Sprintf("--node-eviction-rate=%g", 1/taintEvery.Seconds()),
		},
	})
	return err
}

// startWorkloads returns once all their pods run.
func (p *playground) startWorkloads(ctx context.Context) error {
	progress("adding %d nodes in three zones, and workloads ...", len(fleet))
	if err := p.cluster.AddNodes(ctx, fleet...); err != nil {
		return err
	}
	writer, err := client.New(p.cluster.AdminConfig(), client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, object := range workloads() {
		if err := writer.Create(ctx, object); err != nil {
			return fmt.Errorf("create the workloads: %w", err)
		}
	}
	return await.Poll(ctx, func(ctx context.Context) error {
		running := metav1.ListOptions{FieldSelector: "status.phase=Running"}
		pods, err := p.client.CoreV1().Pods(namespace).List(ctx, running)
		if err == nil && len(pods.Items) != podCount() {
			err = fmt.Errorf("%d of %d pods are running", len(pods.Items), podCount())
		}
		return err
	})
}

// sayHow says how to use the cluster.
func (p *playground) sayHow(board string) {
	p.title("The playground is open. Ctrl-C closes it.")
	p.say("")
	p.say("%sKubernetes %s with %d simulated nodes and %d pods in namespace %s; taintkeeper does the evictions, and taints silent nodes.", indent, p.version, len(fleet), podCount(), namespace)
	p.say("")
	p.say("%sIts taints on one live page, in a browser (kubectl taintkeeper board):", indent)
	p.say("")
	p.say("%s%s", indent, board)
	p.say("")
	p.say("%sexport KUBECONFIG=%s", indent, p.kubeconfig)
	for _, hint := range p.hints() {
		p.say("")
		p.say("%s# %s", indent, hint.what)
		p.say("%s%s", indent, hint.command)
	}
}

// keepUp starts taintkeeper again whenever it ends, until ctx ends.
func (p *playground) keepUp(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.keeper.Ended():
			if err := p.startAgain(ctx); err != nil {
				return err
			}
		}
	}
}

// startAgain starts taintkeeper again after the user has stopped it to see what a restart does.
func (p *playground) startAgain(ctx context.Context) error {
	if err := p.keeper.Kill(); err != nil {
		return err
	}
	if err := p.startKeeper(ctx); err != nil {
		return err
	}
	p.say("")
	p.say("%staintkeeper exited and is running again; its metrics are now at %s", indent, p.keeper.MetricsURL())
	return nil
}

type hint struct{ what, command string }

func (p *playground) hints() []hint {
	taint := "kubectl taint node " + west1 + " "
	label := "kubectl label node " + north1 + " " + north2 + " "
	return []hint{
		{"the pods and their nodes, as they come and go", fmt.Sprintf("kubectl get pods -n %s -o wide --watch", namespace)},
		{"a maintenance: web tolerates it for 5 s, db for 6 s", taint + "maintenance=soon:NoSchedule maintenance=soon:NoExecute"},
		{"it is over; what is still pending is cancelled", taint + "maintenance-"},
		{"the kubelets of a zone fall silent", label + localcluster.SilenceLabel},
		{"and come back (unlike kubelets, kwok does not set their pods' Ready again)", label + localcluster.ResumeLabel},
		{"why a node waits for its NoExecute taint", "kubectl get events --field-selector reason=NoExecuteTaintHeld"},
		{"to have rules for other conditions of nodes (docs/node-taint-rules.md)", "kubectl apply -f config/crd.yaml"},
		{"urgent: only the node agent tolerates this", taint + "power=off:NoExecute"},
		{"and back", taint + "power-"},
		{"what taintkeeper says about the pods", fmt.Sprintf("kubectl get events -n %s --field-selector reason=TaintManagerEviction", namespace)},
		{"why a pod leaves, while it does (simulated pods are gone at once, so watch)", fmt.Sprintf(`kubectl get pods -n %s --watch -o jsonpath='{.metadata.name}: {.status.conditions[?(@.type=="DisruptionTarget")].reason}{"\n"}'`, namespace)},
		{"its log, a line per eviction", "tail -f " + p.keeper.LogPath()},
		{"its metrics", "curl -s " + p.keeper.MetricsURL() + " | grep -aE '^(taint|node_collector)'"},
		{"it is started again when it ends", fmt.Sprintf("kill %d", p.keeper.PID())},
		{"whether it is ready", "curl " + p.keeper.ReadyURL()},
	}
}
