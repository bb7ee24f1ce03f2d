// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetaintrule

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func TestThePlanIsAsBefore(t *testing.T) {
	tainted, held, refused := 0, 0, 0
	for seed := range uint64(200_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		yes := func(n int) bool { return r.IntN(n) == 0 }
		object := aRule(func(o *v1alpha1.NodeTaintRule) {
			o.Spec.After = metav1.Duration{Duration: time.Duration(r.IntN(20)) * time.Second}
			o.Spec.ClearAfter = metav1.Duration{Duration: time.Duration(r.IntN(20)) * time.Second}
			o.Spec.DryRun = yes(4)
			switch r.IntN(3) {
			case 0:
				most := intstr.FromInt32(int32(r.IntN(5)))
				o.Spec.MaxTainted = &most
			case 1:
				most := intstr.FromString(fmt.Sprint(r.IntN(101), "%"))
				o.Spec.MaxTainted = &most
			}
		})
		ru := newRule(object, ruling{reason: v1alpha1.ReasonAccepted}, yes(5))
		ru.frozen = yes(8)
		now := after(100)
		old, is := map[string]*place{}, map[string]*place{}
		blocked := map[string]bool{}
		var doubts []string
		for i := range r.IntN(8) {
			name := fmt.Sprint("n", i)
			p := place{
				facts: facts{selected: !yes(4), holds: !yes(3), labelled: yes(3)},
				since: after(100 - r.IntN(30)), owned: yes(3), wanted: yes(3), changed: yes(2),
			}
			if p.owned {
				p.standing = ru.text
			}
			if yes(4) {
				p.refusal = &refusal{at: after(100 - r.IntN(90)), why: name}
			}
			q := p
			old[name], is[name] = &p, &q
			blocked[name] = yes(6)
			if yes(4) {
				doubts = append(doubts, name)
			}
		}
		if yes(10) {
			doubts = append(doubts, "gone")
		}
		selected := len(is) + r.IntN(3)
		isBlocked := func(name string, _ *place) bool { return blocked[name] }
		o := oldPlan(ru, selected, old, doubts, isBlocked, now)
		p := planning{rule: ru, now: now, blocked: isBlocked}
		n := p.plan(selected, is, doubts)
		if fmt.Sprint(o) != fmt.Sprint(n) || !reflect.DeepEqual(old, is) {
			t.Fatalf("seed %d: %+v, was %+v", seed, n, o)
		}
		tainted, held, refused = tainted+n.tainted, held+n.held, refused+n.refused
	}
	t.Log(tainted, held, refused)
}
