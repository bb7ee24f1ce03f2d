// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"time"
)

// deafAfter is how long there has been no echo when this process is not ready, and says so: no node is called silent
// meanwhile.
const deafAfter = time.Minute

// lookForDeafness is how often it is found out.
const lookForDeafness = 10 * time.Second

// Ready returns why no node can be called silent at present; nil if nodes can be, or there was only a short time
// without.
func (k *Keeper) Ready() error {
	if since := k.records.sinceEcho(k.config.Clock.Now()); since > deafAfter {
		return fmt.Errorf("no renewal of our own lease %s in kube-node-lease has come back on the watch for %s, so no node is called silent; see docs/node-health.md",
			ownLease(k.config.DryRun), since.Truncate(time.Second))
	}
	return nil
}

// tellDeafness says when this process cannot tell silence any more, and when it can again, until the context ends.
func (k *Keeper) tellDeafness(ctx context.Context) {
	ticker := time.NewTicker(lookForDeafness)
	defer ticker.Stop()
	deaf := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		why := k.Ready()
		if was := deaf; was == (why != nil) {
			continue
		}
		deaf = why != nil
		if deaf {
			k.config.Logger.Info("Node health is blind: own Lease renewals do not arrive on the watch", "why", why.Error())
		} else {
			k.config.Logger.Info("Node health is no longer blind: own Lease renewals arrive on the watch again")
		}
		if k.looks.started() {
			k.events.deafness(why)
		}
	}
}
