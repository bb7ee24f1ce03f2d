// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/chart/helm"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

const (
	policy = "taintkeeper-coexistence"
	clock  = "taintkeeper-eviction-clock"
)

var (
	// ourResources are the names of our CustomResourceDefinitions.
	ourResources = []string{"nodetaintrules.taintkeeper.dev", "evictionpolicies.taintkeeper.dev"}
	// keptPolicies are the names of the admission policies that Helm keeps when a release goes, and of their bindings.
	keptPolicies = []string{policy, "taintkeeper-held"}
)

// TestTheAPIServerTakesWhatTheChartRenders sends it as a dry run, and the manifests and examples that follow from the chart.
// An API server refuses every field that it does not know.
func TestTheAPIServerTakesWhatTheChartRenders(t *testing.T) {
	p := newPlane(t, localcluster.ControllerManager, localcluster.Kwok)
	p.knowOperator(t, "servicemonitors", "ServiceMonitor")
	p.knowOperator(t, "prometheusrules", "PrometheusRule")
	await.Must(t, p.InstallResources(t.Context()))
	_, err := p.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}, metav1.CreateOptions{})
	await.Must(t, err)
	mapper, different := p.mapper(t), p.differentObjects(t)
	for object := range different {
		if err := p.tryOut(t, mapper, object); err != nil {
			t.Errorf("%v\n%s", err, object)
		}
	}
	t.Logf("%d different objects", different.Len())
	for name, manifest := range map[string]string{
		"a field that does not exist": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: default, label: {}}\n",
		"one deep down":               "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {containers: [{name: a, image: a, arg: []}]}\n",
		"one in a resource of ours":   "apiVersion: taintkeeper.dev/v1alpha1\nkind: NodeTaintRule\nmetadata: {name: rule}\nspec: {conditions: []}\n",
	} {
		if err := p.tryOut(t, mapper, manifest); err == nil || !strings.Contains(err.Error(), "not declared in schema") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// differentObjects returns each different object that follows from the chart: rendered with each file of values in two
// namespaces, in config/, and in the docs. Most releases share most objects.
func (p *plane) differentObjects(t *testing.T) sets.Set[string] {
	t.Helper()
	different := sets.New(documentedRule(t))
	add := func(manifest string) {
		for _, document := range documents(t, []byte(manifest)) {
			_, document, _ = strings.Cut(document, "apiVersion:")
			different.Insert("apiVersion:" + document)
		}
	}
	newest := p.mutatingVersion(t) == "v1"
	manifests, err := filepath.Glob(filepath.Join(root, "config", "*.yaml"))
	await.Must(t, err)
	for _, file := range manifests {
		if filepath.Base(file) == "policies.yaml" && !newest {
			continue // it is for Kubernetes 1.36
		}
		text, err := os.ReadFile(file)
		await.Must(t, err)
		add(string(text))
	}
	files, err := filepath.Glob("values/*.yaml")
	await.Must(t, err)
	for _, file := range append(files, filepath.Join(root, "charts/taintkeeper/values.yaml")) {
		if filepath.Base(file) == "policies.yaml" && !newest {
			continue
		}
		for _, namespace := range []string{metav1.NamespaceSystem, elsewhere} {
			add(p.template(t, namespace, file))
		}
	}
	return different
}

// template renders the chart for this API server.
func (p *plane) template(t *testing.T, namespace, file string) string {
	t.Helper()
	served := "admissionregistration.k8s.io/" + p.mutatingVersion(t) + "/" + mutatingPolicy
	return template(t, namespace, "--values="+file, "--api-versions="+served)
}

// template renders the chart for Kubernetes 1.37.
func template(t *testing.T, namespace string, flags ...string) string {
	t.Helper()
	client := helm.Client{Root: root, Program: helm4, Namespace: namespace}
	arguments := []string{"template", "taintkeeper", client.Chart(), "--kube-version=1.37.0"}
	manifest, err := client.Run(t.Context(), nil, append(arguments, flags...)...)
	await.Must(t, err)
	return manifest
}

// documents returns the documents of a manifest that have an object.
func documents(t *testing.T, manifest []byte) []string {
	t.Helper()
	var all []string
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		await.Must(t, err)
		all = append(all, string(document))
	}
}

// documentedRule returns the first example of a NodeTaintRule.
func documentedRule(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "node-taint-rules.md"))
	await.Must(t, err)
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("docs/node-taint-rules.md has no example")
	}
	example, _, _ = strings.Cut(example, "---\n")
	return example
}

