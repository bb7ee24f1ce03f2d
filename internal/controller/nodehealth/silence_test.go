// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// mute returns a node whose kubelet has not posted anything since the node was made.
func mute(name string, made int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(after(made))}}
}

// called returns a node with the given name whose kubelet has posted a heartbeat.
func called(name string, heartbeat int) *corev1.Node {
	node := mute(name, -3600)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(after(heartbeat)),
	}}
	return node
}

// silence is when node n is called silent. At noon an echo came, and others come once a second.
type silence struct {
	at   func(r *records)         // noon; a heartbeat of n if it is nil
	then map[int]func(r *records) // after the echo of a second
	lost func(second int) bool    // the echo of a second does not come
	from int                      // n is silent from the echo of this second on, and not before
}

// heartbeat is what the watch of nodes brings of n: a heartbeat of a second.
func heartbeat(second int) func(r *records) {
	return func(r *records) { r.put(called("n", second), verdict.SeenAt(after(second)).Sight) }
}

// renewal is what the watch of leases brings at a second: that lease n was renewed, at a time of the kubelet's clock.
func renewalOf(name string, last, second int) func(r *records) {
	return func(r *records) {
		r.brought(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: after(last)}},
		}, after(second))
	}
}

// seen is what the watch of nodes brings: a node that never posted its status.
func seen(made int, sight verdict.Sight) func(r *records) {
	return func(r *records) { r.put(mute("n", made), sight) }
}

func both(first, second func(r *records)) func(r *records) {
	return func(r *records) { first(r); second(r) }
}

func TestWhenANodeIsSilent(t *testing.T) {
	now := verdict.SeenAt(noon).Sight
	another := called("n", 0)
	another.UID = "another"
	renewed := both(heartbeat(0), renewalOf("n", 0, 0))
	listed := func(r *records) { r.listed(map[string]bool{}) }
	at10 := func(what func(r *records)) map[int]func(r *records) { return map[int]func(r *records){10: what} }
	for name, test := range map[string]silence{
		"once its grace period is over by the clock of echoes": {from: 51},
		// The gap of an hour counts as 5 s.
		"after a gap that counts for little, and 20 s to be heard again": {
			lost: func(second int) bool { return second > 40 && second < 3640 }, from: 3660,
		},
		// Each of them counts as 5 s.
		"also when echoes come once a minute": {lost: func(second int) bool { return second%60 != 0 }, from: 900},
		"counted from a sign of life that came some seconds after the latest echo": {
			then: map[int]func(r *records){3: renewalOf("n", 3, 3)}, lost: func(second int) bool { return second < 4 }, from: 54,
		},
		"counted from its first sight": {
			at: func(*records) {}, then: map[int]func(r *records){5: func(r *records) {
				r.put(called("n", -1000), verdict.SeenAt(after(5)).Sight)
			}}, from: 56,
		},
		"if it never posted its status, counted from its creation": {at: seen(-8, now), from: 54}, // in the second that ended 7 s ago
		"if it was created in the future, counted from now":        {at: seen(3600, now), from: 61},
		// Nothing else tells when it was created.
		"no earlier because no Date was heard":                {at: seen(3600, verdict.Sight{At: noon, Latest: after(3600)}), from: 61},
		"no earlier because the API server is an hour ahead":  {at: seen(3600, verdict.Sight{At: noon, Earliest: after(3600), Latest: after(3600), Behind: noon}), from: 61},
		"no earlier because the API server is an hour behind": {at: seen(-3600, verdict.Sight{At: noon, Earliest: after(-3600), Latest: after(-3600), Behind: after(-3600)}), from: 61},
		"although some other part of the node has changed":    {at: renewed, then: at10(func(r *records) { r.put(called("n", 0), verdict.SeenAt(after(10)).Sight) }), from: 51},
		"although some other part of its lease has changed":   {at: renewed, then: at10(renewalOf("n", 0, 10)), from: 51},
		"although its lease was deleted":                      {at: renewed, then: at10(func(r *records) { r.forgetLease("n") }), from: 51},
		"counted from a heartbeat":                            {at: renewed, then: at10(heartbeat(10)), from: 61},
		"counted from a renewal":                              {at: renewed, then: at10(renewalOf("n", 10, 10)), from: 61},
		"counted from a renewal by a clock that was set":      {at: renewed, then: at10(renewalOf("n", -60, 10)), from: 61},
		"counted from when it was recreated under its name":   {at: renewed, then: at10(func(r *records) { r.put(another, verdict.SeenAt(after(10)).Sight) }), from: 61},
		// The watch of leases lags behind that of nodes. A heartbeat comes, and then all the echoes at once.
		"no earlier because a heartbeat came before late echoes": {at: both(heartbeat(0), heartbeat(60)), from: 111},
		"some time after a list lacked its lease, however often": {at: renewed, then: map[int]func(r *records){45: listed, 65: listed}, from: 66},
		"some time after this process became the leader, if it seemed silent": {
			then: map[int]func(r *records){45: func(r *records) { r.clock.giveExtraGrace() }}, from: 65,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := echoing()
			if test.at == nil {
				test.at = heartbeat(0)
			}
			test.at(r)
			for second := 1; second <= test.from; second++ {
				if test.lost == nil || !test.lost(second) {
					r.clock.echo(after(second))
				}
				if then := test.then[second]; then != nil {
					then(r)
				}
				if is := r.standing(r.of("n")); (is == readiness.Silent) != (second == test.from) {
					t.Fatalf("at second %d its standing is %d, want it silent from second %d on", second, is, test.from)
				}
			}
		})
	}
}

