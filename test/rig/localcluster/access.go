// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Names of files in the state folder. The key signs the tokens of service accounts, too.
const (
	authorityName    = "client-ca.crt"
	authorityKeyName = "client-ca.key"
)

// authority signs the certificates of clients.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes an authority, and writes it into the state folder for the API server.
func newAuthority(dir string) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	own, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "local-cluster"}, key)
	if err != nil {
		return nil, err
	}
	ownPEM, err := cert.EncodeCertificates(own)
	return &authority{own, key}, errors.Join(err,
		os.WriteFile(filepath.Join(dir, authorityName), ownPEM, 0o600),
		os.WriteFile(filepath.Join(dir, authorityKeyName), keyPEM, 0o600))
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	asPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, asPEM, err
}

// sign makes the certificate of a user, which holds for a week, and its key.
func (a *authority) sign(user string, groups []string) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     time.Now().AddDate(0, 0, 7),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM, nil
}

// provisionAdmin makes the administrator, once, because a restart of the API server changes neither its address nor its
// trusted authority.
func (c *Cluster) provisionAdmin(port int) error {
	if c.admin != nil {
		return nil
	}
	serving, err := os.ReadFile(c.file(servingName))
	if err != nil {
		return fmt.Errorf("read the certificate of kube-apiserver: %w", err)
	}
	c.apiServerPort, c.serving = port, serving
	admin, err := c.ConfigFor("admin", "system:masters")
	if err != nil {
		return err
	}
	c.admin = admin
	if c.client, err = kubernetes.NewForConfig(admin); err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	return nil
}

// AdminConfig returns a copy of the client configuration of the administrator, who may do everything. It sets no
// client-side rate limit; the API server's own flow control applies.
func (c *Cluster) AdminConfig() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// ConfigFor returns a client configuration for a user and the groups it belongs to, with a client certificate. The
// cluster's RBAC decides what the user may do. It sets no client-side rate limit.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	certificate, key, err := c.authority.sign(user, groups)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for user %s: %w", user, err)
	}
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", c.apiServerPort),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.serving, CertData: certificate, KeyData: key},
		QPS:             -1, // the API server does the flow control
	}, nil
}

// ConfigOf returns a client configuration with a token of a service account, as the kubelet mounts it into a pod.
func (c *Cluster) ConfigOf(ctx context.Context, namespace, account string) (*rest.Config, error) {
	request, err := c.client.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %s/%s: %w", namespace, account, err)
	}
	config := rest.AnonymousClientConfig(c.admin)
	config.BearerToken = request.Status.Token
	return config, nil
}

// TaintkeeperUser is the user of Taintkeeper: the service account of config/rbac.yaml.
const TaintkeeperUser = "system:serviceaccount:" + metav1.NamespaceSystem + ":taintkeeper"

// TaintkeeperAccess returns the client configuration of Taintkeeper's service account, as [Cluster.ConfigFor] does. It
// has the permissions that [Cluster.GrantTaintkeeper] grants.
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
	path := c.file(name + ".kubeconfig")
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
