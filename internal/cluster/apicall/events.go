// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
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

// EventsPerSecond bounds the writing of events, so that events do not compete with the evictions that they report: an
// event costs the API server about as much as a delete. The value is upstream's default for all its calls.
const EventsPerSecond = 20

const (
	// podEventsAtOnce is how many events of pods are recorded in one burst. client-go's recorder queues that many, and
	// drops the rest without logging it.
	podEventsAtOnce = 1000
	// podEventsPerSecond leaves the other half to another Recorder that writes with the same client.
	podEventsPerSecond = EventsPerSecond / 2
	// summarizeEvery is how long events are counted before they are reported.
	summarizeEvery = 10 * time.Second
)

// podEvents records events of pods. In a storm it counts them by node, and one event of the node says how many there
// were, so that none is lost without a trace. It is safe for concurrent use.
type podEvents struct {
	recorder record.EventRecorder
	limiter  *rate.Limiter
	news     chan struct{} // signals that something was counted

	mu      sync.Mutex
	counted map[summary]*tally
}

// summary is what pod events have in common that one event of their node can report.
type summary struct{ node, kind, reason, format string }

// tally is how many events a summary reports, and the text, the action and the pod of the last.
type tally struct {
	number       int
	text, action string
	pod          *corev1.ObjectReference
}

func newPodEvents(recorder record.EventRecorder) *podEvents {
	return &podEvents{
		recorder: recorder,
		limiter:  rate.NewLimiter(podEventsPerSecond, podEventsAtOnce),
		news:     make(chan struct{}, 1),
		counted:  map[summary]*tally{},
	}
}

// PodEvent says what an event of a pod is about.
type PodEvent struct {
	Pod    *corev1.ObjectReference
	Node   string // to which the pod is bound; the event's related object
	Action string // the event's action; may be empty, and has at most 128 bytes
	Type   string
	Reason string
}

// OfPod records an event of a pod. In a storm it counts the event instead, and an event of the node follows, whose
// related object is the last of the pods.
func (r *Recorder) OfPod(event PodEvent, format string, args ...any) {
	r.pods.record(event, summary{event.Node, event.Type, event.Reason, format}, fmt.Sprintf(format, args...))
}

// record records an event, or counts it. Once one event is counted, so are all, until all nodes have been reported.
func (p *podEvents) record(event PodEvent, of summary, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.counted) == 0 && p.limiter.Allow() {
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: event.Node}
		p.recorder.AnnotatedEventf(event.Pod, fields(event.Action, node), of.kind, of.reason, "%s", text)
		return
	}
	if p.counted[of] == nil {
		p.counted[of] = &tally{}
	}
	p.counted[of].number++
	p.counted[of].text, p.counted[of].action, p.counted[of].pod = text, event.Action, event.Pod
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// run reports what was counted, until the context ends.
func (p *podEvents) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		}
		for left := true; left; left = p.tell() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(summarizeEvery):
			}
		}
	}
}

// tell writes events of as many nodes as there is room for, and reports whether some are left.
func (p *podEvents) tell() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, tally := range p.counted {
		if !p.limiter.Allow() {
			return true
		}
		// Like the kubelet's, an event of a node has the node's name as its UID; kubectl describe shows both kinds.
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: of.node, UID: types.UID(of.node)}
		p.recorder.AnnotatedEventf(node, fields(tally.action, tally.pod), of.kind, of.reason,
			"%s on this Node: %s", sentence.Agree(tally.number, "1 event about a Pod",
				sentence.Counted(tally.number, "event")+" like this one, about Pods"), tally.text)
		delete(p.counted, of)
	}
	return false
}
