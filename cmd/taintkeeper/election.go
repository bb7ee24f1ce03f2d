// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// electionLock is the Lease of the election. It is released only by the replica that holds it.
//
// When client-go's elector ends, it releases the Lease if it was the leader when it last looked. A process that was
// paused during a renewal does not know that another replica leads now, and would take the Lease from it.
type electionLock struct {
	resourcelock.Interface

	holder string // as it was last read
}

// connect makes the lock, as a manager would. The manager needs the lock first, and the lock records its events through
// the manager.
func (l *electionLock) connect(config *rest.Config, events recorder.Provider, o *options) error {
	lock, err := leaderelection.NewResourceLock(rest.CopyConfig(config), events, leaderelection.Options{
		LeaderElection:          o.elects(),
		LeaderElectionID:        o.election.name,
		LeaderElectionNamespace: o.election.namespace,
		RenewDeadline:           o.election.renewDeadline,
	})
	if lease, ok := lock.(*resourcelock.LeaseLock); ok { // nil without an election
		lease.Labels = o.leader().Labels(lock.Identity())
	}
	l.Interface = lock
	return err
}

// leader is what this process says about itself on the Lease while it leads. People and kubectl taintkeeper read it
// there, and not from the flags of pods: what runs is what a process does, which is not all that its flags ask for.
func (o *options) leader() *v1alpha1.Leader {
	leader := &v1alpha1.Leader{Version: labelOf(version), Controllers: o.running(), Coexists: o.coexist}
	if o.enabled(controllerNodeHealth) {
		leader.MonitorGrace = o.nodeHealth.Grace().Monitor
	}
	return leader
}

// labelOf returns a version as the value of a label, or "" if it cannot be one.
func labelOf(version string) string {
	value := strings.NewReplacer("(", "", ")", "", "+", "_").Replace(version)
	if len(validation.IsValidLabelValue(value)) > 0 {
		return ""
	}
	return value
}

// Get implements resourcelock.Interface.
func (l *electionLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update implements resourcelock.Interface. The elector reads the Lease just before it releases it, and the update
// fails if the Lease has changed since.
func (l *electionLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return fmt.Errorf("%s has the Lease now", l.holder)
	}
	return l.Interface.Update(ctx, record)
}