// knowOperator gives the API server a resource of the Prometheus operator. The API server checks only its name;
// TestWhatThePrometheusOperatorReadsIsOfItsTypes checks the rest.
func (p *plane) knowOperator(t *testing.T, resource, kind string) {
	t.Helper()
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": resource + ".monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"plural": resource, "kind": kind},
			"versions": list(map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}),
		},
	}
	_, err := p.objects.Resource(crds).Create(t.Context(), &unstructured.Unstructured{Object: definition}, metav1.CreateOptions{})
	await.Must(t, err)
	served := schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: resource}
	await.Eventually(t, resource+" are served", func(ctx context.Context) error {
		_, err := p.objects.Resource(served).List(ctx, metav1.ListOptions{})
		return err
	})
}

var (
	crds     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	policies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindings = policies.GroupVersion().WithResource("validatingadmissionpolicybindings")
)

func (p *plane) mapper(t *testing.T) meta.RESTMapper {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(p.AdminConfig())
	await.Must(t, err)
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
}

// tryOut applies an object as a dry run. What the API server does not know, it refuses.
func (p *plane) tryOut(t *testing.T, mapper meta.RESTMapper, manifest string) error {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		return err
	}
	mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = p.objects.Resource(mapping.Resource).Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: "helm", DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// TestAReleaseIsChangedBackAndForthAndLeavesNoTrace follows the notes of the chart.
func TestAReleaseIsChangedBackAndForthAndLeavesNoTrace(t *testing.T) {
	p := newPlane(t, localcluster.Kwok)
	p.makeNamespace(t, elsewhere)
	p.makeNamespace(t, metav1.NamespaceSystem)
	for _, tt := range []struct {
		name, namespace, program string
	}{
		{"by Helm 4 in kube-system", metav1.NamespaceSystem, helm4},
		{"by Helm 3 in another namespace", elsewhere, helm3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := p.everything(t.Context(), t)
			r := p.release(t, tt.namespace, tt.program)

			await.Must(t, r.install(t, nil))
			p.checkMode(t, r, shadow)

			r.upgrade(t, enforce)
			p.checkMode(t, r, enforce)
			installed := p.uid(t, policies, clusterName(tt.namespace, policy))
			p.annotateClock(t, r, renewedAnnotation, time.Now())

			r.upgrade(t, values{"replicas": 3})
			p.checkMode(t, r, enforce)
			if now := p.uid(t, policies, clusterName(tt.namespace, policy)); now != installed {
				t.Error("an upgrade took the policy away and brought it back: the built-in could evict in between")
			}
			if p.renewed(t, r) == "" {
				t.Error("an upgrade took what the leader had written")
			}

			r.upgrade(t, p.everyPolicy(t))
			p.checkMode(t, r, enforce)
			p.checkPolicies(t, r)

			r.upgrade(t, shadow)
			p.checkMode(t, r, shadow)
			p.checkPolicies(t, r)

			r.rollback(t, 4)
			p.checkMode(t, r, enforce)
			p.checkPolicies(t, r)

			r.uninstall(t)
			p.checkLeft(t, before, r.left()...)
			p.remove(t, r)
		})
	}
}

// checkMode checks that what holds the built-in off is there in both modes, because its backlog outlives enforce mode, and that
// nothing can be changed in shadow mode.
func (p *plane) checkMode(t *testing.T, r *release, mode values) {
	t.Helper()
	enforces := mode["mode"] == "enforce"
	if left := p.everything(t.Context(), t); !left.HasAll(r.kept()...) {
		t.Errorf("%v: not all of %q are there", mode, r.kept())
	}
	role, err := p.admin.RbacV1().ClusterRoles().Get(t.Context(), clusterName(r.Namespace, "taintkeeper"), metav1.GetOptions{})
	await.Must(t, err)
	for _, rule := range role.Rules {
		changes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
		harmless := slices.Contains([]string{"events", "tokenreviews", "subjectaccessreviews"}, rule.Resources[0])
		if changes && !harmless && !enforces {
			t.Errorf("in shadow mode it may %v %v", rule.Verbs, rule.Resources)
		}
	}
}

// everyPolicy switches all admission policies on that the API server serves.
func (p *plane) everyPolicy(t *testing.T) values {
	t.Helper()
	if p.mutatingVersion(t) == "" {
		return values{}
	}
	return everyPolicy
}

// checkPolicies checks that there is each policy of config/policies.yaml, and each binding.
func (p *plane) checkPolicies(t *testing.T, r *release) {
	t.Helper()
	if p.mutatingVersion(t) == "" {
		return
	}
	for _, document := range documents(t, config.Policies) {
		var object metav1.PartialObjectMetadata
		await.Must(t, yaml.Unmarshal([]byte(document), &object))
		if _, err := p.admission(t, object.Kind).Get(t.Context(), clusterName(r.Namespace, object.Name), metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func (p *plane) uid(t *testing.T, resource schema.GroupVersionResource, name string) types.UID {
	t.Helper()
	object, err := p.objects.Resource(resource).Get(t.Context(), name, metav1.GetOptions{})
	await.Must(t, err)
	return object.GetUID()
}

const (
	renewedAnnotation      = "taintkeeper.dev/renewed"
	backlogUntilAnnotation = "taintkeeper.dev/backlog-until"
)

// annotateClock writes an instant on the eviction clock, as the leader does.
func (p *plane) annotateClock(t *testing.T, r *release, annotation string, at time.Time) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, at.UTC().Format(time.RFC3339))
	_, err := p.admin.CoreV1().ServiceAccounts(r.Namespace).Patch(t.Context(), clock, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "taintkeeper"})
	await.Must(t, err)
}

