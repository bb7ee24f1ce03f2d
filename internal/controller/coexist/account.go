// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/instant"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// ServiceAccount is the name of the ServiceAccount that carries the eviction clock. Nothing runs as it. It is a
	// ServiceAccount because every API server watches these anyway, so the policy finds it from the first request after a
	// start. It would not find a resource of our own (kubernetes/kubernetes#124237).
	ServiceAccount = v1alpha1.EvictionClock
	// Annotation is the eviction clock: the instant of the last renewal on the API server's clock, in RFC 3339.
	Annotation = v1alpha1.EvictionClockAnnotation
	// BacklogUntil is the instant until which the built-in may not mark some pods even if the clock is stale. Like
	// BacklogSince, it is on the API server's clock, in RFC 3339.
	BacklogUntil = v1alpha1.BacklogUntilAnnotation
	// BacklogSince is the earliest time at which such a pod was created, if its name can be reused.
	BacklogSince = v1alpha1.BacklogSinceAnnotation
	// BacklogSpared has the nodes on which it may mark no pod at all, separated by spaces; "*" means all nodes.
	BacklogSpared = v1alpha1.BacklogSparedAnnotation

	// DefaultKubeAPIQPS is kube-controller-manager's default for --kube-api-qps.
	DefaultKubeAPIQPS = 20
	// stallAfter is how long after the last accepted write the API server counts as stalled.
	stallAfter = 3 * renewEvery
)

// AccountConfig is what an Account needs.
type AccountConfig struct {
	Client kubernetes.Interface
	// Clock must observe the answers to Client.
	Clock *timeline.Clock
	// Nodes and Pods are the nodes and the bound pods. The caller runs these caches.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Namespace is where the ServiceAccount is.
	Namespace string
	// KubeAPIQPS is how many calls a second kube-controller-manager may make; zero means DefaultKubeAPIQPS.
	KubeAPIQPS float32
}

// Account is the ServiceAccount whose annotations, the eviction clock and the hold, tell the admission policy what the
// built-in may do. The hold makes it safe for this process to stop at any moment. It is safe for concurrent use.
type Account struct {
	config AccountConfig
	born   time.Time // since when this process has observed what the built-in does
	tries  *builtInTries
	spares chan struct{} // signals that the spared nodes have changed

	writing sync.Mutex // one write at a time; the fields below belong to the writer
	known   bool       // whether what another process wrote was read
	version string     // the ServiceAccount's resourceVersion

	mu       sync.Mutex
	hold     builtin.Hold
	written  builtin.Record
	sent     map[string]bool // what this process wrote, even if it got no answer
	accepted time.Time       // when the last write was
}

// NewAccount makes an Account. It makes no call by itself. From now on it follows what the built-in does, so it must be
// made before what evicts.
func NewAccount(config AccountConfig) *Account {
	qps := config.KubeAPIQPS
	if qps == 0 {
		qps = DefaultKubeAPIQPS
	}
	a := &Account{
		config: config,
		born:   config.Clock.Now(),
		spares: make(chan struct{}, 1),
		sent:   map[string]bool{},
		hold:   builtin.NewHold(qps),
	}
	a.tries = newBuiltInTries(config, a.extend)
	return a
}

// Decided implements eviction.BuiltIn.
func (a *Account) Decided(node string) time.Time { return a.tries.seeNode(node) }

// extend extends the hold by what the built-in does about a node.
func (a *Account) extend(by builtin.NodeTries) {
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold.Decided(by, at)
	if a.hold.Record(at).Spared != a.written.Spared {
		select {
		case a.spares <- struct{}{}:
		default: // it is known already
		}
	}
}

// Left records what is left on a node once nothing more is decided; see [builtin.Hold.Leave].
func (a *Account) Left(node string, pods int, since time.Time, stays bool) {
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold.Leave(node, pods, since, stays, at)
}

// Recorded implements eviction.BuiltIn.
func (a *Account) Recorded(ctx context.Context, node string, since time.Time) error {
	a.tries.seeNodeSince(node, since)
	return a.record(ctx)
}

// record returns once the API server has what is known about the built-in's backlog.
func (a *Account) record(ctx context.Context) error {
	if a.isRecorded() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.isRecorded() { // the previous writer has written it
		return nil
	}
	return a.write(ctx, nil)
}

func (a *Account) isRecorded() bool {
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written.Covers(a.hold.Record(at))
}

// Renew writes the eviction clock.
func (a *Account) Renew(ctx context.Context) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	return a.write(ctx, map[string]any{Annotation: a.config.Clock.Latest().UTC().Format(time.RFC3339)})
}

// HandBack removes the clock. Until the hold ends, the built-in still may not mark the pods that the hold covers.
func (a *Account) HandBack(ctx context.Context) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	return a.write(ctx, map[string]any{Annotation: nil})
}

// write writes the hold and the given annotations. After the API server was stalled, it writes a longer hold. The
// caller holds a.writing.
func (a *Account) write(ctx context.Context, annotations map[string]any) error {
	for {
		if !a.known {
			if err := a.read(ctx); err != nil {
				return err
			}
		}
		at := a.config.Clock.Now()
		a.mu.Lock()
		a.hold.Restarted(at)
		next := a.hold.Record(at)
		a.mu.Unlock()
		answer, err := a.patch(ctx, next, annotations)
		if apierrors.IsConflict(err) { // another process has written
			a.known = false
			continue
		}
		if err != nil {
			return err
		}
		if a.note(answer, next) {
			return nil
		}
	}
}

