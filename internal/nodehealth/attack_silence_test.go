// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// The silence of before a renewal wrote its node's sign tells the same of random histories.
func TestSilenceIsAsBefore(t *testing.T) {
	steps, differ := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := time.Now()
		grace := readiness.Grace{Monitor: 50 * time.Second, Startup: 60 * time.Second}
		a, b := newSilence(grace, now), newOldSilence(grace, now)
		beats, uids, renewals := map[string]int{}, map[string]int{}, map[string]int{}
		pending := []time.Time{}
		for range 150 {
			steps++
			now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			if r.IntN(20) == 0 {
				now = now.Add(time.Duration(r.IntN(40)) * time.Second)
			}
			name := fmt.Sprint("n", r.IntN(4))
			var did string
			switch r.IntN(12) {
			case 0, 1:
				pending = append(pending, now)
				did = "begin"
			case 2, 3, 4:
				if len(pending) == 0 {
					continue
				}
				at := pending[r.IntN(len(pending))]
				did = "echo"
				if x, y := a.echo(at), b.echo(at); x != y {
					t.Fatal("echo")
				}
			case 5, 6, 7:
				if r.IntN(3) > 0 {
					beats[name]++
				}
				if r.IntN(6) == 0 {
					uids[name]++
				}
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint(uids[name])), CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(r.IntN(100)) * time.Second))}}
				if r.IntN(4) > 0 {
					node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(time.Unix(int64(beats[name]), 0))}}
				}
				did = "saw " + name
				a.saw(node, now)
				b.saw(node, now)
			case 8, 9:
				if r.IntN(4) > 0 {
					renewals[name] += r.IntN(3) - 1
				}
				last := time.Unix(int64(renewals[name]), 0)
				did = "renewed " + name
				a.renewed(name, last, now)
				b.renewed(name, last, now)
			case 10:
				switch r.IntN(4) {
				case 0:
					did = "forgetNode " + name
					a.forgetNode(name)
					b.forgetNode(name)
				case 1:
					did = "forgetLease " + name
					if _, ok := a.leases[name]; !ok { // nothing is deleted that was not there
						continue
					}
					a.forgetLease(name)
					b.forgetLease(name)
				case 2:
					there := map[string]bool{"n0": r.IntN(2) == 0, "n1": r.IntN(2) == 0, "n2": true}
					did = "listed"
					a.listed(there)
					b.listed(there)
				case 3:
					did = "forgive"
					a.forgive(now)
					b.forgive(now)
				}
			case 11:
				if r.IntN(5) == 0 {
					did = "lead"
					a.lead()
					b.lead()
				}
			}
			if x, y := a.all(), b.all(); !maps.Equal(x, y) {
				differ++
				t.Errorf("seed %d: after %s: %v, was %v", seed, did, x, y)
				break
			}
			if a.mostAreHeard(now) != b.mostAreHeard(now) || a.freshAt(now) != b.freshAt(now) {
				t.Fatal("heard")
			}
		}
		if differ > 5 {
			break
		}
	}
	t.Log(steps, "steps,", differ, "differ")
}