func (p *plane) renewed(t *testing.T, r *release) string {
	t.Helper()
	account, err := p.admin.CoreV1().ServiceAccounts(r.Namespace).Get(t.Context(), clock, metav1.GetOptions{})
	await.Must(t, err)
	return account.Annotations[renewedAnnotation]
}

// everything returns the names of all objects in the cluster but events, which expire.
func (p *plane) everything(ctx context.Context, t *testing.T) sets.Set[string] {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(p.AdminConfig())
	await.Must(t, err)
	groups, err := client.ServerPreferredResources()
	await.Must(t, err)
	all := sets.New[string]()
	for _, resources := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, groups) {
		version, err := schema.ParseGroupVersion(resources.GroupVersion)
		await.Must(t, err)
		for _, resource := range resources.APIResources {
			if resource.Kind != "Event" {
				all = all.Union(p.names(ctx, t, version.WithResource(resource.Name)))
			}
		}
	}
	return all
}

func (p *plane) names(ctx context.Context, t *testing.T, resource schema.GroupVersionResource) sets.Set[string] {
	t.Helper()
	objects, err := p.objects.Resource(resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it was just removed
	}
	await.Must(t, err)
	names := sets.New[string]()
	for _, object := range objects.Items {
		names.Insert(fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName()))
	}
	return names
}

// checkLeft checks that nothing is left but what there was before, and what is documented.
func (p *plane) checkLeft(t *testing.T, before sets.Set[string], documented ...string) {
	t.Helper()
	await.Eventually(t, "the uninstall is complete", func(ctx context.Context) error {
		left := p.everything(ctx, t).Difference(before)
		if !left.Equal(sets.New(documented...)) {
			return fmt.Errorf("what is left is %q, want %q", sets.List(left), documented)
		}
		return nil
	})
}

// remove removes what an uninstall leaves, as the README of the chart says.
func (p *plane) remove(t *testing.T, r *release) {
	t.Helper()
	for _, name := range ourResources {
		await.Must(t, p.objects.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	for _, name := range keptPolicies {
		await.Must(t, p.objects.Resource(policies).Delete(t.Context(), clusterName(r.Namespace, name), metav1.DeleteOptions{}))
		await.Must(t, p.objects.Resource(bindings).Delete(t.Context(), clusterName(r.Namespace, name), metav1.DeleteOptions{}))
	}
	await.Must(t, p.admin.CoreV1().ServiceAccounts(r.Namespace).Delete(t.Context(), clock, metav1.DeleteOptions{}))
	await.Eventually(t, "the resources are gone", func(ctx context.Context) error {
		// The API server removes the APIService after the last of them.
		if left := p.everything(ctx, t).Intersection(sets.New(r.left()...)); left.Len() > 0 {
			return fmt.Errorf("what is left is %q", sets.List(left))
		}
		return nil
	})
}

// TestAnotherReleaseTakesOverWhatAnUninstallKept follows each of the ways described in docs/installation.md.
func TestAnotherReleaseTakesOverWhatAnUninstallKept(t *testing.T) {
	p := newPlane(t, localcluster.ControllerManager, localcluster.Kwok)
	_, err := p.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}, metav1.CreateOptions{})
	await.Must(t, err)
	first := p.release(t, metav1.NamespaceSystem, helm4)
	renamed := p.release(t, metav1.NamespaceSystem, helm4)
	renamed.name = "tk"
	moved := p.release(t, elsewhere, helm4)
	withoutResource := values{"crds": values{"install": false}}

	await.Must(t, first.install(t, enforce))
	checkRefused(t, "a second release", moved.install(t, enforce))
	first.uninstall(t)
	checkRefused(t, "another name", renamed.install(t, enforce))
	checkRefused(t, "another name without the resource", renamed.install(t, enforce.with(withoutResource)))
	checkRefused(t, "another namespace", moved.install(t, enforce))

	renamed.takesOwnership = true
	await.Must(t, renamed.install(t, enforce))
	p.checkMode(t, renamed, enforce)
	renamed.uninstall(t)

	await.Must(t, moved.install(t, enforce.with(withoutResource)))
	p.checkMode(t, moved, enforce)
	moved.uninstall(t)

	moved.takesOwnership = true
	await.Must(t, moved.install(t, enforce))
	p.checkMode(t, moved, enforce)
}

func checkRefused(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "cannot be imported into the current release") {
		t.Errorf("%s: Helm says %v", what, err)
	}
}