// note records that a record was written, and reports whether that is enough: after a stall it is not.
func (a *Account) note(answer *corev1.ServiceAccount, next builtin.Record) bool {
	a.version = answer.ResourceVersion
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.accepted.IsZero() && at.Sub(a.accepted) > stallAfter {
		a.hold.Stalled(a.accepted, at)
	}
	a.accepted = at
	if !next.Until.IsZero() {
		a.written = next
	}
	return a.written.Covers(a.hold.Record(at))
}

// read merges what the ServiceAccount has into the hold. It uses a patch that changes nothing, because that needs no
// right to get.
func (a *Account) read(ctx context.Context) error {
	answer, err := a.patch(ctx, builtin.Record{}, nil)
	if err != nil {
		return err
	}
	least, most := a.config.Clock.Ahead()
	found := moved(recordOf(answer.Annotations), least, most)
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sent[textOf(answer.Annotations)] { // what this process wrote itself is not news
		a.hold.Merge(found, at, a.born)
	}
	a.written = found
	a.known, a.version = true, answer.ResourceVersion
	return nil
}

// patch writes a record, if there is one, and annotations; a nil value removes an annotation. It writes only if the
// ServiceAccount has not changed since it was read.
func (a *Account) patch(
	ctx context.Context, r builtin.Record, annotations map[string]any,
) (*corev1.ServiceAccount, error) {
	all := map[string]any{}
	maps.Copy(all, annotations)
	if !r.Until.IsZero() {
		maps.Copy(all, a.annotationsOf(r))
	}
	body := map[string]any{}
	if len(all) > 0 {
		metadata := map[string]any{"annotations": all}
		if a.version != "" {
			metadata["resourceVersion"] = a.version
		}
		body["metadata"] = metadata
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the eviction clock: %w", err)
	}
	answer, err := a.config.Client.CoreV1().ServiceAccounts(a.config.Namespace).
		Patch(ctx, ServiceAccount, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ServiceAccount %s not found in namespace %s: apply config/coexistence.yaml, or set --coexist=false", ServiceAccount, a.config.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("write the eviction clock: %w", err)
	}
	return answer, nil
}

// annotationsOf returns the annotations of a record, on the API server's clock, and remembers that they were sent. If
// API servers' clocks differ, the hold is slightly too long, but within what the policy of every server accepts.
func (a *Account) annotationsOf(r builtin.Record) map[string]any {
	least, most := a.config.Clock.Ahead()
	until := instant.Earlier(r.Until.Add(most), a.config.Clock.Now().Add(least+builtin.Ahead))
	written := map[string]string{
		BacklogSince:  r.Since.Add(least).UTC().Format(time.RFC3339),
		BacklogUntil:  until.Add(time.Second - 1).UTC().Format(time.RFC3339),
		BacklogSpared: r.Spared,
	}
	const many = 1000
	a.mu.Lock()
	if len(a.sent) == many {
		clear(a.sent)
	}
	a.sent[textOf(written)] = true
	a.mu.Unlock()
	all := map[string]any{}
	for key, value := range written {
		all[key] = value
	}
	return all
}

// textOf returns the record of annotations, as text.
func textOf(annotations map[string]string) string {
	return annotations[BacklogSince] + " " + annotations[BacklogUntil] + " " + annotations[BacklogSpared]
}

// recordOf reads a record from annotations, on the API server's clock. One that cannot be read counts as none.
func recordOf(annotations map[string]string) builtin.Record {
	since, sinceErr := time.Parse(time.RFC3339, annotations[BacklogSince])
	until, untilErr := time.Parse(time.RFC3339, annotations[BacklogUntil])
	if errors.Join(sinceErr, untilErr) != nil {
		return builtin.Record{}
	}
	return builtin.Record{Since: since, Until: until, Spared: annotations[BacklogSpared]}
}

// moved returns a record that was read, moved to the timeline. The API server's clock is ahead of the timeline by
// between least and most, so the result holds slightly too much.
func moved(r builtin.Record, least, most time.Duration) builtin.Record {
	if r.Until.IsZero() {
		return r
	}
	r.Since, r.Until = r.Since.Add(-most), r.Until.Add(-least)
	return r
}

// Backlog describes the evictions that the built-in began while Taintkeeper kept it from carrying them out, and that
// are left.
type Backlog struct {
	// Until is the instant, on the API server's clock, at which the hold ends; zero if there is none.
	Until time.Time
	// Evictions is how many the built-in may still try, an upper bound.
	Evictions int
	// Spared are the names of the nodes with pods that were due and stay. If AllSpared, all nodes count as such.
	Spared    []string
	AllSpared bool
}

// Working returns how long the built-in will still try pods, as far as this process knows. It may have restarted
// meanwhile, and try all due pods again.
func (a *Account) Working() time.Duration {
	at := a.config.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hold.Working(at)
}

// Backlog returns the built-in's backlog as this process knows it.
func (a *Account) Backlog() Backlog {
	at := a.config.Clock.Now()
	_, most := a.config.Clock.Ahead()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold.Record(at).Until.IsZero() {
		return Backlog{}
	}
	backlog := Backlog{
		Until:     a.hold.Until(at).Add(most),
		Evictions: a.hold.Tries(at),
	}
	backlog.Spared, backlog.AllSpared = a.hold.Nodes()
	return backlog
}
