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
}

// NewRecorder makes a Recorder of events that say they come from a component. Whoever makes one also runs it.
func NewRecorder(component string) *Recorder {
	broadcaster := record.NewBroadcaster()
	source := corev1.EventSource{Component: component}
	return &Recorder{EventRecorder: broadcaster.NewRecorder(scheme.Scheme, source), broadcaster: broadcaster}
}

// Run sends the events to the API server until the context ends. Events of later are dropped.
func (r *Recorder) Run(ctx context.Context, client kubernetes.Interface) {
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	<-ctx.Done()
	r.broadcaster.Shutdown()
}
