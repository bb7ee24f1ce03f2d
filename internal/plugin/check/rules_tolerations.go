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

	"github.com/taintkeeper/taintkeeper/taints"
)

// flaws finds manifests that could be read although something is wrong with them, or those that could not be read. The
// API server refuses both kinds, except that clients with --validate=false, and others than kubectl, make it drop an
// unknown field: a toleration without its seconds never ends.
func flaws(isRead bool, says string) search {
	return func(f *facts, found func(finding)) {
		for _, flaw := range f.Flaws {
			if flaw.IsRead == isRead {
				found(finding{object: object{flaw.Object, flaw.Source}, message: fmt.Sprintf("%s %v.", says, flaw.Why)})
			}
		}
	}
}

// eachToleration looks at each toleration of each workload. What it finds has no message if nothing is wrong.
func eachToleration(look func(f *facts, all []corev1.Toleration, i int) finding) search {
	return func(f *facts, found func(finding)) {
		for w, l := range f.lists() {
			for i := range l.written {
				if is := look(f, l.written, i); is.message != "" {
					of := w.finding(l, "")
					is.object, is.pods = of.object, of.pods
					found(is)
				}
			}
		}
	}
}

// says returns a finding about a toleration.
func says(t corev1.Toleration, message string, args ...any) finding {
	return finding{message: "Toleration " + literal(t) + fmt.Sprintf(message, args...)}
}

