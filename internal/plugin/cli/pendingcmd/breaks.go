// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pendingcmd

import (
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
)

// troubleEvery is how often it is noted that a watch is broken, while it stays broken.
const troubleEvery = time.Minute

// breaks notes that watches are broken, of each kind not more often than once in a while.
type breaks struct {
	clock clock.PassiveClock
	note  func(sentence string)

	mu    sync.Mutex
	noted map[string]time.Time // by kind
}

func newBreaks(clock clock.PassiveClock, note func(sentence string)) *breaks {
	return &breaks{clock: clock, note: note, noted: map[string]time.Time{}}
}

// tell says that the watch of a kind is broken, and why.
func (b *breaks) tell(kind string, err error) {
	b.mu.Lock()
	now := b.clock.Now()
	again := now.Sub(b.noted[kind]) >= troubleEvery
	if again {
		b.noted[kind] = now
	}
	b.mu.Unlock()
	if again {
		b.note(fmt.Sprintf("The watch of %s is broken and is begun again; until then it is told what was seen last: %v.", kind, err))
	}
}

// noticing tells of requests that get no answer: an informer begins again without a word while connections are refused.
func (b *breaks) noticing(next http.RoundTripper) http.RoundTripper { return noticing{next, b} }

type noticing struct {
	next   http.RoundTripper
	breaks *breaks
}

// RoundTrip implements http.RoundTripper.
func (n noticing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if err != nil && request.Context().Err() == nil {
		n.breaks.tell(path.Base(request.URL.Path), err)
	}
	return response, err
}

var _ utilnet.RoundTripperWrapper = noticing{}

// WrappedRoundTripper shows client-go the connection below, so that it can cancel requests.
func (n noticing) WrappedRoundTripper() http.RoundTripper { return n.next }
