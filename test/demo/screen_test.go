// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlainScreenShowsFinalTablesOnly(t *testing.T) {
	var out bytes.Buffer
	s := plainScreen{&out}
	s.title("title")
	s.draw([]string{"header", "draft"})
	s.finish([]string{"header", "final"})
	if diff := cmp.Diff("title\n\nheader\nfinal\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLiveScreenDrawsInPlaceWhatFits(t *testing.T) {
	var out bytes.Buffer
	s := &liveScreen{plainScreen: plainScreen{&out}, size: func() (int, int, error) { return 8, 4, nil }}
	s.draw([]string{"header of the table", "line", "does not fit"})
	s.say("above")
	s.finish([]string{"header", "line", "fits now"})
	s.draw([]string{"next"})
	want := "\r\x1b[J\n\x1b[2mheader o\x1b[0m\nline\n" +
		"\x1b[3A\r\x1b[Jabove\n" +
		"\r\x1b[J\n\x1b[2mheader\x1b[0m\nline\nfits now\n" +
		"\r\x1b[J\n\x1b[2mnext\x1b[0m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
