// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
)

// GrantTaintkeeper installs config/rbac.yaml. To do it again does nothing.
func (c *Cluster) GrantTaintkeeper(ctx context.Context) error {
	if c.granted.Load() {
		return nil
	}
	if err := c.install(ctx, "rbac.yaml", config.RBAC); err != nil {
		return err
	}
	c.granted.Store(true)
	return nil
}

// InstallCoexistence creates what config/coexistence.yaml has and is not there yet.
func (c *Cluster) InstallCoexistence(ctx context.Context) error {
	return c.install(ctx, "coexistence.yaml", config.Coexistence)
}

const policiesName = "policies.yaml"

// InstallPolicies creates what config/policies.yaml has and is not there yet. The policies are in force some moments
// later.
func (c *Cluster) InstallPolicies(ctx context.Context) error {
	return c.install(ctx, policiesName, config.Policies)
}

// RemovePolicies deletes them.
func (c *Cluster) RemovePolicies(ctx context.Context) error {
	return c.forObjects(policiesName, config.Policies, func(writer client.Client, object client.Object) error {
		return client.IgnoreNotFound(writer.Delete(ctx, object))
	})
}

// install creates what one of the manifests in config/ has and is not there yet.
func (c *Cluster) install(ctx context.Context, name string, manifest []byte) error {
	return c.forObjects(name, manifest, func(writer client.Client, object client.Object) error {
		return client.IgnoreAlreadyExists(writer.Create(ctx, object))
	})
}

// forObjects does something with each object of one of the manifests in config/.
func (c *Cluster) forObjects(name string, manifest []byte, do func(client.Client, client.Object) error) error {
	objects, err := config.Objects(manifest)
	if err != nil {
		return fmt.Errorf("read config/%s: %w", name, err)
	}
	writer, err := client.New(c.AdminConfig(), client.Options{})
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	for _, object := range objects {
		if err := do(writer, object); err != nil {
			return fmt.Errorf("install or remove config/%s: %w", name, err)
		}
	}
	return nil
}
