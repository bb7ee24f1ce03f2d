// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"net"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// Reader makes a service account that may get some URLs of Taintkeeper's until the test ends, and returns a token of
// it.
func (s Scene) Reader(t testing.TB, name string, urls ...string) (token string) {
	t.Helper()
	accounts, roles := s.Admin.CoreV1().ServiceAccounts(s.Namespace), s.Admin.RbacV1()
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: s.Namespace + "-" + name}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := accounts.Create(ctx, account, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: urls, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: name}},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		await.Must(t, roles.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		await.Must(t, roles.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
	})
	for _, url := range urls {
		await.Must(t, localcluster.AwaitRight(ctx, s.Admin, authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + s.Namespace + ":" + name,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: url},
		}, true))
	}
	request, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	await.Must(t, err)
	return request.Status.Token
}

// FreeAddress returns an address of the loopback interface on which nobody listens at this moment.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return FreeAddresses(t, 1)[0]
}

// FreeAddresses returns several of them, which differ.
func FreeAddresses(t testing.TB, count int) (all []string) {
	t.Helper()
	listeners := make([]net.Listener, count)
	for i := range listeners {
		var err error
		listeners[i], err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		await.Must(t, err)
	}
	for _, listener := range listeners {
		all = append(all, listener.Addr().String())
		await.Must(t, listener.Close())
	}
	return all
}

// GuardedAddress is a [FreeAddress] that taintkeeper does not take for one of the loopback interface: names other than
// localhost, in just this spelling, could be anything.
func GuardedAddress(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(FreeAddress(t))
	await.Must(t, err)
	return net.JoinHostPort("LOCALHOST", port)
}
