// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// stages say what happens to kwok's nodes and pods, and when.
//
//go:embed stages.yaml
var stages []byte

// kwokUser is the name under which kwok calls the API server, as the audit log shows it.
const kwokUser = "kwok"

// manageNode is the annotation by which kwok knows its nodes.
const (
	manageNodeKey   = "kwok.x-k8s.io/node"
	manageNodeValue = "fake"
)

func (c *Cluster) startKwok(ctx context.Context) error {
	kubeconfig, err := c.kubeconfigFor(Kwok, kwokUser, "system:masters")
	if err != nil {
		return err
	}
	config := filepath.Join(c.dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return fmt.Errorf("write the stages of kwok: %w", err)
	}
	_, err = c.startProcess(ctx, Kwok, c.binary(Kwok), func(port int) ([]string, string) {
		return append(kwokArgs(kubeconfig, config), "--server-address="+loopback(port)), "http://" + loopback(port) + "/healthz"
	})
	return err
}

func kwokArgs(kubeconfig, config string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--config=" + config,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + manageNodeKey + "=" + manageNodeValue,
		"--node-lease-duration-seconds=40",
		// Room for as many pods as a benchmark may want.
		"--cidr=10.128.0.0/9",
		"--node-ip=127.0.0.1",
	}
}
