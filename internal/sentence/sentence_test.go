// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 300 * time.Millisecond: "300ms", time.Minute + 400*time.Millisecond: "1m", 2*time.Hour + 999*time.Millisecond: "2h0m1s",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
}
