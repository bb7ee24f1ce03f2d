// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTableOfAnActThatIsOver(t *testing.T) {
	taint := noExecute(maintenance)
	taint.Value = "soon"
	line := script(0.0, []corev1.Taint{taint}, 2.0, []corev1.Taint{noExecute(heat), taint})
	rows := rowsOf(rule, []sighting{
		sightingOf("at-once", west1).evictedAfter(0.03),
		sightingOf("shadowed", west1, forSeconds(maintenance, 1), forEver(maintenance)).evictedAfter(1.012),
		sightingOf("earlier", west1, forSeconds(maintenance, 5)).evictedAfter(2.5),
		sightingOf("early", west1, forSeconds(heat, 1), forSeconds(maintenance, 9)).evictedAfter(2.9),
		sightingOf("foreign", west1, forSeconds(heat, 2), forEver(maintenance)).evictedAfter(4),
		sightingOf("new", west1, forSeconds(heat, 60), forEver(maintenance)).boundAfter(3.5),
		sightingOf("stays", west1, corev1.Toleration{Operator: corev1.TolerationOpExists}),
	}, west1, line)
	rows[4].marked = false
	want := []string{
		"  POD       NODE    TAINT             TOLERATION        DUE                   LEFT AT      LATENESS",
		"  at-once   west-1  maintenance=soon  none              0.000 s               0.030 s      30 ms",
		"  shadowed  west-1  maintenance=soon  1 s (first of 2)  1.000 s               1.012 s      12 ms",
		"  earlier   west-1  heat              none              2.000 s, was 5.000 s  2.500 s      500 ms",
		"  early     west-1  heat              1 s               3.000 s, was 9.000 s  2.900 s      too early !",
		"  foreign   west-1  heat              2 s               4.000 s               4.000 s      not by us !",
		"  new       west-1  heat              60 s              63.500 s              not due yet  -",
		"  stays     west-1  heat              for ever          never                 stayed       -",
	}
	if diff := cmp.Diff(want, tableOf(rows, line, after(8), afterAct)); diff != "" {
		t.Error(diff)
	}
}

func TestTableOfAnUntaintSaysWhatWasCancelled(t *testing.T) {
	line := script(0.0, []corev1.Taint{noExecute(maintenance)}, 2.0, []corev1.Taint(nil))
	rows := rowsOf(rule, []sighting{sightingOf("calm", west1, forSeconds(maintenance, 4)), sightingOf("settled", west1, forEver(maintenance))}, west1, line)
	want := []string{
		"  POD      NODE    TAINT        TOLERATION  DUE          LEFT AT  LATENESS",
		"  calm     west-1  maintenance  4 s         was 4.000 s  stays    -",
		"  settled  west-1  maintenance  for ever    never        stays    -",
	}
	if diff := cmp.Diff(want, tableOf(rows, line, after(3), duringAct)); diff != "" {
		t.Error(diff)
	}
}

func TestTableOfAnActCountsDown(t *testing.T) {
	rows, line := maintained(sightingOf("hasty", west1, forSeconds(maintenance, 2)), sightingOf("fragile", west1))
	want := []string{
		"  POD      NODE    TAINT        TOLERATION  DUE      LEFT AT   LATENESS",
		"  fragile  west-1  maintenance  none        0.000 s  now       -",
		"  hasty    west-1  maintenance  2 s         2.000 s  in 1.5 s  -",
	}
	if diff := cmp.Diff(want, tableOf(rows, line, after(0.5), duringAct)); diff != "" {
		t.Error(diff)
	}
}

func TestFillBreaksBetweenSentencesOnly(t *testing.T) {
	got := fill([]string{"One two.", "Three.", "Four five six seven."}, 16)
	if diff := cmp.Diff([]string{"One two. Three.", "Four five six seven."}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPlainScreenShowsFinalTablesOnly(t *testing.T) {
	var out bytes.Buffer
	s := plainScreen{&out}
	s.title("title")
	s.draw([]string{"header", "draft"})
	s.finish([]string{"header", "final"})
	if diff := cmp.Diff("title\nheader\nfinal\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLiveScreenDrawsInPlaceWhatFits(t *testing.T) {
	var out bytes.Buffer
	s := &liveScreen{plainScreen: plainScreen{&out}, size: func() (int, int, error) { return 8, 3, nil }}
	s.draw([]string{"header of the table", "line", "does not fit"})
	s.finish([]string{"header", "line", "fits now"})
	s.draw([]string{"next"})
	want := "\r\x1b[J\x1b[2mheader o\x1b[0m\nline\n" +
		"\x1b[2A\r\x1b[J\x1b[2mheader\x1b[0m\nline\nfits now\n" +
		"\r\x1b[J\x1b[2mnext\x1b[0m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
