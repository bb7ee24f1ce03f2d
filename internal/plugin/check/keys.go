// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// component is something that sets taints.
type component struct {
	name string
	// source is where its keys are documented.
	source string
	keys   []string
	// startup are keys that nodes have when they join, until the component removes them.
	startup []string
}

// components are Kubernetes and software that is widely used with it. A key that ends with a slash stands for all keys
// that begin with it.
var components = []component{
	{
		name: "Kubernetes", source: "https://kubernetes.io/docs/reference/labels-annotations-taints/",
		keys: []string{
			corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable,
			corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodeNetworkUnavailable,
			corev1.TaintNodePIDPressure, corev1.TaintNodeOutOfService,
			"node.cloudprovider.kubernetes.io/shutdown",
			"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master",
			"CriticalAddonsOnly", // a convention from before priorities existed
			"node-role.kubernetes.io/infra",
		},
		startup: []string{"node.cloudprovider.kubernetes.io/uninitialized"},
	},
	{
		name: "node-readiness-controller", source: "https://node-readiness-controller.sigs.k8s.io/",
		startup: []string{"readiness.k8s.io/"},
	},
	{
		name:   "Cluster Autoscaler",
		source: "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go",
		keys: []string{
			"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
			"status-taint.cluster-autoscaler.kubernetes.io/",
			// Their owners set and remove these. Cluster Autoscaler only knows the prefixes.
			"startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/",
		},
	},
	{
		name: "Karpenter", source: "https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/apis/v1/taints.go",
		keys:    []string{"karpenter.sh/disrupted", "karpenter.sh/disruption"},
		startup: []string{"karpenter.sh/unregistered"},
	},
	{
		name: "Cluster API", source: "https://cluster-api.sigs.k8s.io/reference/api/labels-and-annotations",
		keys:    []string{"node.cluster.x-k8s.io/outdated-revision"},
		startup: []string{"node.cluster.x-k8s.io/uninitialized"},
	},
	{
		name: "AWS Fargate", source: "https://docs.aws.amazon.com/eks/latest/userguide/fargate.html",
		keys: []string{"eks.amazonaws.com/compute-type"},
	},
	{
		name: "AWS Node Termination Handler", source: "https://github.com/aws/aws-node-termination-handler",
		keys: []string{
			"aws-node-termination-handler/spot-itn", "aws-node-termination-handler/scheduled-maintenance",
			"aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler/rebalance-recommendation",
		},
	},
	{
		name: "the AWS EBS CSI driver", source: "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/install.md",
		startup: []string{"ebs.csi.aws.com/agent-not-ready"},
	},
	{
		name: "the AWS EFS CSI driver", source: "https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md",
		startup: []string{"efs.csi.aws.com/agent-not-ready"},
	},
	{
		name: "the AWS FSx CSI driver", source: "https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/docs/install.md",
		startup: []string{"fsx.csi.aws.com/agent-not-ready"},
	},
	{
		name: "the Mountpoint S3 CSI driver", source: "https://github.com/awslabs/mountpoint-s3-csi-driver",
		startup: []string{"s3.csi.aws.com/agent-not-ready"},
	},
	{
		name: "Google Kubernetes Engine", source: "https://cloud.google.com/kubernetes-engine/docs/how-to/node-taints",
		keys: []string{
			"cloud.google.com/impending-node-termination", "cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible",
			"cloud.google.com/compute-class", "sandbox.gke.io/runtime", "google.com/tpu", corev1.LabelArchStable,
		},
	},
	{
		name: "Azure Kubernetes Service", source: "https://learn.microsoft.com/azure/aks/spot-node-pool",
		keys: []string{
			"kubernetes.azure.com/scalesetpriority", "kubernetes.azure.com/mode",
			"remediator.kubernetes.azure.com/unschedulable",
		},
	},
	{
		name: "the Azure Disk CSI driver", source: "https://github.com/kubernetes-sigs/azuredisk-csi-driver",
		startup: []string{"disk.csi.azure.com/agent-not-ready"},
	},
	{
		name: "Gardener", source: "https://gardener.cloud/docs/gardener/node-readiness/",
		startup: []string{"node.gardener.cloud/critical-components-not-ready"},
	},
	{
		name: "RKE", source: "https://rke.docs.rancher.com/config-options/nodes",
		keys: []string{"node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/etcd"},
	},
	{
		name: "medik8s", source: "https://www.medik8s.io/remediation/remediation/",
		keys: []string{"medik8s.io/remediation", "medik8s.io/drain"},
	},
	{
		name: "virtual-kubelet", source: "https://virtual-kubelet.io/docs/usage/",
		keys: []string{"virtual-kubelet.io/provider"},
	},
	{
		name: "Cilium", source: "https://docs.cilium.io/en/stable/installation/taints/",
		startup: []string{"node.cilium.io/agent-not-ready"},
	},
	{
		name: "Istio", source: "https://istio.io/latest/docs/setup/additional-setup/cni/",
		startup: []string{"cni.istio.io/not-ready"},
	},
	{
		name: "GPU operators", source: "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
		keys: []string{"nvidia.com/gpu", "amd.com/gpu"},
	},
}

// wellKnown are the keys of all components.
// retired are keys that Kubernetes no longer sets, with the one that took their place.
var retired = map[string]string{
	"node.alpha.kubernetes.io/notReady":    corev1.TaintNodeNotReady,
	"node.alpha.kubernetes.io/unreachable": corev1.TaintNodeUnreachable,
	"node.kubernetes.io/out-of-disk":       corev1.TaintNodeDiskPressure,
}

var wellKnown = func() (all []string) {
	for _, component := range components {
		all = slices.Concat(all, component.keys, component.startup)
	}
	return all
}()

// has reports whether a key is in a list, or begins with an element that ends with a slash.
func has(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(known string) bool {
		return known == key || strings.HasSuffix(known, "/") && strings.HasPrefix(key, known)
	})
}
