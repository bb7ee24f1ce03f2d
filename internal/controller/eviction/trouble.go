// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"maps"
	"regexp"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
)

const (
	// A lagging watch has steps of its own, because it usually catches up at once.
	firstUnconfirmed = confirmedFor
	lastUnconfirmed  = 4 * time.Second
)

// errUnconfirmed says that the live node or pod does not confirm the cached one. One of them is about to change, so it
// will soon be clear which is right.
var errUnconfirmed = errors.New("the node's taints and the pod, read live, do not confirm the eviction; waiting for the watch")

// reason returns the name of an error in metrics.
func reason(err error) string {
	var unrecorded notRecordedError
	switch {
	case errors.Is(err, errUnconfirmed):
		return "Unconfirmed"
	case errors.As(err, &unrecorded):
		return "NotRecorded"
	case errors.Is(err, backlog.ErrNoRoom):
		return "Aborted"
	}
	return apicall.Reason(err)
}

// troubleAfter is how many failures in a row are worth a line in the log at the default level. The first few are
// ordinary.
const troubleAfter = 3

// rarely keeps a storm from filling the log: one line per subject and minute. The zero value is ready to use. Safe for
// concurrent use.
type rarely struct {
	mu    sync.Mutex
	said  map[string]time.Time
	swept time.Time
}

// allows reports whether to write a line about a subject now.
func (r *rarely) allows(subject string, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := func(_ string, said time.Time) bool { return at.Sub(said) >= time.Minute }
	if old("", r.swept) {
		maps.DeleteFunc(r.said, old)
		r.swept = at
	}
	if said, ok := r.said[subject]; ok && !old("", said) {
		return false
	}
	if r.said == nil {
		r.said = map[string]time.Time{}
	}
	r.said[subject] = at
	return true
}

// refused reports whether a call about a pod was refused, and would be again. A 404 counts as a refusal: the pod
// exists, so the 404 comes from a webhook.
func refused(err error) bool { return apicall.Refused(err) || apierrors.IsNotFound(err) }

// The words with which the API server names what refused a call (k8s.io/apiserver/pkg/admission/plugin).
var (
	webhookWords = regexp.MustCompile(`admission webhook "([^"]+)" denied`)
	policyWords  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
)

// refuser names what refused a call in a metric and in an event: a webhook, a policy, or the API's reason.
func refuser(err error) string {
	if found := webhookWords.FindStringSubmatch(err.Error()); found != nil {
		return "webhook " + found[1]
	}
	if found := policyWords.FindStringSubmatch(err.Error()); found != nil {
		return "policy " + found[1]
	}
	return reason(err)
}

// notRecordedError says that an eviction waits until the built-in's backlog is recorded. It hides the kind of the
// underlying error, because the eviction of this pod was not refused.
type notRecordedError struct{ cause error }

// Error implements error.
func (e notRecordedError) Error() string {
	return "no pod is evicted before the built-in controller's backlog is recorded: " + e.cause.Error()
}
