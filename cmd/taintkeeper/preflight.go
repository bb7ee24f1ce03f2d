// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
)

// Our own resources, as permissions name them.
const (
	rulesResource    = "nodetaintrules"
	policiesResource = "evictionpolicies"
)

// preflightTimeout bounds the checks before anything starts.
const preflightTimeout = 10 * time.Second

// loadConfig finds the API server with the flag, the in-cluster configuration, or the usual kubeconfig rules.
func loadConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if kubeconfig != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	} else if config, err := rest.InClusterConfig(); !errors.Is(err, rest.ErrNotInCluster) {
		return config, err
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no API server is configured: give --kubeconfig, set KUBECONFIG, or run in a cluster")
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return config, nil
}

// preflight checks that the API server answers and that we have the permissions that we need.
func preflight(ctx context.Context, config *rest.Config, log logr.Logger, o *options) error {
	config = rest.CopyConfig(config)
	config.Timeout = preflightTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client for the API server: %w", err)
	}
	server, err := client.Discovery().ServerVersion()
	switch {
	case apierrors.IsForbidden(err): // it answered, but does not reveal its version
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept the credentials: check the kubeconfig or the service account", config.Host)
	case err != nil:
		return fmt.Errorf("cannot reach the API server at %s: %w; check the address, and that it is running", config.Host, err)
	case o.coexist:
		if err := checkCoexistence(server); err != nil {
			return err
		}
	}
	if err := checkPermissions(ctx, client, o); err != nil {
		return err
	}
	all, err := newRivals(client, config)
	if err != nil {
		return fmt.Errorf("make the client for the API server: %w", err)
	}
	return o.avoidRival(ctx, all, log)
}

// avoidRival leaves node-health out if the built-in node-lifecycle-controller runs. Evictions then follow the
// built-in's taints. The other controllers can run alongside it.
func (o *options) avoidRival(ctx context.Context, all rivals, log logr.Logger) error {
	if !o.enabled(controllerNodeHealth) || o.dryRun {
		return nil
	}
	seen, err := all.find(ctx, time.Now())
	if err != nil || seen == "" {
		return err
	}
	if len(o.running()) == 1 {
		return fmt.Errorf("node-health cannot run alongside the built-in node-lifecycle-controller, which is running: %s; %s", seen, adviceOnRival)
	}
	log.Error(nil, "Node-health is off, because the built-in node-lifecycle-controller is running; evictions follow the built-in controller's taints", "seen", seen, "advice", adviceOnRival)
	o.controllers = append([]string{"-" + controllerNodeHealth}, o.controllers...) // the first that names it decides
	o.nodeHealthLeftOut = true
	return nil
}

// checkCoexistence refuses a server whose built-in may evict without the condition that the admission policy refuses:
// before 1.31 the feature gate PodDisruptionConditions could be off.
func checkCoexistence(server *apiversion.Info) error {
	const firstMinor = 31
	minor, err := strconv.Atoi(strings.TrimRight(server.Minor, "+"))
	if err == nil && server.Major == "1" && minor < firstMinor {
		return fmt.Errorf("--coexist: the API server is Kubernetes %s, and its built-in controller may evict without the condition that the admission policy recognizes; use Kubernetes 1.%d or later, or run kube-controller-manager with --controllers=*,-taint-eviction-controller and set --coexist=false", server.GitVersion, firstMinor)
	}
	return nil
}

// permission is one permission that is needed. The manifests grant more than any flags need, and cannot say which flags
// need what, so the permissions are listed here; a test compares the two.
type permission struct {
	verbs     []string
	resource  string // with a subresource behind a slash
	group     string
	namespace string
	name      string // the object, or "" for all; never sent for create
}

