// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"net/http"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// client-go logs "unable to cancel request" for a transport into which it cannot look.
func TestClientGoFindsTheConnectionBelowOurTransports(t *testing.T) {
	var clock timeline.Clock
	transport, err := rest.TransportFor(clock.Listen(Config(&rest.Config{Host: "https://127.0.0.1:6443"})))
	if err != nil {
		t.Fatal(err)
	}
	depth := 0
	for wrapper, ok := transport.(utilnet.RoundTripperWrapper); ok; wrapper, ok = transport.(utilnet.RoundTripperWrapper) {
		transport = wrapper.WrappedRoundTripper()
		depth++
	}
	if _, ok := transport.(*http.Transport); !ok || depth < 2 {
		t.Errorf("below %d transports is a %T, want net/http's below both of ours", depth, transport)
	}
}
