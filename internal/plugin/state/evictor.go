// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Evictor is who evicts the pods of a cluster. Commands decide by its rule: kube-controller-manager's if nobody else
// evicts, and otherwise Taintkeeper's, which is also the rule if it is not known who evicts. The zero value means that
// nobody asked.
type Evictor struct {
	Who cliv1alpha1.Who
	// Began is when the leader of kube-controller-manager began to lead. All its countdowns count from then or later.
	// It is zero if that is not known.
	Began time.Time
	// Idle says that Taintkeeper does not evict, and what that means. It is empty if Taintkeeper evicts, or if it is
	// not known and means nothing.
	Idle string
}

// timers is kube-controller-manager's rule.
var timers = builtin.Timers{Rule: Rule}

// IsBuiltIn reports whether kube-controller-manager evicts, and Taintkeeper does not.
func (e Evictor) IsBuiltIn() bool { return e.Who == cliv1alpha1.WhoBuiltIn }

// By returns who evicts, for a report; empty if it is not known.
func (e Evictor) By() cliv1alpha1.Who {
	if e.Who == cliv1alpha1.WhoUnknown {
		return ""
	}
	return e.Who
}

// Decide returns when a pod must leave a node that has had these taints, and no others, since they count.
func (e Evictor) Decide(pod verdict.Pod, taints []verdict.Taint) verdict.Verdict {
	if e.IsBuiltIn() {
		return timers.Replay(pod, taints, e.Began)
	}
	return Rule.Decide(pod, taints)
}

// Change returns when a pod must leave after its tolerations or the taints of its node have changed at an instant, to
// those given. Before is the verdict until then.
func (e Evictor) Change(
	before verdict.Verdict, pod verdict.Pod, taints []verdict.Taint, now time.Time,
) verdict.Verdict {
	if e.IsBuiltIn() {
		return timers.Look(before, pod, taints, now)
	}
	return Rule.Decide(pod, taints)
}

// Forgot reports whether kube-controller-manager has tried in vain to evict a pod that is still there, and tries again
// only after the next change.
func (e Evictor) Forgot(is verdict.Verdict, now time.Time) bool {
	return e.IsBuiltIn() && timers.Forgot(is, now)
}

// SameNoExecute reports whether two versions of a node have the same NoExecute taints, so that kube-controller-manager
// does not look at its pods.
func SameNoExecute(a, b []corev1.Taint) bool {
	return equality.Semantic.DeepEqual(taints.NoExecute(a), taints.NoExecute(b))
}

// Comparison counts the pods with which Taintkeeper would do something else than kube-controller-manager does.
type Comparison struct{ stay, leave, earlier, later int }

// Add adds what kube-controller-manager does with a pod, and what Taintkeeper would do. Times that the API records to
// the second may differ by one.
func (c *Comparison) Add(is, ours verdict.Verdict) {
	switch {
	case is.Leaves && !ours.Leaves:
		c.stay++
	case ours.Leaves && !is.Leaves:
		c.leave++
	case is.Due.Sub(ours.Due) > time.Second:
		c.earlier++
	case ours.Due.Sub(is.Due) > time.Second:
		c.later++
	}
}

// Notes says how many pods there are, and what Taintkeeper would do.
func (c *Comparison) Notes() []string {
	var parts []string
	for _, part := range []struct {
		pods int
		does string
	}{{c.stay, "stay"}, {c.leave, "leave"}, {c.earlier, "leave earlier"}, {c.later, "leave later"}} {
		if part.pods > 0 {
			parts = append(parts, fmt.Sprintf("%d would %s", part.pods, part.does))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	pods := c.stay + c.leave + c.earlier + c.later
	return []string{"With Taintkeeper it would be different for " + sentence.Counted(pods, "pod") + ": " +
		strings.Join(parts, ", ") + "."}
}
