// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"slices"
	"testing"
)

func TestATolerationIsShortenedOnlyWhileItCanBeRead(t *testing.T) {
	const pod = "shop/web-1"
	for name, test := range map[string]struct {
		toleration string
		width      int
		want       []string
	}{
		"it fits":                     {"k=*:NoExecute for 60s", 34, []string{pod, "k=*:NoExecute for 60s"}},
		"its key can be read":         {"maintenance=*:NoExecute for 60s", 33, []string{pod, "maintenance… for 60s"}},
		"its key could not be read":   {"maintenance=*:NoExecute for 60s", 32, []string{pod}},
		"the header fits":             {"none", 23, []string{pod, "none"}},
		"the header would be cut off": {"none", 22, []string{pod}},
	} {
		t.Run(name, func(t *testing.T) {
			rows := []PodRow{{Cells: []string{pod, test.toleration}}}
			columns := keepSeconds([]string{ColumnPod, ColumnToleration}, rows, test.width)
			if got := rows[0].Cells; !slices.Equal(got, test.want) || len(columns) != len(got) {
				t.Errorf("the row is %q below %q, want %q", got, columns, test.want)
			}
		})
	}
}
