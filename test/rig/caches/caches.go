// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package caches starts the caches that controllers share, for tests in virtual time.
package caches

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// Caches are the caches that the parts of a process share.
type Caches struct {
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
}

// New makes caches that watch through a client. neverStamped is explained at nodecache.Config.
func New(client kubernetes.Interface, clock *timeline.Clock, neverStamped bool) Caches {
	return Caches{
		Nodes: nodecache.New(nodecache.Config{Client: client, Clock: clock, NeverStamped: neverStamped}),
		Pods:  podcache.New(client, clock),
	}
}

// With returns what runs a controller and the caches that it uses, as one process: the caches end after the controller.
func (c Caches) With(controller func(context.Context) error) func(context.Context) error {
	var parts stage.Parts
	parts.InEveryReplica(c.Nodes.Run, c.Pods.Run)
	parts.InLeader(manager.RunnableFunc(controller))
	return parts.Run
}

// AddTo adds the caches to a replica.
func (c Caches) AddTo(replica *bubble.Replica) error {
	var parts stage.Parts
	parts.InEveryReplica(c.Nodes.Run, c.Pods.Run)
	return parts.AddTo(replica)
}
