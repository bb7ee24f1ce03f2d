// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"regexp"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// aboutOne matches a sentence about one node or pod: "Node n-1: its ...", "pod shop/web-0 on node n-1: ...", and "Left
// out node n-1: ...".
var aboutOne = regexp.MustCompile(`^((?:Left out )?(?:[Nn]ode|[Pp]od)) (\S+)((?: on node \S+)?): (.*)$`)

// Merged merges sentences that differ only in the name of a node or pod. They remain sentences about one.
func Merged(sentences []string) []string {
	type about struct{ what, says string }
	names, merged := map[about][]string{}, make([]string, 0, len(sentences))
	for _, text := range sentences {
		if match := aboutOne.FindStringSubmatch(text); match != nil {
			of := about{match[1], match[4]}
			names[of] = append(names[of], match[2]+match[3])
		}
	}
	for _, text := range sentences {
		match := aboutOne.FindStringSubmatch(text)
		if match == nil {
			merged = append(merged, text)
			continue
		}
		of := about{match[1], match[4]}
		switch all := names[of]; {
		case len(all) == 1:
			merged = append(merged, text)
		case len(all) > 1:
			merged = append(merged, fmt.Sprintf("%s %s: %s", of.what, sentence.Also(all), of.says))
		}
		delete(names, of)
	}
	return merged
}