// echoing returns records whose clock has heard an echo at noon.
func echoing() *records {
	r := newRecords(defaultGrace, readiness.Policy{}, noon)
	r.clock.echo(noon)
	return r
}

// echoes lets an echo come in each second, from one on up to another.
func (r *records) echoes(from, to int) {
	for second := from; second <= to; second++ {
		r.clock.echo(after(second))
	}
}

func wantSilent(t *testing.T, r *records, now int, want ...string) {
	t.Helper()
	var got []string
	for m, is := range r.standings {
		if is == readiness.Silent {
			got = append(got, m.Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("after %d s these are silent: %q, want %q", now, got, want)
	}
}

func TestSilenceDoesNotCountWithoutNewEchoes(t *testing.T) {
	r := echoing()
	heartbeat(0)(r)
	r.echoes(1, 49)
	if r.clock.echo(after(48)) || r.clock.echo(after(49)) {
		t.Error("an old renewal is an echo")
	}
	wantSilent(t, r, 3600)
	if r.clock.freshAt(after(54)) || !r.clock.freshAt(after(53)) {
		t.Error("5 s after the latest echo it still counts, or does not before")
	}
}

func TestBeforeTheFirstEchoNoNodeIsSilent(t *testing.T) {
	r := newRecords(defaultGrace, readiness.Policy{}, noon)
	r.put(called("posted", -3600), verdict.SeenAt(noon).Sight)
	r.put(mute("mute", -3600), verdict.SeenAt(noon).Sight)
	wantSilent(t, r, 0)
	r.echoes(0, 0)
	wantSilent(t, r, 0, "mute")
}

func TestALeaderDoubtsNodesThatSeemSilent(t *testing.T) {
	r := echoing()
	heartbeat(0)(r)
	r.echoes(1, 60)
	r.clock.giveExtraGrace()
	if is := r.standing(r.of("n")); is != readiness.Doubtful {
		t.Errorf("a node whose grace period was over before is %v", is)
	}
	r.echoes(61, 80)
	wantSilent(t, r, 80, "n")
}

func TestAfterAFullDisruptionEveryNodeThatWasEverHeardIsHeardNow(t *testing.T) {
	r := echoing()
	r.put(mute("mute", 0), verdict.SeenAt(noon).Sight)
	heartbeat(0)(r)
	r.echoes(1, 70)
	wantSilent(t, r, 70, "mute", "n")
	r.restart(after(70))
	wantSilent(t, r, 70, "mute")
	renewalOf("mute", 71, 71)(r)
	r.restart(after(71))
	wantSilent(t, r, 71)
}
