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

// NewRecorder makes a Recorder of events that say they come from a component. Whoever makes one also runs it.
func NewRecorder(component string) *Recorder {
	broadcaster := record.NewBroadcaster()
	source := corev1.EventSource{Component: component}
	recorder := broadcaster.NewRecorder(scheme.Scheme, source)
	return &Recorder{EventRecorder: recorder, broadcaster: broadcaster, pods: newPodEvents(recorder)}
}

// Run sends the events to the API server until the context ends. Events of later are dropped.
func (r *Recorder) Run(ctx context.Context, client kubernetes.Interface) {
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	r.pods.run(ctx)
	r.broadcaster.Shutdown()
}