// malformed: the API server now rejects these. They occur in files, and in pods from before it did.
func malformed(_ *facts, all []corev1.Toleration, i int) finding {
	faults := faultsOf(all[i])
	if len(faults) == 0 {
		return finding{}
	}
	return says(all[i], ": %s.", strings.Join(faults, ", and "))
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

// duplicate: it does no harm, but editing one of the two may have no effect.
func duplicate(_ *facts, all []corev1.Toleration, i int) finding {
	if !slices.ContainsFunc(all[:i], func(earlier corev1.Toleration) bool { return equal(earlier, all[i]) }) {
		return finding{}
	}
	return says(all[i], " occurs more than once.")
}

// shadowed: if several tolerations match a taint, the first in the list counts, not the narrower or longer one.
func shadowed(_ *facts, all []corev1.Toleration, i int) finding {
	by := slices.IndexFunc(all[:i], func(earlier corev1.Toleration) bool {
		return covers(earlier, all[i]) && !equal(earlier, all[i])
	})
	if by < 0 || sameSeconds(all[by], all[i]) || len(faultsOf(all[i])) > 0 {
		return finding{}
	}
	return says(all[i], " never counts, because %s comes before it and matches the same taints: pods stay %s, not %s.",
		literal(all[by]), stay(all[by]), stay(all[i]))
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

// comparing: KEP-5471 is alpha and off by default in the API server, the scheduler and the controllers.
func comparing(_ *facts, all []corev1.Toleration, i int) finding {
	if operator := all[i].Operator; operator != corev1.TolerationOpGt && operator != corev1.TolerationOpLt {
		return finding{}
	}
	return says(all[i], " matches nothing unless the feature gate TaintTolerationComparisonOperators is on. It is off by default.")
}

// noSeconds: the scheduler ignores tolerationSeconds, so it puts such a pod on a node that it must leave immediately.
func noSeconds(_ *facts, all []corev1.Toleration, i int) finding {
	switch seconds := all[i].TolerationSeconds; {
	case seconds == nil || *seconds > 0 || len(faultsOf(all[i])) > 0:
		return finding{}
	case taints.IsForNoTime(all[i]):
		is := says(all[i], " is like those that Taintkeeper adds to a due pod that stays, so that the pod survives a restart of its kubelet.")
		is.severity, is.advice = info, "If Taintkeeper added it, there is nothing to do. If the manifest of the pods has it, remove it there."
		return is
	}
	return says(all[i], " lets pods be scheduled to a node with this taint, which they must then leave immediately.")
}

// component is something that sets taints.
type component struct {
	name string
	// source is where its keys are documented.
	source string
	// keys are separated by spaces, and so are startup, the keys that nodes have when they join, until the component
	// removes them. A key that ends with a slash stands for all keys that begin with it.
	keys, startup string
}

// components are Kubernetes and software that is widely used with it. CriticalAddonsOnly is a convention from before
// priorities existed. Cluster Autoscaler only knows the prefixes startup-taint and ignore-taint: their owners set and
// remove these.
var components = []component{
	{
		"Kubernetes", "https://kubernetes.io/docs/reference/labels-annotations-taints/",
		"node.kubernetes.io/not-ready node.kubernetes.io/unreachable node.kubernetes.io/unschedulable " +
			"node.kubernetes.io/memory-pressure node.kubernetes.io/disk-pressure " +
			"node.kubernetes.io/network-unavailable node.kubernetes.io/pid-pressure " +
			"node.kubernetes.io/out-of-service node.cloudprovider.kubernetes.io/shutdown " +
			"node-role.kubernetes.io/control-plane node-role.kubernetes.io/master CriticalAddonsOnly " +
			"node-role.kubernetes.io/infra",
		"node.cloudprovider.kubernetes.io/uninitialized",
	},
	{"node-readiness-controller", "https://node-readiness-controller.sigs.k8s.io/", "", "readiness.k8s.io/"},
	{
		"Cluster Autoscaler", "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go",
		"ToBeDeletedByClusterAutoscaler DeletionCandidateOfClusterAutoscaler " +
			"status-taint.cluster-autoscaler.kubernetes.io/ startup-taint.cluster-autoscaler.kubernetes.io/ " +
			"ignore-taint.cluster-autoscaler.kubernetes.io/",
		"",
	},
	{"Karpenter", "https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/apis/v1/taints.go", "karpenter.sh/disrupted karpenter.sh/disruption", "karpenter.sh/unregistered"},
	{"Cluster API", "https://cluster-api.sigs.k8s.io/reference/api/labels-and-annotations", "node.cluster.x-k8s.io/outdated-revision", "node.cluster.x-k8s.io/uninitialized"},
	{"AWS Fargate", "https://docs.aws.amazon.com/eks/latest/userguide/fargate.html", "eks.amazonaws.com/compute-type", ""},
	{
		"AWS Node Termination Handler", "https://github.com/aws/aws-node-termination-handler",
		"aws-node-termination-handler/spot-itn aws-node-termination-handler/scheduled-maintenance " +
			"aws-node-termination-handler/asg-lifecycle-termination " +
			"aws-node-termination-handler/rebalance-recommendation",
		"",
	},
	{"the AWS EBS CSI driver", "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/install.md", "", "ebs.csi.aws.com/agent-not-ready"},
	{"the AWS EFS CSI driver", "https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md", "", "efs.csi.aws.com/agent-not-ready"},
	{"the AWS FSx CSI driver", "https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/docs/install.md", "", "fsx.csi.aws.com/agent-not-ready"},
	{"the Mountpoint S3 CSI driver", "https://github.com/awslabs/mountpoint-s3-csi-driver", "", "s3.csi.aws.com/agent-not-ready"},
	{
		"Google Kubernetes Engine", "https://cloud.google.com/kubernetes-engine/docs/how-to/node-taints",
		"cloud.google.com/impending-node-termination cloud.google.com/gke-spot " +
			"cloud.google.com/gke-preemptible cloud.google.com/compute-class sandbox.gke.io/runtime google.com/tpu " +
			"kubernetes.io/arch",
		"",
	},
	{
		"Azure Kubernetes Service", "https://learn.microsoft.com/azure/aks/spot-node-pool",
		"kubernetes.azure.com/scalesetpriority kubernetes.azure.com/mode " +
			"remediator.kubernetes.azure.com/unschedulable",
		"",
	},
	{"the Azure Disk CSI driver", "https://github.com/kubernetes-sigs/azuredisk-csi-driver", "", "disk.csi.azure.com/agent-not-ready"},
	{"Gardener", "https://gardener.cloud/docs/gardener/node-readiness/", "", "node.gardener.cloud/critical-components-not-ready"},
	{"RKE", "https://rke.docs.rancher.com/config-options/nodes", "node-role.kubernetes.io/controlplane node-role.kubernetes.io/etcd", ""},
	{"medik8s", "https://www.medik8s.io/remediation/remediation/", "medik8s.io/remediation medik8s.io/drain", ""},
	{"virtual-kubelet", "https://virtual-kubelet.io/docs/usage/", "virtual-kubelet.io/provider", ""},
	{"Cilium", "https://docs.cilium.io/en/stable/installation/taints/", "", "node.cilium.io/agent-not-ready"},
	{"Istio", "https://istio.io/latest/docs/setup/additional-setup/cni/", "", "cni.istio.io/not-ready"},
	{"GPU operators", "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/", "nvidia.com/gpu amd.com/gpu", ""},
}

// retired are keys that Kubernetes no longer sets, with the one that took their place.
var retired = map[string]string{
	"node.alpha.kubernetes.io/notReady":    corev1.TaintNodeNotReady,
	"node.alpha.kubernetes.io/unreachable": corev1.TaintNodeUnreachable,
	"node.kubernetes.io/out-of-disk":       corev1.TaintNodeDiskPressure,
}

// wellKnown are the keys of all components.
var wellKnown = func() (all string) {
	for _, component := range components {
		all += component.keys + " " + component.startup + " "
	}
	return all
}()

// has reports whether a key is in a list, or begins with an element that ends with a slash.
func has(keys, key string) bool {
	return slices.ContainsFunc(strings.Fields(keys), func(known string) bool {
		return known == key || strings.HasSuffix(known, "/") && strings.HasPrefix(key, known)
	})
}

// unknownKey: a key with a typo looks like any other. A toleration for no time outlasts its taint.
func unknownKey(f *facts, all []corev1.Toleration, i int) finding {
	if taints.IsForNoTime(all[i]) {
		return finding{}
	}
	return f.judgeKey("Toleration "+literal(all[i]), all[i].Key)
}

// judgeKey says what is wrong with a key. If no nodes are known, some node may have it.
func (f *facts) judgeKey(what, key string) finding {
	switch meant, near := misspelt(key), like(key, f.keys); {
	case retired[key] != "":
		return finding{
			message: fmt.Sprintf("%s: Kubernetes no longer sets the key %s. Did you mean %s?", what, key, retired[key]),
			advice:  "Correct the key.",
		}
	case key == "" || has(wellKnown, key) || slices.Contains(f.keys, key):
		return finding{}
	case meant != "":
		return finding{
			message: fmt.Sprintf("%s: the key %s is unknown. Did you mean %s?", what, key, meant),
			advice:  "Correct the key.",
		}
	case len(f.Nodes) == 0:
		return finding{}
	case near != "":
		return finding{severity: info, message: fmt.Sprintf("%s: no node has a taint with the key %s, but some have %s.", what, key, near)}
	}
	return finding{severity: info, message: fmt.Sprintf("%s: no node has a taint with the key %s, and no known component sets one.", what, key)}
}

// short is the length up to which names are similar by chance.
const short = 8

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

// misspelt returns the well-known key that was probably meant, or an empty string. Vendors have keys that differ in one
// letter, such as ebs.csi.aws.com and efs.csi.aws.com, so the letters of a domain must match.
func misspelt(key string) string {
	domain, name := path.Split(key)
	for known := range strings.FieldsSeq(wellKnown) {
		knownDomain, knownName := path.Split(known)
		if domain == knownDomain && len(name) >= short && levenshtein.ComputeDistance(name, knownName) <= 2 ||
			name == knownName && len(domain) != len(knownDomain) && levenshtein.ComputeDistance(domain, knownDomain) == 1 {
			return known
		}
	}
	return ""
}
