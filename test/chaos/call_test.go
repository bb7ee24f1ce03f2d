// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestWhatCallsAreOf(t *testing.T) {
	tests := map[string]struct {
		kind callKind
		name string
	}{
		"DELETE /api/v1/namespaces/ns/pods/p":                                        {deletePod, "ns/p"},
		"GET /api/v1/namespaces/ns/pods/p":                                           {getPod, "ns/p"},
		"PATCH /api/v1/namespaces/ns/pods/p/status":                                  {patchPod, "ns/p"},
		"GET /api/v1/nodes/n":                                                        {getNode, "n"},
		"PATCH /api/v1/nodes/n":                                                      {patchNode, "n"},
		"GET /api/v1/pods?watch=true&fieldSelector=a":                                {watchPods, ""},
		"GET /api/v1/nodes?watch=1":                                                  {watchNodes, ""},
		"GET /api/v1/nodes?limit=500":                                                {otherCall, "GET /api/v1/nodes"},
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/taintkeeper": {electCall, ""},
		"POST /api/v1/namespaces/ns/events":                                          {otherCall, "POST /api/v1/namespaces/ns/events"},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews":                {otherCall, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
		"DELETE /api/v1/namespaces/ns/pods":                                          {otherCall, "DELETE /api/v1/namespaces/ns/pods"},
		"PATCH /api/v1/namespaces/ns/pods/p":                                         {otherCall, "PATCH /api/v1/namespaces/ns/pods/p"},
		"DELETE /api/v1/nodes/n":                                                     {otherCall, "DELETE /api/v1/nodes/n"},
	}
	for sent, want := range tests {
		method, path, _ := strings.Cut(sent, " ")
		request := httptest.NewRequest(method, path, strings.NewReader("{}"))
		c, err := readCall(request, time.Now())
		if err != nil || c.kind != want.kind || want.kind != otherCall && c.name != want.name {
			t.Errorf("%s: %+v, %v", sent, c, err)
		}
		if body, err := io.ReadAll(request.Body); err != nil || string(body) != "{}" {
			t.Errorf("%s: the body is %q afterwards, %v", sent, body, err)
		}
	}
}

func TestTheHolderOfALeaseIsKnownByItsSignature(t *testing.T) {
	const holder = "host-1.local_01234567-89ab-cdef-0123-456789abcdef"
	request := httptest.NewRequest(http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/taintkeeper", strings.NewReader(`{"spec":{"holderIdentity":"`+holder+`"}}`))
	c, err := readCall(request, time.Now())
	if err != nil || c.holder != holder {
		t.Fatalf("%+v, %v", c, err)
	}
	l := newLedger()
	if _, ok := l.leader(); ok {
		t.Error("a replica leads before any holds the Lease")
	}
	c.replica, c.run = "b", 3
	l.note(c)
	l.holds(holder, time.Now())
	if leader, ok := l.leader(); !ok || leader != (replicaRun{"b", 3}) {
		t.Errorf("%+v, %t leads", leader, ok)
	}
}
