// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/taintkeeper/taintkeeper/config"
)

// grant installs config/rbac.yaml, so that every test also proves that its rights are enough.
func grant(ctx context.Context, client kubernetes.Interface) error {
	if err := waitForNamespace(ctx, client, metav1.NamespaceSystem); err != nil {
		return err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(config.RBAC)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read config/rbac.yaml: %w", err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("read config/rbac.yaml: %w", err)
		}
		if err := create(ctx, client, object); err != nil {
			return fmt.Errorf("install config/rbac.yaml: %w", err)
		}
	}
}

// waitForNamespace waits for a namespace that the API server makes itself, a moment after its start.
func waitForNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, waitLimit, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err == nil, nil
	})
}

func create(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	var err error
	switch object := object.(type) {
	case *corev1.ServiceAccount:
		_, err = client.CoreV1().ServiceAccounts(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
	case *rbacv1.ClusterRole:
		_, err = client.RbacV1().ClusterRoles().Create(ctx, object, metav1.CreateOptions{})
	case *rbacv1.ClusterRoleBinding:
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, object, metav1.CreateOptions{})
	case *rbacv1.Role:
		_, err = client.RbacV1().Roles(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
	case *rbacv1.RoleBinding:
		_, err = client.RbacV1().RoleBindings(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("a %T is new there: teach the tests to create it", object)
	}
	return err
}
