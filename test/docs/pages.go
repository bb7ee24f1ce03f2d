// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/taintkeeper/taintkeeper/test/rig/localcluster"

// story is a page, or some sections of it.
type story struct {
	page string
	// only or without are headings of level 2, where a page describes alternatives.
	only, without []string
	// switchedOff is what kube-controller-manager leaves out, each with a minus.
	switchedOff string
	// given is what the page presupposes: a command in each line.
	given string
	// words is what placeholders stand for.
	words map[string]string
}

// nodes are those of every control plane.
var nodes = []localcluster.NodeSpec{{Name: "worker-1", Zone: "a"}, {Name: "worker-2", Zone: "b"}, {Name: "worker-3", Zone: "b"}}

const (
	workload = `
kubectl create deployment web --image=web --replicas=3
kubectl rollout status deployment/web`
	// manager is a static pod as kubeadm makes one.
	manager = `
kubectl -n kube-system run kube-controller-manager --labels=component=kube-controller-manager --image=kube --overrides='{"spec":{"tolerations":[{"operator":"Exists"}]}}' --command -- kube-controller-manager --controllers=*,-node-lifecycle-controller`
	shadow = workload + `
helm install taintkeeper ./charts/taintkeeper -n taintkeeper --create-namespace
kubectl -n taintkeeper wait --for=create configmap/taintkeeper-shadow`
	installed = workload + `
helm install taintkeeper ./charts/taintkeeper -n taintkeeper --create-namespace --set mode=enforce
kubectl -n taintkeeper rollout status deployment/taintkeeper`
	policies = installed + `
echo '{"apiVersion":"taintkeeper.dev/v1alpha1","kind":"EvictionPolicy","metadata":{"name":"respect-budgets"},"spec":{"action":"Evict","deadline":"15m"}}' >policy.yaml
kubectl apply -f policy.yaml
sed 's/respect-budgets/databases/; s/"Evict".*/"Hold"}}/' policy.yaml | kubectl apply -f -
sed 's/respect-budgets/tried/; s/"Evict".*/"Hold","dryRun":true}}/' policy.yaml | kubectl apply -f -`
	// alarming has all that the runbooks name: node health, a pod that is due, and a policy and a rule of one name.
	alarming = manager + installed + `
helm upgrade taintkeeper ./charts/taintkeeper -n taintkeeper --reuse-values --set 'controllers={eviction,node-health,node-taint-rule}'
kubectl run trial --image=web --overrides='{"spec":{"nodeName":"worker-1"}}'
echo '{"apiVersion":"taintkeeper.dev/v1alpha1","kind":"EvictionPolicy","metadata":{"name":"trial"},"spec":{"action":"Hold","paused":"trial"}}' | kubectl apply -f -
sed 's/kernel-deadlock/trial/' examples/node-problem-detector.yaml | kubectl apply -f -
kubectl taint node worker-1 example.com/trial:NoExecute`
)

var (
	withoutHelm, deleted = []string{"Without Helm"}, []string{"Somebody deleted the namespace"}

	stories = []story{
		{page: "README.md", given: workload, words: map[string]string{"NODE": "worker-1"}},
		{
			page: "docs/installation.md", without: withoutHelm, given: manager + "\nIMAGE=\nkubectl create namespace elsewhere",
			words: map[string]string{"NAME": "again", "NAMESPACE": "elsewhere"},
		},
		{page: "docs/installation.md", only: withoutHelm, given: "TAG=dev"},
		{page: "docs/plugin.md", given: shadow, words: map[string]string{"NODE": "worker-1"}},
		{page: "docs/coexistence.md", given: installed},
		{page: "docs/eviction-policies.md", given: policies},
		{
			page: "docs/node-taint-rules.md", given: installed,
			words: map[string]string{"NODE": "worker-1", "NAME": "kernel-deadlock", "KEY": "example.com/kernel-deadlock", "EFFECT": "NoSchedule"},
		},
		{page: "docs/node-health.md", given: workload},
		{
			page: "docs/runbooks.md", without: deleted, switchedOff: "-node-lifecycle-controller", given: alarming,
			words: map[string]string{"NODE": "worker-1", "NAMESPACE": "default", "POD": "trial", "NAME": "trial"},
		},
		{page: "docs/runbooks.md", only: deleted, given: installed + "\nkubectl delete namespace taintkeeper\nIMAGE="},
	}
)
