// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// observe counts the pods that the built-in marks, and warns of one that it marks although the clock is renewed.
func (k *Keeper) observe(change podcache.Change) {
	if !newlyMarked(change) {
		return
	}
	if !k.fresh() {
		k.metrics.foreignMarks.WithLabelValues(clockStale).Inc()
		return
	}
	k.metrics.foreignMarks.WithLabelValues(clockFresh).Inc()
	k.config.Logger.Info("kube-controller-manager has marked a pod for eviction although the eviction clock is being renewed; check that the ValidatingAdmissionPolicy taintkeeper-coexistence (taintkeeper-coexistence.NAMESPACE outside kube-system) and its binding exist",
		"pod", klog.KRef(change.After.Namespace, change.After.Name), "node", change.After.Node)
}

func newlyMarked(change podcache.Change) bool {
	return change.Before != nil && change.After != nil &&
		!change.Before.Flags.Has(podcache.MarkedByBuiltIn) && change.After.Flags.Has(podcache.MarkedByBuiltIn)
}
