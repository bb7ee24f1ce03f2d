// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestEveryFaultCanBePlanted(t *testing.T) {
	t.Chdir("../..")
	for _, f := range faults {
		if _, err := f.planted(); err != nil {
			t.Error(err)
		}
	}
}
