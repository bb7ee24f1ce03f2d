// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// With -short, sweeps disturb one in so many calls and events.
const oneIn = 2

// playScene plays a scene that has a Hold, a pace and a breaker, each with pods of its own, with a process that begins
// in the given way, and whose calls or watches are disturbed. What is promised does not depend on that.
func playScene(t *testing.T, begins func(h *history), what func() string) {
	t.Helper()
	play(t, func(w *world) {
		h := newHistory(w)
		add := func(kind, node string, pods int) {
			for i := range pods {
				h.comes(fmt.Sprint(kind, "-", node, i), "default", node, map[string]string{"a": kind}, 2, false)
			}
		}
		add("db", "n", 1)
		add("web", "n", 3)
		add("app", "n", 2)
		add("web", "m", 1)
		add("app", "m", 1)
		for _, node := range []string{"n", "m"} {
			h.label(node, "1")
		}
		h.at = h.at[len(h.at)-1:]
		db, web, app := hold(40*sec), paceOf(1, 6*sec, ""), breakerOf(intstr.FromInt32(1))
		db.PodSelector, web.PodSelector, app.PodSelector = matching("a", "db"), matching("a", "web"), matching("a", "app")
		app.Breaker.Settle = &metav1.Duration{Duration: 4 * sec}
		h.policy("db", db, false, false)
		h.policy("web", web, false, false)
		h.policy("app", app, false, false)
		begins(h)
		for _, step := range []struct {
			at time.Duration
			do func()
		}{
			{8 * sec, func() { h.toggle("n", "x", 0) }},
			{20 * sec, func() { h.toggle("m", "x", 0) }},
			{27 * sec, func() { h.toggle("m", "x", 0) }},
			{35 * sec, func() { h.goes("app-n1") }},
			{60 * sec, func() { h.toggle("m", "x", 0) }},
		} {
			h.Until(step.at)
			step.do()
			h.look()
		}
		h.Until(5 * time.Minute)
		h.what = what()
		h.noteDeletes()
		h.judge()
		if len(h.left) != 7 {
			t.Errorf("%s: %d pods left, want all except the one that another client deleted: %v", h.what, len(h.left), h.left)
		}
	})
}

// noteDeletes notes which pods were deleted, except those that another client deleted.
func (h *history) noteDeletes() {
	for _, call := range h.Book.Calls() {
		name, deleted := strings.CutPrefix(call.What, "delete ")
		if _, others := h.gone[name]; !deleted || others && h.left[name].IsZero() {
			continue
		}
		if _, twice := h.left[name]; twice {
			h.T.Errorf("%s: pod %s is deleted again at %s", h.what, name, call.At)
		}
		h.left[name], h.gone[name] = h.Start.Add(call.At), h.Start.Add(call.At)
	}
}

func TestWhenTheProcessIsKilledAtAnyCallPoliciesHold(t *testing.T) {
	bubble.KillAtEveryCall(t, oneIn, func(t *testing.T, k *bubble.Killed) {
		playScene(t, func(h *history) {
			k.Lives(h.World, func(bubble.Request) bool { return true }, func(client *bubble.Slow) func(context.Context) error {
				h.core = client
				return h.process(func(c *eviction.Config) { c.Client, c.EventClient = client, h.Client })
			})
		}, k.String)
	})
}

func TestWhateverHappensToTheWatchesAtAnyEventPoliciesHold(t *testing.T) {
	bubble.DisturbEveryEvent(t, oneIn, func(t *testing.T, d *bubble.Disturbed) {
		playScene(t, func(h *history) {
			h.run()
			d.In(h.World)
		}, d.String)
	})
}
