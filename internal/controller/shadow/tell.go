// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// eventEvery is how often there is an event of one kind on one node.
const eventEvery = time.Hour

// teller reports in the log, and with an event on the node once per kind and hour, that the built-in differs from the
// rule. It is not safe for concurrent use.
type teller struct {
	*apicall.Recorder

	log  logr.Logger
	told map[kindOnNode]time.Time
}

type kindOnNode struct {
	node    string
	outcome Outcome
}

func newTeller(log logr.Logger, client kubernetes.Interface) *teller {
	return &teller{Recorder: apicall.NewRecorder("taintkeeper", client), log: log, told: map[kindOnNode]time.Time{}}
}

// tell reports a difference.
func (t *teller) tell(d Difference, at time.Time) {
	t.log.Info("The built-in's eviction differs from what taints and tolerations require",
		"outcome", string(d.Outcome), "pod", klog.KRef(d.Namespace, d.Pod), "node", d.Node,
		"due", d.Due, "evicted", d.Evicted, "explanation", d.Sentence)
	kind := kindOnNode{d.Node, d.Outcome}
	if last, ok := t.told[kind]; ok && at.Sub(last) < eventEvery {
		return
	}
	maps.DeleteFunc(t.told, func(_ kindOnNode, last time.Time) bool { return at.Sub(last) >= eventEvery })
	t.told[kind] = at
	t.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: d.Node, UID: types.UID(d.Node)},
		corev1.EventTypeWarning, d.Outcome.eventReason(),
		"%s", v1alpha1.ShadowText(fmt.Sprintf("Pod %s/%s: %s.", d.Namespace, d.Pod, d.Sentence)))
}

// tell adds a difference to the report, logs it, and writes its event. The caller holds the lock.
func (ps *promises) tell(p *promise, outcome Outcome, why string, at time.Time) {
	d := ps.difference(p, outcome, why, at)
	ps.report.add(d)
	ps.teller.tell(d, at)
}
