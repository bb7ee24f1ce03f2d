// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// stages say what happens to kwok's nodes and pods, and when.
//
//go:embed stages.yaml
var stages []byte

// KwokUser is the name under which kwok calls the API server, as the audit log shows it.
const KwokUser = "kwok"

// NotByKwok leaves out the calls of kwok, for whom deletes a pod: kubelets, which it plays, finish the delete of
// somebody else with one of their own, and that can be in the audit log first.
func NotByKwok(e auditlog.Event) bool { return e.User != KwokUser }

// manageNode is the label by which kwok knows its nodes. With an annotation in its place it would go on renewing the
// lease of a node that has lost it.
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
	config := filepath.Join(c.dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return fmt.Errorf("write the stages of kwok: %w", err)
	}
	_, err = c.startProcess(ctx, Kwok, c.binary(Kwok), func(port int) ([]string, string) {
		args := append(kwokArgs(kubeconfig, config, c.cfg.NodeLeaseSeconds), "--server-address="+loopback(port))
		return args, "http://" + loopback(port) + "/healthz"
	})
	return err
}

func kwokArgs(kubeconfig, config string, leaseSeconds int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--config=" + config,
		"--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=" + manageNodeKey + "=" + manageNodeValue,
		"--node-lease-duration-seconds=" + strconv.Itoa(leaseSeconds),
		// Room for as many pods as a benchmark may want.
		"--cidr=10.128.0.0/9",
		"--node-ip=127.0.0.1",
	}
}
