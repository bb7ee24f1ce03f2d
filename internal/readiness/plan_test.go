// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// nodeWith returns a node whose conditions have had these statuses for an hour.
func nodeWith(statuses map[corev1.NodeConditionType]corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	for kind, status := range statuses {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Told", LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		})
	}
	return node
}

// after is the instant that many seconds after noon.
func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestTheConditionsOfASilentNodeBecomeUnknown(t *testing.T) {
	ready := map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		node     map[corev1.NodeConditionType]corev1.ConditionStatus
		standing Standing
		unknown  []corev1.NodeConditionType
	}{
		"it was ready": {ready, Silent, kubeletConditions},
		"it is heard":  {ready, Heard, nil},
		"it was not ready, according to its kubelet": {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}, Silent, kubeletConditions},
		"it never posted":                     {nil, Silent, kubeletConditions},
		"Unknown already, whatever else":      {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionUnknown, corev1.NodeDiskPressure: corev1.ConditionTrue}, Silent, nil},
		"what is Unknown already is left out": {map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue, corev1.NodeDiskPressure: corev1.ConditionUnknown}, Silent, []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodePIDPressure}},
	} {
		t.Run(name, func(t *testing.T) {
			var unknown []corev1.NodeConditionType
			for _, c := range (Facts{Node: nodeWith(test.node), Standing: test.standing, Fresh: true, Now: noon}).Plan().Conditions {
				unknown = append(unknown, c.Type)
				if c.Status != corev1.ConditionUnknown || !c.LastTransitionTime.Time.Equal(noon) {
					t.Errorf("condition %+v, want it Unknown since now", c)
				}
			}
			if !slices.Equal(unknown, test.unknown) {
				t.Errorf("%q change, want %q", unknown, test.unknown)
			}
		})
	}
}

func TestNetworkUnavailableIsTheControlPlanesAndStays(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeNetworkUnavailable: corev1.ConditionFalse,
	})
	for _, c := range (Facts{Node: node, Standing: Silent, Fresh: true, Now: noon}).Plan().Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			t.Errorf("changed: %+v", c)
		}
	}
}

func TestAConditionThatWasPostedKeepsItsHeartbeatAndOneThatNeverWasHasTheNodesCreation(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue})
	for _, c := range (Facts{Node: node, Standing: Silent, Fresh: true, Now: noon}).Plan().Conditions {
		want, reason := node.CreationTimestamp.Time, "NodeStatusNeverUpdated"
		if c.Type == corev1.NodeReady {
			want, reason = noon, "NodeStatusUnknown"
		}
		if !c.LastHeartbeatTime.Time.Equal(want) || c.Reason != reason {
			t.Errorf("%s: heartbeat %s and reason %s, want %s and %s", c.Type, c.LastHeartbeatTime, c.Reason, want, reason)
		}
	}
}

