// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

// malformedToleration: the API server now rejects these. They occur in files, and in pods from before it did.
var malformedToleration = Rule{
	ID:       "malformed-toleration",
	Severity: cliv1alpha1.SeverityError,
	Title:    "A toleration is malformed",
	Advice:   "Rewrite the toleration: the API server refuses it.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			faults := faultsOf(list[i])
			if len(faults) == 0 {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s: %s.", literal(list[i]), strings.Join(faults, ", and "))}
		})
	},
}

var (
	operators = []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt}
	effects   = []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
)

// faultsOf says what is wrong with a toleration, and what it therefore matches or does not match.
func faultsOf(t corev1.Toleration) []string {
	var faults []string
	for _, fault := range []struct {
		is   bool
		says string
	}{
		{!slices.Contains(operators, t.Operator), fmt.Sprintf("there is no operator %q, so it matches nothing", t.Operator)},
		{!slices.Contains(effects, t.Effect), fmt.Sprintf("there is no effect %q, so it matches nothing", t.Effect)},
		{t.Operator == corev1.TolerationOpExists && t.Value != "", "operator Exists ignores the value, so it matches every value"},
		{t.Key == "" && isEqual(t), "operator Equal needs a key; without one it matches taints of any key that have this value"},
		{t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute, "tolerationSeconds are allowed only with effect NoExecute"},
		{t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0, "no taint can have this key, so it matches nothing"},
		{isEqual(t) && len(validation.IsValidLabelValue(t.Value)) > 0, "no taint can have this value, so it matches nothing"},
	} {
		if fault.is {
			faults = append(faults, fault.says)
		}
	}
	return faults
}

func isEqual(t corev1.Toleration) bool {
	return t.Operator == "" || t.Operator == corev1.TolerationOpEqual
}

// duplicateToleration: it does no harm, but editing one of the two may have no effect.
var duplicateToleration = Rule{
	ID:       "duplicate-toleration",
	Severity: cliv1alpha1.SeverityInfo,
	Title:    "A pod has the same toleration twice",
	Advice:   "Remove one of them, so that nobody edits the one that never counts.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			same := func(other corev1.Toleration) bool { return equal(other, list[i]) }
			if !slices.ContainsFunc(list[:i], same) {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s occurs more than once.", literal(list[i]))}
		})
	},
}

// shadowedToleration: if several tolerations match a taint, the first in the list counts, not the narrower or longer
// one.
var shadowedToleration = Rule{
	ID:       "shadowed-toleration",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration never counts, because an earlier one matches",
	Advice:   "Put the narrower toleration first, or remove it.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			by := shadowOf(list, i)
			if by < 0 || sameSeconds(list[by], list[i]) {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s never counts, because %s comes before it and matches the same taints: pods stay %s, not %s.",
				literal(list[i]), literal(list[by]), stay(list[by]), stay(list[i]))}
		})
	},
}

// shadowOf returns the index of the first toleration before the one at i that matches everything that this one matches,
// or -1.
func shadowOf(list []corev1.Toleration, i int) int {
	if len(faultsOf(list[i])) > 0 {
		return -1
	}
	for earlier := range i {
		if covers(list[earlier], list[i]) && !equal(list[earlier], list[i]) {
			return earlier
		}
	}
	return -1
}

// covers reports whether one toleration matches every taint that another matches, for Equal and Exists.
func covers(wide, narrow corev1.Toleration) bool {
	switch {
	case wide.Effect != "" && wide.Effect != narrow.Effect, wide.Key != "" && wide.Key != narrow.Key:
		return false
	case wide.Operator == corev1.TolerationOpExists:
		return true
	}
	return isEqual(wide) && isEqual(narrow) && wide.Key == narrow.Key && wide.Value == narrow.Value
}

// stay says how long pods with a toleration stay.
func stay(t corev1.Toleration) string {
	if t.TolerationSeconds == nil {
		return "indefinitely"
	}
	return fmt.Sprintf("for %d s", max(*t.TolerationSeconds, 0))
}

// comparisonOperator: KEP-5471 is alpha and off by default in the API server, the scheduler and the controllers.
var comparisonOperator = Rule{
	ID:       "comparison-operator",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration compares with Gt or Lt",
	Advice:   "Use Equal or Exists, unless the feature gate TaintTolerationComparisonOperators is on in every component.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			if operator := list[i].Operator; operator != corev1.TolerationOpGt && operator != corev1.TolerationOpLt {
				return Finding{}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s matches nothing unless the feature gate TaintTolerationComparisonOperators is on. It is off by default.", literal(list[i]))}
		})
	},
}

