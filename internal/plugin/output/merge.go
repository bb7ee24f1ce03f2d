// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"regexp"
	"strings"
)

// aboutOne is a sentence that begins with a node or a pod: "Node n-1: its taint ...", "pod shop/web-0 on node n-1: ...".
var aboutOne = regexp.MustCompile(`^((?:Left out )?(?:[Nn]ode|[Pp]od)) (\S+)((?: on node \S+)?): (.*)$`)

// Merged makes one sentence of those that differ only in the name of a node or pod.
func Merged(sentences []string) []string {
	type about struct{ what, says string }
	names, merged := map[about][]string{}, make([]string, 0, len(sentences))
	for _, sentence := range sentences {
		if match := aboutOne.FindStringSubmatch(sentence); match != nil {
			of := about{match[1], match[4]}
			names[of] = append(names[of], match[2]+match[3])
		}
	}
	for _, sentence := range sentences {
		match := aboutOne.FindStringSubmatch(sentence)
		if match == nil {
			merged = append(merged, sentence)
			continue
		}
		of := about{match[1], match[4]}
		switch all := names[of]; {
		case len(all) == 1:
			merged = append(merged, sentence)
		case len(all) > 1:
			merged = append(merged, fmt.Sprintf("%ss %s: %s", of.what, Some(all), of.says))
		}
		delete(names, of)
	}
	return merged
}

// Some names three, and counts the rest.
func Some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
