// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// provisionAdmin makes the administrator, once: a restart of the API server changes neither its address nor whom it
// trusts.
func (c *Cluster) provisionAdmin() error {
	if c.admin != nil {
		return nil
	}
	admin, err := c.ConfigFor("admin", "system:masters")
	if err != nil {
		return err
	}
	c.admin = admin
	return nil
}

// AdminConfig returns a copy of the administrator's client configuration, who may do everything. It sets no client-side
// rate limit; the API server's own flow control applies.
func (c *Cluster) AdminConfig() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// ConfigFor returns a client configuration for a user and the groups it belongs to, by a client certificate that holds
// for a week. What the user may do is up to the cluster's RBAC. It sets no client-side rate limit.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	c.certs.Lock()
	defer c.certs.Unlock()
	// The API server does the flow control.
	base := &rest.Config{QPS: -1}
	provisioned, err := c.plane.AddUser(envtest.User{Name: user, Groups: groups}, base)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for user %s: %w", user, err)
	}
	return provisioned.Config(), nil
}

// TaintkeeperUser is who Taintkeeper is for the API server: the service account of config/rbac.yaml.
const TaintkeeperUser = "system:serviceaccount:" + metav1.NamespaceSystem + ":taintkeeper"

// TaintkeeperAccess returns the client configuration of Taintkeeper's service account, as by [Cluster.ConfigFor]. Its
// rights are those that [Cluster.GrantTaintkeeper] gives.
func (c *Cluster) TaintkeeperAccess() (*rest.Config, error) {
	return c.ConfigFor(TaintkeeperUser,
		"system:serviceaccounts", "system:serviceaccounts:"+metav1.NamespaceSystem)
}

// Kubeconfig writes a client configuration of this cluster as <name>.kubeconfig into the state folder, readable by its
// owner only, and returns its absolute path. The file is complete: it needs no other.
func (c *Cluster) Kubeconfig(name string, cfg *rest.Config) (string, error) {
	const only = "local"
	file := api.NewConfig()
	file.Clusters[only] = &api.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	file.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken,
	}
	file.Contexts[only] = &api.Context{Cluster: only, AuthInfo: name}
	file.CurrentContext = only

	content, err := clientcmd.Write(*file)
	if err != nil {
		return "", fmt.Errorf("encode the kubeconfig of %s: %w", name, err)
	}
	path := filepath.Join(c.dir, name+".kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// kubeconfigFor writes a kubeconfig for a component of the control plane.
func (c *Cluster) kubeconfigFor(component Component, user string, groups ...string) (string, error) {
	cfg, err := c.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	return c.Kubeconfig(string(component), cfg)
}
