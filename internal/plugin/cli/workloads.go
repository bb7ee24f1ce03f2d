// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workloadKind is a kind whose objects make pods from a template.
type workloadKind struct {
	resource schema.GroupVersionResource
	template []string // the path of the template
}

// workloadKinds are those of Kubernetes.
var workloadKinds = map[schema.GroupKind]workloadKind{
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

// in returns the path of a field of the template.
func (k workloadKind) in(field ...string) []string { return slices.Concat(k.template, field) }