func (p permission) String() string {
	resource, subresource, _ := strings.Cut(p.resource, "/")
	if p.group != "" {
		resource += "." + p.group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	if p.name != "" {
		resource += " " + p.name
	}
	if p.namespace != "" {
		resource += " in namespace " + p.namespace
	}
	return resource
}

// neededPermissions returns the permissions that the flags require. Our own resources need none unless they are served.
// Without the right to create pods/eviction, policies that ask the Eviction API hold pods, and say so.
func neededPermissions(o *options, served map[string]bool) (needed []permission) {
	var (
		evicts  = o.enabled(controllerEviction)
		health  = o.enabled(controllerNodeHealth)
		rules   = o.enabled(controllerNodeTaintRule) && served[rulesResource]
		follows = evicts && !o.shadow && served[policiesResource]
		guards  = o.guardsMetrics()

		core, ours, leases = "", v1alpha1.GroupVersion.Group, coordinationv1.GroupName
		all, own           = "", o.election.namespace
		watch, patch       = []string{"list", "watch"}, []string{"patch"}
		reads              = []string{"get", "list", "watch"}
		lease              = nodehealth.OwnLease
	)
	if o.shadow { // it needs no live reads
		reads = watch
	}
	if o.dryRun {
		lease = nodehealth.DryRunLease
	}
	for _, p := range []struct {
		when   bool
		writes bool // it is needed only to change something
		permission
	}{
		{o.watchesPods(), false, permission{watch, "pods", core, all, ""}},
		{evicts, true, permission{[]string{"get", "delete"}, "pods", core, all, ""}},
		{o.watchesPods(), true, permission{patch, "pods/status", core, all, ""}},
		{true, false, permission{reads, "nodes", core, all, ""}},
		{true, false, permission{[]string{"create", "patch"}, "events", core, all, ""}},
		{o.stampsTaints() || health || rules, true, permission{patch, "nodes", core, all, ""}},

		{health, false, permission{watch, "leases", leases, corev1.NamespaceNodeLease, ""}},
		{health, true, permission{patch, "nodes/status", core, all, ""}},
		{health, false, permission{patch, "leases", leases, corev1.NamespaceNodeLease, lease}},

		{rules, false, permission{watch, rulesResource, ours, all, ""}},
		{rules, true, permission{patch, rulesResource, ours, all, ""}},
		{rules, true, permission{patch, rulesResource + "/status", ours, all, ""}},

		{follows, false, permission{watch, policiesResource, ours, all, ""}},
		{follows, false, permission{watch, "namespaces", core, all, ""}},
		{follows, false, permission{watch, "poddisruptionbudgets", policyv1.GroupName, all, ""}},
		{follows, true, permission{patch, policiesResource + "/status", ours, all, ""}},

		{o.elects(), true, permission{[]string{"get", "create", "update"}, "leases", leases, own, o.election.name}},
		{o.coexist, true, permission{patch, "serviceaccounts", core, own, coexist.ServiceAccount}},
		{o.shadow, false, permission{patch, "configmaps", core, own, v1alpha1.ShadowConfigMap}},
		{guards, false, permission{[]string{"create"}, "tokenreviews", authenticationv1.GroupName, all, ""}},
		{guards, false, permission{[]string{"create"}, "subjectaccessreviews", authorizationv1.GroupName, all, ""}},
	} {
		if p.when && (!p.writes || o.changes()) {
			needed = append(needed, p.permission)
		}
	}
	return needed
}

// checkPermissions returns one error that names all missing permissions.
func checkPermissions(ctx context.Context, client kubernetes.Interface, o *options) error {
	served, err := servedResources(client)
	if err != nil {
		return fmt.Errorf("ask the API server which of our resources it has: %w", err)
	}
	var missing []string
	for _, needed := range neededPermissions(o, served) {
		verbs, err := refused(ctx, client, needed)
		if err != nil {
			return fmt.Errorf("ask the API server for our permissions: %w", err)
		}
		if len(verbs) > 0 {
			missing = append(missing, strings.Join(verbs, ", ")+" "+needed.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing permissions: %s; grant them with config/rbac.yaml (for --coexist also config/coexistence.yaml) and start again", strings.Join(missing, "; "))
	}
	return nil
}

// servedResources returns which of our own resources are installed. If the API server does not say, they count as not
// installed. The controllers look again later, and report any permission that they lack then.
func servedResources(client kubernetes.Interface) (map[string]bool, error) {
	list, err := client.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	served := map[string]bool{}
	for i := range list.APIResources {
		served[list.APIResources[i].Name] = true
	}
	return served, nil
}

func refused(ctx context.Context, client kubernetes.Interface, needed permission) ([]string, error) {
	var verbs []string
	resource, subresource, _ := strings.Cut(needed.resource, "/")
	for _, verb := range needed.verbs {
		attributes := &authorizationv1.ResourceAttributes{
			Verb: verb, Group: needed.group, Resource: resource, Subresource: subresource, Namespace: needed.namespace,
		}
		if verb != "create" {
			attributes.Name = needed.name
		}
		reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
		review, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			verbs = append(verbs, verb)
		}
	}
	return verbs, nil
}
