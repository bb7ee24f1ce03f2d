// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Recorder records events, and writes them in the background. Make one with [NewRecorder].
type Recorder struct {
	record.EventRecorder

	broadcaster record.EventBroadcaster
	pods        *podEvents
}

// NewRecorder makes a Recorder of events with a component as their source. The caller runs it. Everything that is
// recorded from now on is written.
func NewRecorder(component string, client kubernetes.Interface) *Recorder {
	broadcaster := record.NewBroadcaster()
	source := corev1.EventSource{Component: component}
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, source)
	return &Recorder{EventRecorder: recorder, broadcaster: broadcaster, pods: newPodEvents(recorder)}
}

// Run returns when the context ends. Later events are dropped.
func (r *Recorder) Run(ctx context.Context) {
	r.pods.run(ctx)
	r.broadcaster.Shutdown()
}
