// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

func TestAWrongClockIsWrongUntilItIsSetAgain(t *testing.T) {
	l := newLedger()
	l.wind("a", time.Minute, sec(1))
	l.wind("b", -time.Second, sec(2))
	l.wind("a", -time.Minute, sec(3))
	l.wind("a", 0, sec(4))
	want := []skew{
		{span: oracle.Between(sec(1), sec(3)), replica: "a", offset: time.Minute},
		{span: oracle.Between(sec(2), distantFuture), replica: "b", offset: -time.Second},
		{span: oracle.Between(sec(3), sec(4)), replica: "a", offset: -time.Minute},
	}
	if got := l.page().skews; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAClockIsWrongByMinutesOrSecondsAheadOrBehind(t *testing.T) {
	k := &timekeeper{random: rand.New(rand.NewPCG(1, 1)), farthest: 5 * time.Minute}
	drawn := map[string]bool{}
	for range 1000 {
		offset := k.offset()
		drawn[map[bool]string{true: "ahead", false: "behind"}[offset > 0]] = true
		if offset.Abs() < 2*time.Second || offset.Abs() > k.farthest+2*time.Second {
			t.Errorf("%s", offset)
		}
		drawn[map[bool]string{true: "by all", false: "by less"}[offset.Abs() == k.farthest]] = true
	}
	if len(drawn) != 4 {
		t.Errorf("only %v", drawn)
	}
}
