// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Workload is a kind whose objects create pods from a template.
type Workload struct {
	Resource schema.GroupVersionResource
	template []string // the path of the template
}

// Workloads are the workload kinds of Kubernetes.
var Workloads = map[schema.GroupKind]Workload{
	{Group: "apps", Kind: "Deployment"}:        {v1("apps", "deployments"), []string{"spec", "template"}},
	{Group: "apps", Kind: "ReplicaSet"}:        {v1("apps", "replicasets"), []string{"spec", "template"}},
	{Group: "apps", Kind: "StatefulSet"}:       {v1("apps", "statefulsets"), []string{"spec", "template"}},
	{Group: "apps", Kind: "DaemonSet"}:         {v1("apps", "daemonsets"), []string{"spec", "template"}},
	{Group: "batch", Kind: "Job"}:              {v1("batch", "jobs"), []string{"spec", "template"}},
	{Group: "", Kind: "ReplicationController"}: {v1("", "replicationcontrollers"), []string{"spec", "template"}},
	{Group: "batch", Kind: "CronJob"}: {
		v1("batch", "cronjobs"), []string{"spec", "jobTemplate", "spec", "template"},
	},
}

func v1(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

// In returns the path of a field of the template.
func (k Workload) In(field ...string) []string { return slices.Concat(k.template, field) }
