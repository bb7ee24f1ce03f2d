// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
)

const policiesName = "policies.yaml"

// InstallPolicies creates what config/policies.yaml has and is not there yet. The policies are in force some moments
// later.
func (c *Cluster) InstallPolicies(ctx context.Context) error {
	return c.install(ctx, policiesName, config.Policies)
}

// RemovePolicies deletes them.
func (c *Cluster) RemovePolicies(ctx context.Context) error {
	objects, err := config.Objects(config.Policies)
	if err != nil {
		return fmt.Errorf("read config/%s: %w", policiesName, err)
	}
	writer, err := client.New(c.AdminConfig(), client.Options{})
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	for _, object := range objects {
		if err := client.IgnoreNotFound(writer.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove config/%s: %w", policiesName, err)
		}
	}
	return nil
}