func TestTheNoExecuteTaintOfANode(t *testing.T) {
	const (
		none    = ""
		away    = corev1.TaintNodeUnreachable
		unready = corev1.TaintNodeNotReady
	)
	type c struct {
		ready              corev1.ConditionStatus // none: it was never posted
		has                string
		granted, disrupted bool
		standing           Standing
		want               string
		asks               bool
		unfresh, stale     bool // it is not known now which nodes are silent
	}
	for name, test := range map[string]c{
		"ready":                                    {ready: "True", want: none},
		"ready again":                              {ready: "True", has: away, want: none},
		"never posted":                             {has: none, want: none},
		"never posted, and tainted":                {has: unready, want: unready},
		"an unknown status":                        {ready: "Maybe", has: away, want: away},
		"not ready, waits":                         {ready: "False", want: none, asks: true},
		"not ready, with its token":                {ready: "False", granted: true, want: unready},
		"Unknown, waits":                           {ready: "Unknown", want: none, asks: true},
		"Unknown, with its token":                  {ready: "Unknown", granted: true, want: away},
		"one for the other":                        {ready: "Unknown", has: unready, want: away},
		"has it":                                   {ready: "False", has: unready, want: unready},
		"every zone is disrupted":                  {ready: "Unknown", has: away, disrupted: true, want: none, asks: true},
		"every zone is disrupted, granted before":  {ready: "Unknown", granted: true, disrupted: true, want: none, asks: true},
		"silent, and its status cannot be written": {ready: "True", standing: Doubtful, want: none},
		"the same, tainted":                        {ready: "True", has: away, standing: Doubtful, want: away},
		"the same, not ready before, according to its kubelet": {ready: "False", standing: Doubtful, granted: true, want: unready},
		"Unknown, and that may be wrong":                       {ready: "Unknown", granted: true, want: none, unfresh: true, stale: true},
		"the same, tainted not-ready":                          {ready: "Unknown", has: unready, want: unready, unfresh: true, stale: true},
		"the same, tainted already":                            {ready: "Unknown", has: away, want: away, unfresh: true},
		"not ready according to its kubelet is not silence":    {ready: "False", granted: true, want: unready, unfresh: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(nil)
			if test.ready != "" {
				node = nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: test.ready})
			}
			if test.has != none {
				node.Spec.Taints = []corev1.Taint{{Key: test.has, Effect: corev1.TaintEffectNoExecute}}
			}
			p := Facts{Node: node, Granted: test.granted, Disrupted: test.disrupted, Standing: test.standing, Fresh: !test.unfresh, Now: noon}.Plan()
			got := strings.Join(noExecuteKeys(&corev1.Node{Spec: corev1.NodeSpec{Taints: p.Taints}}), " ")
			if got != test.want || p.Asks != test.asks || p.Stale != test.stale {
				t.Errorf("taint %q, asks for a token: %t, stale: %t; want %q, %t, %t", got, p.Asks, p.Stale, test.want, test.asks, test.stale)
			}
			comes, first := got != none && got != test.has, test.has == none
			if p.Executes != comes || p.Takes != (comes && first) {
				t.Errorf("a NoExecute taint comes: %t, for a token: %t", p.Executes, p.Takes)
			}
		})
	}
}

func TestAPlanWithOtherTaintsOrLabelsIsWritten(t *testing.T) {
	linux := "linux"
	for name, test := range map[string]struct {
		plan Plan
		want bool
	}{
		"neither": {Plan{}, false},
		"taints":  {Plan{Retaints: true}, true},
		"labels":  {Plan{Labels: map[string]*string{"os": &linux}}, true},
	} {
		if got := test.plan.Writes(); got != test.want {
			t.Errorf("%s: written: %t, want %t", name, got, test.want)
		}
	}
}

func TestTheBetaLabelsFollowTheStableOnes(t *testing.T) {
	const stable, beta = corev1.LabelOSStable, "beta.kubernetes.io/os"
	for name, test := range map[string]struct {
		labels map[string]string
		want   string // none: it is not set
	}{
		"none has it":              {nil, ""},
		"only the stable one":      {map[string]string{stable: "linux"}, "linux"},
		"the stable one is empty":  {map[string]string{stable: "", beta: "linux"}, ""},
		"another value":            {map[string]string{stable: "linux", beta: "windows"}, "linux"},
		"they are equal":           {map[string]string{stable: "linux", beta: "linux"}, ""},
		"only the beta one, stays": {map[string]string{beta: "linux"}, ""},
	} {
		node := readyNode("n")
		node.Labels = test.labels
		got := Facts{Node: node, Fresh: true, Now: noon}.Plan().Labels
		if value := got[beta]; value == nil && test.want != "" || value != nil && *value != test.want {
			t.Errorf("%s: %v are set, want %q", name, got, test.want)
		}
	}
}

func TestConditionsReplaceThoseOfTheirTypeAndLeaveTheOthers(t *testing.T) {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeDiskPressure: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
	})
	var unknown []corev1.NodeCondition
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodePIDPressure, corev1.NodeMemoryPressure} {
		unknown = append(unknown, corev1.NodeCondition{Type: kind, Status: corev1.ConditionUnknown})
	}
	changed := WithConditions(node, unknown)
	for _, c := range unknown {
		if got := Condition(changed, c.Type); got == nil || got.Status != corev1.ConditionUnknown {
			t.Errorf("condition %s is %v, want it Unknown", c.Type, got)
		}
	}
	if disk := Condition(changed, corev1.NodeDiskPressure); disk.Status != corev1.ConditionTrue || len(changed.Status.Conditions) != 4 || !IsReady(node) {
		t.Errorf("conditions %v of %v", changed.Status.Conditions, node.Status.Conditions)
	}
}
