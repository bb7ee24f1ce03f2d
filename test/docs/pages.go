// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/taintkeeper/taintkeeper/test/rig/localcluster"

// story is some pages, or sections of one, whose commands run on one control plane.
type story struct {
	pages []string
	// only or without are headings of level 2, if a page has alternatives.
	only, without []string
	// switchedOff is what kube-controller-manager leaves out, each with a minus.
	switchedOff string
	// given is what the pages presuppose: a command in each line.
	given string
	// words is what placeholders stand for.
	words map[string]string
}

// nodes is what every control plane has.
var nodes = []localcluster.NodeSpec{
	{Name: "worker-1", Zone: "a"}, {Name: "worker-2", Zone: "b"}, {Name: "worker-3", Zone: "b"},
}

const (
	workload = `
kubectl create deployment web --image=web --replicas=3
kubectl rollout status deployment/web
`
	shadow = workload + `
helm install taintkeeper ./charts/taintkeeper -n taintkeeper --create-namespace
kubectl -n taintkeeper wait --for=create configmap/taintkeeper-shadow
`
	installed = workload + `
helm install taintkeeper ./charts/taintkeeper -n taintkeeper --create-namespace --set mode=enforce
kubectl -n taintkeeper rollout status deployment/taintkeeper
`
	evictionPolicies = `
echo '{"apiVersion":"taintkeeper.dev/v1alpha1","kind":"EvictionPolicy","metadata":{"name":"respect-budgets"},
  "spec":{"action":"Evict","deadline":"15m"}}' >policy.yaml
kubectl apply -f policy.yaml
sed 's/respect-budgets/databases/; s/"Evict".*/"Hold"}}/' policy.yaml | kubectl apply -f -
sed 's/respect-budgets/tried/; s/"Evict".*/"Hold","dryRun":true}}/' policy.yaml | kubectl apply -f -
`
	admission = `
for policy in tolerationSeconds memoryPressure daemonTolerations extendedResources dedicatedNodes \
  namespaceTolerations; do echo "policies: {$policy: {enabled: true}}" >$policy.yaml; done
helm install taintkeeper ./charts/taintkeeper -n taintkeeper --create-namespace $(printf ' -f %s' *.yaml)
kubectl create namespace shop
kubectl create namespace ml
`
	// manager is a static pod as kubeadm makes one.
	manager = `
kubectl -n kube-system run kube-controller-manager --labels=component=kube-controller-manager --image=kube \
  --overrides='{"spec":{"tolerations":[{"operator":"Exists"}]}}' \
  --command -- kube-controller-manager --controllers=*,-node-lifecycle-controller
`
	// alarming has all that the runbooks name: node health, a pod that is due, and a policy and a rule of one name.
	alarming = manager + installed + `
helm upgrade taintkeeper ./charts/taintkeeper -n taintkeeper --reuse-values \
  --set 'controllers={eviction,node-health,node-taint-rule}'
kubectl run trial --image=web --overrides='{"spec":{"nodeName":"worker-1"}}'
echo '{"apiVersion":"taintkeeper.dev/v1alpha1","kind":"EvictionPolicy","metadata":{"name":"trial"},
  "spec":{"action":"Hold","paused":"trial"}}' | kubectl apply -f -
sed 's/kernel-deadlock/trial/' examples/node-problem-detector.yaml | kubectl apply -f -
kubectl taint node worker-1 example.com/trial:NoExecute
`
)

var (
	withoutHelm, deleted = []string{"Without Helm"}, []string{"Somebody deleted the namespace"}

	chart    = []string{"charts/taintkeeper/README.md"}
	policies = []string{"Admission policies"}

	stories = []story{
		{pages: []string{"README.md"}, given: workload, words: map[string]string{"NODE": "worker-1"}},
		{
			pages: []string{"docs/installation.md"}, without: withoutHelm,
			given: manager + "IMAGE=\nkubectl create namespace elsewhere",
			words: map[string]string{"NAME": "again", "NAMESPACE": "elsewhere"},
		},
		{pages: []string{"docs/installation.md"}, only: withoutHelm, given: "TAG=dev"},
		{pages: []string{"docs/plugin.md"}, given: shadow, words: map[string]string{"NODE": "worker-1"}},
		{
			pages: []string{
				"docs/coexistence.md", "docs/eviction-policies.md", "docs/node-taint-rules.md", "docs/node-health.md",
				"docs/events.md", "docs/metrics.md", "docs/security.md", "docs/operations.md",
			},
			given: installed + evictionPolicies + "NS=taintkeeper",
			words: map[string]string{
				"NODE": "worker-1", "POD": "-l app=web",
				"NAME": "kernel-deadlock", "KEY": "example.com/kernel-deadlock", "EFFECT": "NoSchedule",
			},
		},
		{
			pages: []string{"docs/runbooks.md"}, without: deleted, switchedOff: "-node-lifecycle-controller", given: alarming,
			words: map[string]string{"NODE": "worker-1", "NAMESPACE": "default", "POD": "trial", "NAME": "trial"},
		},
		{
			pages: []string{"docs/runbooks.md"}, only: deleted,
			given: installed + "kubectl delete namespace taintkeeper\nIMAGE=",
		},
		{pages: chart, without: policies, given: "TAG=dev"},
		{pages: chart, only: policies, given: admission, words: map[string]string{"NODE": "worker-1"}},
	}
)
