// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
)

// strangeLooks is how many looks in a row must find a stranger before it is reported. Looks are one lease duration
// apart, so this takes twice the lease duration. A standby takes the Lease of a dead leader sooner.
const strangeLooks = 3

// holderWatch reports when the holder of the Lease is not a live replica. A client that may write the Lease can hold it
// under any identity, and then every replica stands by. controller-runtime's identities are HOSTNAME_UUID, and the
// hostname is the pod's name.
type holderWatch struct {
	client   kubernetes.Interface
	events   kubernetes.Interface
	pods     *podcache.Cache
	host     string
	election electionOptions
	elected  <-chan struct{}
	unknown  prometheus.Gauge
	log      logr.Logger
}

func (c *clients) newHolderWatch(
	pods *podcache.Cache, unknown prometheus.Gauge, log logr.Logger, o *options,
) *holderWatch {
	host, err := os.Hostname()
	if err != nil {
		host = "" // which names no pod
	}
	return &holderWatch{
		client: c.api, events: c.events, pods: pods, host: host,
		election: o.election, unknown: unknown, log: log,
	}
}

// AddTo adds it to a manager.
func (w *holderWatch) AddTo(mgr manager.Manager) error {
	w.elected = mgr.Elected()
	var parts stage.Parts
	parts.InEveryReplica(w.Run)
	return parts.AddTo(mgr)
}

// Run looks until the process leads or the context ends.
func (w *holderWatch) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	recorder := apicall.NewRecorder("taintkeeper", w.events)
	var recording sync.WaitGroup
	recording.Go(func() { recorder.Run(ctx) })
	defer recording.Wait()
	defer stop()
	defer w.unknown.Set(0)
	for looks := 0; ; {
		switch lease, err := w.stranger(ctx); {
		case err != nil:
			w.log.V(1).Info("Cannot find out who holds the Lease", "error", err.Error())
		case lease == nil:
			looks = 0
			w.unknown.Set(0)
		default:
			if looks++; looks == strangeLooks {
				w.tell(recorder, lease)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.elected:
			return nil
		case <-time.After(w.election.leaseDuration):
		}
	}
}

// stranger returns the Lease if, as far as this standby can tell, its holder is not a live replica. If our own hostname
// is not the name of a pod, hostnames tell us nothing. A terminating pod counts as live, because a leader keeps the
// Lease while it shuts down. A pod that has succeeded or failed does not. Nor does our own pod: an identity from before
// a restart of its container has expired before this is reported.
func (w *holderWatch) stranger(ctx context.Context) (*coordinationv1.Lease, error) {
	if !w.pods.HasSynced() {
		return nil, nil
	}
	ctx, done := context.WithTimeout(ctx, w.election.renewDeadline)
	defer done()
	lease, err := w.client.CoordinationV1().Leases(w.election.namespace).Get(ctx, w.election.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	name, _, _ := strings.Cut(holder, "_")
	var ours, theirs bool
	w.pods.Each(func(pod *podcache.Pod) {
		if pod.Namespace == w.election.namespace {
			ours = ours || pod.Name == w.host
			theirs = theirs || pod.Name == name && !pod.Flags.Has(podcache.Finished)
		}
	})
	if holder == "" || !ours || theirs && name != w.host {
		return nil, nil
	}
	return lease, nil
}

func (w *holderWatch) tell(recorder *apicall.Recorder, lease *coordinationv1.Lease) {
	w.unknown.Set(1)
	w.log.Info("The holder of the Lease is not a live replica, so no replica can lead", "holder", *lease.Spec.HolderIdentity)
	reference := &corev1.ObjectReference{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID,
	}
	recorder.Eventf(reference, corev1.EventTypeWarning, v1alpha1.EventUnknownHolder,
		"%s holds the Lease and is not a live replica, so no replica can lead", *lease.Spec.HolderIdentity)
}
