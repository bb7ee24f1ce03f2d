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
// built-in's taints. The other controllers can run next to it.
func (o *options) avoidRival(ctx context.Context, all rivals, log logr.Logger) error {
	if !o.enabled(controllerNodeHealth) || o.dryRun {
		return nil
	}
	seen, err := all.find(ctx, time.Now())
	if err != nil || seen == "" {
		return err
	}
	if len(o.running()) == 1 {
		return fmt.Errorf("node-health cannot run next to the built-in node-lifecycle-controller, which is running: %s; %s", seen, adviceOnRival)
	}
	log.Error(nil, "Node-health is off, because the built-in node-lifecycle-controller is running; evictions follow the built-in's taints", "seen", seen, "advice", adviceOnRival)
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

// permission is one permission that is needed.
type permission struct {
	verbs       []string
	resource    string
	subresource string
	group       string
	namespace   string
	name        string // the object, or "" for all; never set for create
}

func (p permission) String() string {
	resource := p.resource
	if p.group != "" {
		resource += "." + p.group
	}
	if p.subresource != "" {
		resource += "/" + p.subresource
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
func neededPermissions(o *options, served map[string]bool) []permission {
	followsRules := o.enabled(controllerNodeTaintRule) && served[rulesResource]
	followsPolicies := o.enabled(controllerEviction) && !o.shadow && served[policiesResource]
	needed := append(neededForPods(o),
		permission{verbs: nodeVerbs(o), resource: "nodes"},
		permission{verbs: []string{"create", "patch"}, resource: "events"},
	)
	if o.changes() && (o.stampsTaints() || o.enabled(controllerNodeHealth) || followsRules) {
		needed = append(needed, permission{verbs: []string{"patch"}, resource: "nodes"})
	}
	if o.enabled(controllerNodeHealth) {
		needed = append(needed, neededForNodeHealth(o)...)
	}
	if followsRules {
		needed = append(needed, neededForRules(o)...)
	}
	if followsPolicies {
		needed = append(needed, neededForPolicies(o)...)
	}
	return append(needed, neededForTheProcess(o)...)
}

// neededForTheProcess returns the permissions for the election, for coexistence, for the report of shadow mode, and for
// clients of /metrics.
func neededForTheProcess(o *options) (needed []permission) {
	if o.elects() {
		needed = append(needed, permission{verbs: []string{"get", "create", "update"}, resource: "leases", group: "coordination.k8s.io", namespace: o.election.namespace, name: o.election.name})
	}
	if o.coexist {
		needed = append(needed, permission{verbs: []string{"patch"}, resource: "serviceaccounts", namespace: o.election.namespace, name: coexist.ServiceAccount})
	}
	if o.shadow {
		needed = append(needed, permission{verbs: []string{"patch"}, resource: "configmaps", namespace: o.election.namespace, name: v1alpha1.ShadowConfigMap})
	}
	if o.guardsMetrics() {
		needed = append(needed,
			permission{verbs: []string{"create"}, resource: "tokenreviews", group: "authentication.k8s.io"},
			permission{verbs: []string{"create"}, resource: "subjectaccessreviews", group: "authorization.k8s.io"},
		)
	}
	return needed
}

// neededForPods returns the permissions on pods.
func neededForPods(o *options) []permission {
	if !o.watchesPods() {
		return nil
	}
	needed := []permission{{verbs: []string{"list", "watch"}, resource: "pods"}}
	if o.changes() && o.enabled(controllerEviction) {
		needed = append(needed, permission{verbs: []string{"get", "delete"}, resource: "pods"})
	}
	if o.changes() {
		needed = append(needed, permission{verbs: []string{"patch"}, resource: "pods", subresource: "status"})
	}
	return needed
}

// neededForRules returns the permissions that only NodeTaintRules need.
func neededForRules(o *options) []permission {
	group := v1alpha1.GroupVersion.Group
	needed := []permission{{verbs: []string{"list", "watch"}, resource: rulesResource, group: group}}
	if !o.changes() {
		return needed
	}
	return append(needed,
		permission{verbs: []string{"patch"}, resource: rulesResource, group: group},
		permission{verbs: []string{"patch"}, resource: rulesResource, subresource: "status", group: group},
	)
}

// neededForPolicies returns the permissions that only EvictionPolicies need. Without the right to create pods/eviction,
// policies that ask the Eviction API hold pods, and say so.
func neededForPolicies(o *options) []permission {
	group, watched := v1alpha1.GroupVersion.Group, []string{"list", "watch"}
	needed := []permission{
		{verbs: watched, resource: policiesResource, group: group},
		{verbs: watched, resource: "namespaces"},
		{verbs: watched, resource: "poddisruptionbudgets", group: policyv1.GroupName},
	}
	if !o.changes() {
		return needed
	}
	return append(needed,
		permission{verbs: []string{"patch"}, resource: policiesResource, subresource: "status", group: group})
}

// neededForNodeHealth returns the permissions that only node health needs.
func neededForNodeHealth(o *options) []permission {
	leases := coordinationv1.GroupName
	needed := []permission{
		{verbs: []string{"list", "watch"}, resource: "leases", group: leases, namespace: corev1.NamespaceNodeLease},
	}
	own := nodehealth.DryRunLease
	if o.changes() {
		needed = append(needed, permission{verbs: []string{"patch"}, resource: "nodes", subresource: "status"})
		own = nodehealth.OwnLease
	}
	return append(needed, permission{
		verbs: []string{"patch"}, resource: "leases", group: leases, namespace: corev1.NamespaceNodeLease, name: own,
	})
}

// nodeVerbs returns the verbs needed on nodes. Shadow mode evicts no pods, so it needs no live reads.
func nodeVerbs(o *options) []string {
	if o.shadow {
		return []string{"list", "watch"}
	}
	return []string{"get", "list", "watch"}
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
	for _, verb := range needed.verbs {
		attributes := &authorizationv1.ResourceAttributes{
			Verb: verb, Group: needed.group, Resource: needed.resource, Subresource: needed.subresource,
			Namespace: needed.namespace,
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
