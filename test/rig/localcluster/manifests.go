// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// GrantTaintkeeper installs config/rbac.yaml. Calling it again does nothing.
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

// InstallResources creates the resources of config/crd.yaml that are not there yet, and waits until they are served.
func (c *Cluster) InstallResources(ctx context.Context) error {
	if err := c.install(ctx, "crd.yaml", config.CRD); err != nil {
		return err
	}
	reader, err := c.Client()
	if err != nil {
		return err
	}
	err = await.Poll(ctx, func(ctx context.Context) error {
		return errors.Join(
			reader.List(ctx, &v1alpha1.NodeTaintRuleList{}), reader.List(ctx, &v1alpha1.EvictionPolicyList{}))
	})
	if err != nil {
		return fmt.Errorf("wait until the resources of config/crd.yaml are served: %w", err)
	}
	return nil
}

// Client returns the administrator's client for Kubernetes' resources and ours.
func (c *Cluster) Client() (client.Client, error) {
	known := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(known), apiextensionsv1.AddToScheme(known), v1alpha1.AddToScheme(known))
	if err != nil {
		return nil, err
	}
	made, err := client.New(c.AdminConfig(), client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("make a client for the API server: %w", err)
	}
	return made, nil
}

// InstallCoexistence creates what config/coexistence.yaml has and is not there yet.
func (c *Cluster) InstallCoexistence(ctx context.Context) error {
	return c.install(ctx, "coexistence.yaml", config.Coexistence)
}

// InstallViewer creates what config/viewer.yaml has and is not there yet.
func (c *Cluster) InstallViewer(ctx context.Context) error {
	return c.install(ctx, "viewer.yaml", config.Viewer)
}

const policiesName = "policies.yaml"

// InstallPolicies creates what config/policies.yaml has and is not there yet. The policies are in force a few moments
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

// forObjects calls a function for each object of one of the manifests in config/.
func (c *Cluster) forObjects(name string, manifest []byte, do func(client.Client, client.Object) error) error {
	objects, err := config.Objects(manifest)
	if err != nil {
		return fmt.Errorf("read config/%s: %w", name, err)
	}
	writer, err := c.Client()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := do(writer, object); err != nil {
			return fmt.Errorf("install or remove config/%s: %w", name, err)
		}
	}
	return nil
}
