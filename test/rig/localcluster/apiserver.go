// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Names of files in the state folder.
const (
	auditLogName    = "audit.log"
	auditPolicyName = "audit-policy.yaml"
	// caName is the certificate authority of the API server's serving certificate.
	caName = "ca.crt"
)

// apiServerGrace is short, because the API server waits for the end of watches, and the clients of tests and benchmarks
// go on watching. Nothing is lost: etcd has acknowledged every write, and the audit log is not buffered.
const apiServerGrace = 2 * time.Second

// configureAPIServer prepares the API server; its certificates are made at its first start.
func (c *Cluster) configureAPIServer() error {
	launcher, err := c.lifeline.launcher(APIServer, c.binary(APIServer))
	if err != nil {
		return err
	}
	certDir := filepath.Join(c.dir, "certs")
	if err := os.Mkdir(certDir, 0o700); err != nil {
		return err
	}
	c.plane.APIServer = &envtest.APIServer{
		Path:         launcher,
		CertDir:      certDir,
		EtcdURL:      c.plane.Etcd.URL,
		StartTimeout: startTimeout,
		StopTimeout:  apiServerGrace,
	}
	args := c.plane.APIServer.Configure()
	if !c.cfg.has(ControllerManager) {
		// It taints every new node not-ready; only the node-lifecycle controller takes that away again.
		args.Append("disable-admission-plugins", "TaintNodesByCondition")
	}
	if c.cfg.Audit != "" {
		if err := c.configureAudit(args); err != nil {
			return err
		}
	}
	return addAPIServerArgs(args, c.cfg.APIServerArgs)
}

// configureAudit writes the audit log without batches: a batch drops events when its buffer is full, and costs no less
// than a write to a file.
func (c *Cluster) configureAudit(args *envtest.Arguments) error {
	policy := filepath.Join(c.dir, auditPolicyName)
	if err := os.WriteFile(policy, []byte(c.cfg.Audit), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	args.Set("audit-policy-file", policy)
	args.Set("audit-log-path", filepath.Join(c.dir, auditLogName))
	args.Set("audit-log-mode", "blocking")
	// Zero: the log is one file, however long it gets.
	args.Set("audit-log-maxsize", "0")
	return nil
}

func addAPIServerArgs(args *envtest.Arguments, extra []string) error {
	for _, arg := range extra {
		name, ok := strings.CutPrefix(arg, "--")
		if !ok {
			return fmt.Errorf("argument %q for kube-apiserver: write it as --name=value", arg)
		}
		name, value, hasValue := strings.Cut(name, "=")
		if !hasValue {
			value = "true"
		}
		args.AppendNoDefaults(name, value)
	}
	return nil
}

// firstAPIServer configures and starts the API server, and keeps the authority of its certificate for the others.
func (c *Cluster) firstAPIServer(ctx context.Context) error {
	if err := c.configureAPIServer(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, caName), c.admin.CAData, 0o600); err != nil {
		return fmt.Errorf("write the certificate authority of kube-apiserver: %w", err)
	}
	return nil
}

// startAPIServer starts the API server, for the first time or again, and waits until it is ready.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	log, err := c.openLog(APIServer)
	if err != nil {
		return err
	}
	defer log.Close()
	server := c.plane.APIServer
	server.Out, server.Err = log, log
	if err := server.Start(); err != nil {
		return c.failure(APIServer, err)
	}
	if err := c.provisionAdmin(); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// waitReady returns once the API server says that it is ready, which includes the bootstrap roles, and has made the
// namespaces default and kube-system.
func (c *Cluster) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, healthPeriod, startTimeout, true, func(ctx context.Context) (bool, error) {
		last = ready(ctx, client)
		return last == nil, nil
	})
	if err != nil {
		return c.failure(APIServer, fmt.Errorf("it is not ready: %w", errors.Join(err, last)))
	}
	return nil
}

func ready(ctx context.Context, client kubernetes.Interface) error {
	status := 0
	result := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
	if err := result.Error(); err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", status)
	}
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}
