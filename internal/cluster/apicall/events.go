// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

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
	broadcaster.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}})
	recorder := broadcaster.NewRecorder(scheme.Scheme, source)
	return &Recorder{EventRecorder: recorder, broadcaster: broadcaster, pods: newPodEvents(recorder)}
}

// Run returns when the context ends. Later events are dropped.
func (r *Recorder) Run(ctx context.Context) {
	r.pods.run(ctx)
	r.broadcaster.Shutdown()
}

// Fields of an event that client-go's recorder does not set. It carries them to the sink as annotations, which are
// never written. Events that client-go has combined have none.
const (
	fieldAction  = "action"
	fieldRelated = "related"
)

// fields returns the annotations for an action and the related object, both of which may be empty.
func fields(action string, related *corev1.ObjectReference) map[string]string {
	carried := map[string]string{}
	if action != "" {
		carried[fieldAction] = action
	}
	if related != nil {
		text, _ := json.Marshal(related) // it has only strings
		carried[fieldRelated] = string(text)
	}
	return carried
}

// sink writes the fields of events that annotations carry.
type sink struct{ record.EventSink }

// Create implements record.EventSink.
func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	event, err := withFields(event)
	if err != nil {
		return nil, err
	}
	return s.EventSink.Create(event)
}

// Patch implements record.EventSink. The patch raises the count of an event that has occurred before, and its fields
// become those of the last.
func (s sink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	event, err := withFields(event)
	if err != nil {
		return nil, err
	}
	if event.Action == "" && event.Related == nil {
		return s.EventSink.Patch(event, data)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("read the patch of event %s: %w", event.Name, err)
	}
	patch[fieldAction], patch[fieldRelated] = event.Action, event.Related
	if data, err = json.Marshal(patch); err != nil {
		return nil, fmt.Errorf("write the patch of event %s: %w", event.Name, err)
	}
	return s.EventSink.Patch(event, data)
}

// withFields returns a copy of an event with the fields that its annotations carry, and without these annotations.
func withFields(event *corev1.Event) (*corev1.Event, error) {
	filled := *event
	filled.Action = event.Annotations[fieldAction]
	if text, ok := event.Annotations[fieldRelated]; ok {
		if err := json.Unmarshal([]byte(text), &filled.Related); err != nil {
			return nil, fmt.Errorf("read the related object of event %s: %w", event.Name, err)
		}
	}
	filled.Annotations = maps.Clone(event.Annotations)
	delete(filled.Annotations, fieldAction)
	delete(filled.Annotations, fieldRelated)
	if len(filled.Annotations) == 0 {
		filled.Annotations = nil
	}
	return &filled, nil
}
