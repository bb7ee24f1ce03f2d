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
)

// unknownKey: a key with a typing error looks like any other.
var unknownKey = Rule{
	ID:       "unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A toleration has a key that nobody uses",
	Advice:   "Take the toleration out, unless a taint with this key is to come.",
	Find: func(facts *Facts) []Finding {
		onNodes := facts.keys()
		return facts.perToleration(func(list []corev1.Toleration, i int) Finding {
			return facts.judgeKey("Toleration "+literal(list[i]), list[i].Key, onNodes)
		})
	},
}

// keys returns those of the taints of all nodes.
func (f *Facts) keys() (all []string) {
	for _, node := range f.Nodes {
		for _, taint := range node.Spec.Taints {
			all = append(all, taint.Key)
		}
	}
	return all
}

// judgeKey says what is wrong with the key of something. Without nodes, one may have it.
func (f *Facts) judgeKey(what, key string, onNodes []string) Finding {
	info := Finding{Severity: cliv1alpha1.SeverityInfo}
	switch meant, near := misspelt(key), like(key, onNodes); {
	case key == "" || has(wellKnown, key) || slices.Contains(onNodes, key):
		return Finding{}
	case meant != "":
		return Finding{
			Message: fmt.Sprintf("%s: nobody uses the key %s; %s may be meant.", what, key, meant),
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

// like returns a key of a node that differs in a letter or two, empty if there is none. Both can be meant.
func like(key string, onNodes []string) string {
	i := slices.IndexFunc(onNodes, func(other string) bool {
		return len(key) >= short && levenshtein.ComputeDistance(key, other) <= 2
	})
	if i < 0 {
		return ""
	}
	return onNodes[i]
}

// short is how long names are that are alike by chance.
const short = 8

// misspelt returns the well-known key that somebody meant to write, empty if there is none. Vendors have keys that
// differ in a letter, as ebs.csi.aws.com and efs.csi.aws.com do, so no letter of a domain may be another.
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