// noSeconds: the scheduler ignores tolerationSeconds, so it puts such a pod on a node that it must leave immediately.
var noSeconds = Rule{
	ID:       "no-seconds",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration expires immediately",
	Advice:   "Remove the toleration, or set tolerationSeconds to the time that the pod needs.",
	Find: func(facts *Facts) []Finding {
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			if seconds := list[i].TolerationSeconds; seconds == nil || *seconds > 0 || len(faultsOf(list[i])) > 0 {
				return Finding{}
			}
			if taints.IsForNoTime(list[i]) {
				return Finding{
					Severity: cliv1alpha1.SeverityInfo,
					Message:  fmt.Sprintf("Toleration %s is like those that Taintkeeper adds to a due pod that stays, so that the pod survives a restart of its kubelet.", literal(list[i])),
					Advice:   "If Taintkeeper added it, there is nothing to do. If the manifest of the pods has it, remove it there.",
				}
			}
			return Finding{Message: fmt.Sprintf("Toleration %s lets pods be scheduled to a node with this taint, which they must then leave immediately.", literal(list[i]))}
		})
	},
}

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

// unknownKey: a key with a typo looks like any other.
var unknownKey = Rule{
	ID:       "unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration has an unknown key",
	Advice:   "Remove the toleration, unless you plan a taint with this key.",
	Find: func(facts *Facts) []Finding {
		onNodes := facts.keys()
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			if taints.IsForNoTime(list[i]) {
				return Finding{} // it outlasts its taint
			}
			return facts.judgeKey("Toleration "+literal(list[i]), list[i].Key, onNodes)
		})
	},
}

// keys returns the keys of the taints of all nodes.
func (f *Facts) keys() (all []string) {
	for _, node := range f.Nodes {
		for _, taint := range node.Spec.Taints {
			all = append(all, taint.Key)
		}
	}
	return all
}

// judgeKey says what is wrong with a key. If no nodes are known, some node may have it.
func (f *Facts) judgeKey(what, key string, onNodes []string) Finding {
	info := Finding{Severity: cliv1alpha1.SeverityInfo}
	switch meant, near := misspelt(key), like(key, onNodes); {
	case retired[key] != "":
		return Finding{
			Message: fmt.Sprintf("%s: Kubernetes no longer sets the key %s. Did you mean %s?", what, key, retired[key]),
			Advice:  "Correct the key.",
		}
	case key == "" || has(wellKnown, key) || slices.Contains(onNodes, key):
		return Finding{}
	case meant != "":
		return Finding{
			Message: fmt.Sprintf("%s: the key %s is unknown. Did you mean %s?", what, key, meant),
			Advice:  "Correct the key.",
		}
	case len(f.Nodes) == 0:
		return Finding{}
	case near != "":
		info.Message = fmt.Sprintf("%s: no node has a taint with the key %s, but some have %s.", what, key, near)
	default:
		info.Message = fmt.Sprintf("%s: no node has a taint with the key %s, and no known component sets one.", what, key)
	}
	return info
}

// like returns a key on a node that differs in one or two letters, or an empty string. Both keys may be intentional.
func like(key string, onNodes []string) string {
	i := slices.IndexFunc(onNodes, func(other string) bool {
		return len(key) >= short && levenshtein.ComputeDistance(key, other) <= 2
	})
	if i < 0 {
		return ""
	}
	return onNodes[i]
}

// short is the length up to which names are similar by chance.
const short = 8

// misspelt returns the well-known key that was probably meant, or an empty string. Vendors have keys that differ in one
// letter, such as ebs.csi.aws.com and efs.csi.aws.com, so the letters of a domain must match.
func misspelt(key string) string {
	domain, name := path.Split(key)
	for _, known := range wellKnown {
		knownDomain, knownName := path.Split(known)
		if domain == knownDomain && len(name) >= short && levenshtein.ComputeDistance(name, knownName) <= 2 ||
			name == knownName && len(domain) != len(knownDomain) && levenshtein.ComputeDistance(domain, knownDomain) == 1 {
			return known
		}
	}
	return ""
}
