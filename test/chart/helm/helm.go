// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm runs Helm as users do, as a program: bin/helm is Helm 4, bin/helm3 is Helm 3, and make builds both.
package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Client is Helm with a cluster and a namespace.
type Client struct {
	// Root is the folder of the checkout, and Program is helm or helm3.
	Root, Program string
	// Kubeconfig may be empty for commands that need no cluster.
	Kubeconfig, Namespace string
}

// Chart is the folder of the chart.
func (c Client) Chart() string { return filepath.Join(c.Root, "charts", "taintkeeper") }

// Run runs a command and returns what it prints. With values it reads them as a file of values.
func (c Client) Run(ctx context.Context, values map[string]any, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(c.Root, "bin", c.Program), arguments...)
	command.Args = append(command.Args, "--namespace="+c.Namespace, "--kubeconfig="+c.Kubeconfig)
	if values != nil {
		text, err := json.Marshal(values)
		if err != nil {
			return "", fmt.Errorf("write values for Helm: %w", err)
		}
		command.Args, command.Stdin = append(command.Args, "--values=-"), bytes.NewReader(text)
	}
	// What it caches of an API server would be wrong for the next one at the same port.
	command.Env = append(command.Environ(), "KUBECACHEDIR="+c.Kubeconfig+".cache")
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", c.Program, arguments[0], err, strings.TrimSpace(errors.String()))
	}
	return out.String(), nil
}
