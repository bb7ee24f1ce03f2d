// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

func TestTheStoryOfAPodHasEverythingInOrder(t *testing.T) {
	w := newWorld()
	w.tolerates(1, tolerating("off", 5))
	w.tainted(10, corev1.Taint{Key: "off", Value: "now", Effect: corev1.TaintEffectNoExecute})
	w.episodes = []episode{{span: oracle.Between(sec(11), sec(12)), what: "outage"}}
	w.evicts(14)
	story := w.story(thePod, theNode, sec(14), time.Time{})
	position := 0
	for _, want := range []string{
		"times in seconds from 12:00:14.000000", "[off Exists 5 s]", "off=now:NoExecute", "outage: begins", "outage: ends",
		"GET node node", "PATCH pod status", "DELETE pod default/pod uid uid-of-t, the API server answered 200, the replica received 200 after 6ms", "terminating or gone",
	} {
		next := indexFrom(story, want, position)
		if next < 0 {
			t.Fatalf("%q is not in its place in\n%s", want, story)
		}
		position = next
	}
	if over := w.story(thePod, theNode, sec(14).Add(-10*time.Minute), time.Time{}); indexFrom(over, "DELETE", 0) >= 0 {
		t.Errorf("the story of another time tells of this one:\n%s", over)
	}
	if delay := w.story(thePod, theNode, sec(1), sec(14)); indexFrom(delay, "DELETE", 0) < 0 {
		t.Errorf("the story of a delay does not reach its end:\n%s", delay)
	}
}

func indexFrom(text, wanted string, from int) int {
	found := strings.Index(text[from:], wanted)
	if found < 0 {
		return -1
	}
	return from + found
}
