// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// Names of files in the state folder.
const (
	auditLogName    = "audit.log"
	auditPolicyName = "audit-policy.yaml"
	stagesName      = "stages.yaml"
	// servingName is the serving certificate that the API server makes for itself, with the authority that signed it.
	servingName = "apiserver.crt"
)

// file returns the path of a file in the state folder.
func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// startEtcd starts etcd, for the first time or again.
func (c *Cluster) startEtcd(ctx context.Context) error {
	etcd, err := c.run(ctx, program{
		component: Etcd, port: c.etcdPort, health: "http://127.0.0.1:%d/health",
		args: func(port int) []string {
			clients := fmt.Sprintf("http://127.0.0.1:%d", port)
			return []string{
				"--data-dir=" + c.file("etcd"),
				"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
				"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
				"--unsafe-no-fsync=true",                // the data live no longer than the cluster
				// The default of 2 GiB is less than what a benchmark with 150,000 pods and their history needs.
				"--quota-backend-bytes=8589934592",
			}
		},
	})
	if err == nil && c.etcdPort == 0 {
		c.etcdPort = etcd.port
	}
	return err
}

// startAPIServer starts the API server, for the first time or again, and returns once it is ready, which includes the
// bootstrap roles, and has made the namespaces default and kube-system.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	server, err := c.run(ctx, program{
		component: APIServer, port: c.apiServerPort, health: "https://127.0.0.1:%d/readyz", args: c.apiServerArgs,
	})
	if err != nil {
		return err
	}
	if err := c.provisionAdmin(server.port); err != nil {
		return err
	}
	return c.awaitMade(ctx, server, "namespaces", func(ctx context.Context) error {
		for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if _, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Cluster) apiServerArgs(port int) []string {
	args := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--cert-dir=" + c.dir,
		"--client-ca-file=" + c.file(authorityName),
		"--service-account-issuer=" + fmt.Sprintf("https://127.0.0.1:%d/", port),
		"--service-account-key-file=" + c.file(authorityKeyName),
		"--service-account-signing-key-file=" + c.file(authorityKeyName),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", // it publishes no loopback address, and since 1.37 exits with one
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		// Without kube-controller-manager, nothing makes the service account default.
		"--disable-admission-plugins=ServiceAccount",
	}
	if !c.cfg.has(ControllerManager) {
		// It taints every new node not-ready, and only the node-lifecycle controller removes that taint.
		args = append(args, "--disable-admission-plugins=TaintNodesByCondition")
	}
	if c.cfg.Audit != "" {
		args = append(args,
			"--audit-policy-file="+c.file(auditPolicyName),
			"--audit-log-path="+c.file(auditLogName),
			// A batch drops events when its buffer is full, and costs no less than a write to a file.
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=0", // one file, however large
		)
	}
	args = slices.DeleteFunc(slices.Concat(args, securePort(port)), func(arg string) bool {
		return slices.ContainsFunc(c.cfg.APIServerArgs, func(by string) bool { return flagName(by) == flagName(arg) })
	})
	return slices.Concat(args, c.cfg.APIServerArgs)
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}

// SchedulerUser is the user of kube-scheduler.
const SchedulerUser = "system:kube-scheduler"

func (c *Cluster) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFor(Scheduler, SchedulerUser)
	if err != nil {
		return err
	}
	_, err = c.run(ctx, program{
		component: Scheduler, health: secureHealth,
		args: func(port int) []string { return append(leaderlessArgs(kubeconfig), securePort(port)...) },
	})
	return err
}

// leaderlessArgs are common to kube-controller-manager and kube-scheduler. With the kubeconfig for authentication and
// authorization they serve their metrics to clients that the API server would let in.
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

const secureHealth = "https://127.0.0.1:%d/healthz"

// stages define what happens to kwok's nodes and pods, and when.
//
//go:embed stages.yaml
var stages []byte

// KwokUser is the name under which kwok calls the API server, as the audit log shows it.
const KwokUser = "kwok"

// NotByKwok leaves out the calls of kwok when looking for the client that deleted a pod: kubelets, which kwok plays,
// finish the delete of another client with one of their own, which can be in the audit log first.
func NotByKwok(e auditlog.Event) bool { return e.User != KwokUser }

// manageNode is the label by which kwok knows its nodes. With an annotation, kwok would keep renewing the lease of a
// node that has lost it.
const (
	manageNodeKey   = "kwok.x-k8s.io/node"
	manageNodeValue = "fake"
)

// defaultNodeLeaseSeconds is how long a kubelet's lease lasts.
const defaultNodeLeaseSeconds = 40

func (c *Cluster) startKwok(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFor(Kwok, KwokUser, "system:masters")
	if err != nil {
		return err
	}
	_, err = c.run(ctx, program{
		component: Kwok, health: "http://127.0.0.1:%d/healthz",
		args: func(port int) []string {
			return []string{
				"--kubeconfig=" + kubeconfig,
				"--config=" + c.file(stagesName),
				"--manage-all-nodes=false",
				"--manage-nodes-with-label-selector=" + manageNodeKey + "=" + manageNodeValue,
				"--node-lease-duration-seconds=" + strconv.Itoa(c.cfg.NodeLeaseSeconds),
				// Room for as many pods as a benchmark may want.
				"--cidr=10.128.0.0/9",
				"--node-ip=127.0.0.1",
				fmt.Sprintf("--server-address=127.0.0.1:%d", port),
			}
		},
	})
	return err
}

// awaitMade waits until a component has made something, and names it if that takes too long.
func (c *Cluster) awaitMade(ctx context.Context, by *component, what string, check func(context.Context) error) error {
	if err := await.Poll(ctx, check); err != nil {
		return c.failure(by, fmt.Errorf("it made no %s: %w", what, err))
	}
	return nil
}
