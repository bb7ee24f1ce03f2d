// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

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
