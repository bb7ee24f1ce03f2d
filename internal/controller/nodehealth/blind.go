// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"time"
)

// blindAfter is how long after the last echo this process reports that it is blind and not ready. It calls no node
// silent until the next echo.
const blindAfter = time.Minute

// checkBlindnessEvery is how often that is checked.
const checkBlindnessEvery = 10 * time.Second

// Ready returns why no node can be considered silent at present. It returns nil if nodes can be, or could be until less
// than blindAfter ago.
func (k *Keeper) Ready() error {
	if since := k.records.sinceEcho(k.config.Clock.Now()); since > blindAfter {
		return fmt.Errorf("no renewal of our own lease %s in kube-node-lease has come back on the watch for %s, so no node is considered silent; see docs/node-health.md",
			ownLease(k.config.DryRun), since.Truncate(time.Second))
	}
	return nil
}

// tellBlindness logs and writes an event when this process can no longer detect silence, and when it can again, until
// the context ends.
func (k *Keeper) tellBlindness(ctx context.Context) {
	ticker := time.NewTicker(checkBlindnessEvery)
	defer ticker.Stop()
	blind := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		why := k.Ready()
		if was := blind; was == (why != nil) {
			continue
		}
		blind = why != nil
		if blind {
			k.config.Logger.Info("Node health is blind: its own Lease renewals do not arrive on the watch", "why", why.Error())
		} else {
			k.config.Logger.Info("Node health is no longer blind: its own Lease renewals arrive on the watch again")
		}
		if k.looks.started() {
			k.events.blindness(why)
		}
	}
}
