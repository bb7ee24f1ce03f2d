// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// callKind is what a call of a replica does, as far as the ledger records it.
type callKind string

const (
	deletePod  callKind = "DELETE pod"
	patchPod   callKind = "PATCH pod status"
	keepPod    callKind = "PATCH pod status, setting the built-in's DisruptionTarget to False"
	getPod     callKind = "GET pod"
	patchNode  callKind = "PATCH node"
	getNode    callKind = "GET node"
	watchPods  callKind = "WATCH pods"
	watchNodes callKind = "WATCH nodes"
	electCall  callKind = "election"
	clockCall  callKind = "PATCH the eviction clock" // and what is known about the built-in's backlog
	otherCall  callKind = "other"
)

// call is one call of a replica, as its proxy saw it.
type call struct {
	process // that sent it

	kind   callKind
	name   string    // of the object; of a pod with its namespace
	uid    types.UID // of the pod that a DELETE or PATCH is for
	holder string    // the identity in an election call

	received  time.Time     // by the proxy
	forwarded time.Time     // to the API server; zero if it was not
	answered  time.Time     // by the API server; zero if it was not
	told      time.Time     // to the replica, or when its connection was closed
	answer    int           // the API server's, 0 for none
	heard     int           // what the replica got, 0 for none
	retry     time.Duration // the Retry-After that the replica got, if any
	faults    []faultKind
}

func (c *call) writes() bool { return c.kind == deletePod || c.kind == patchPod }

// accepted reports whether the API server carried the call out and the proxy got that answer.
func (c *call) accepted() bool { return c.answer >= 200 && c.answer < 300 }

// delivered reports whether the replica knows that the call was carried out.
func (c *call) delivered() bool { return c.heard >= 200 && c.heard < 300 }

// refused reports whether the replica was told that it must not do this.
func (c *call) refused() bool { return c.heard == http.StatusForbidden }

func (c *call) String() string {
	text := fmt.Sprintf("%s (run %d): %s %s", c.replica, c.run, c.kind, c.name)
	if c.uid != "" {
		text += " uid " + short(c.uid)
	}
	text += fmt.Sprintf(", the API server answered %s, the replica received %s after %s", code(c.answer), code(c.heard), c.told.Sub(c.received).Round(time.Millisecond))
	if len(c.faults) > 0 {
		text += fmt.Sprintf(", injected: %v", c.faults)
	}
	return text
}

func code(status int) string {
	if status == 0 {
		return "nothing"
	}
	return fmt.Sprint(status)
}

// largestBody limits how much of a body is read. The bodies of recorded calls are small.
const largestBody = 1 << 20

// readCall parses a request. Its body can be read again afterwards.
func readCall(request *http.Request, received time.Time) (*call, error) {
	c := &call{kind: otherCall, received: received}
	c.kind, c.name = classify(request)
	if !c.writes() && c.kind != electCall {
		return c, nil
	}
	body, err := peek(request)
	if err != nil {
		return nil, err
	}
	switch c.kind {
	case electCall:
		c.holder = string(identity.Find(body))
		return c, nil
	case deletePod:
		c.uid, err = preconditionOfDelete(body)
		return c, err
	}
	var patch struct {
		Metadata struct{ UID types.UID }
		Status   struct{ Conditions []corev1.PodCondition }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, fmt.Errorf("parse a patch: %w", err)
	}
	c.uid = patch.Metadata.UID
	if slices.ContainsFunc(patch.Status.Conditions, keeps) {
		c.kind = keepPod
	}
	return c, nil
}

// keeps reports whether a condition says that a pod does not leave.
func keeps(c corev1.PodCondition) bool {
	return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionFalse
}

const evictionClock = auditlog.EvictionClockName

// routes are the calls that the ledger tells apart. The name of the object is what the expressions find.
var routes = []struct {
	method string
	path   *regexp.Regexp
	kind   callKind
}{
	{http.MethodDelete, regexp.MustCompile(`^/api/v1/namespaces/([^/]+/)pods/([^/]+)$`), deletePod},
	{http.MethodPatch, regexp.MustCompile(`^/api/v1/namespaces/([^/]+/)pods/([^/]+)/status$`), patchPod},
	{http.MethodGet, regexp.MustCompile(`^/api/v1/namespaces/([^/]+/)pods/([^/]+)$`), getPod},
	{http.MethodPatch, regexp.MustCompile(`^/api/v1/nodes/([^/]+)$`), patchNode},
	{http.MethodGet, regexp.MustCompile(`^/api/v1/nodes/([^/]+)$`), getNode},
	{http.MethodGet, regexp.MustCompile(`^/api/v1/pods$`), watchPods},
	{http.MethodGet, regexp.MustCompile(`^/api/v1/nodes$`), watchNodes},
	{http.MethodPatch, regexp.MustCompile(`^/api/v1/namespaces/[^/]+/serviceaccounts/` + evictionClock + `$`), clockCall},
	{"", regexp.MustCompile(`^/apis/coordination.k8s.io/v1/namespaces/[^/]+/leases`), electCall}, // any method
}

func classify(request *http.Request) (kind callKind, name string) {
	watches := slices.Contains([]string{"true", "1"}, request.URL.Query().Get("watch"))
	for _, route := range routes {
		found := route.path.FindStringSubmatch(request.URL.Path)
		if found == nil || route.method != "" && route.method != request.Method || isWatch(route.kind) && !watches {
			continue
		}
		return route.kind, strings.Join(found[1:], "")
	}
	return otherCall, request.Method + " " + request.URL.Path
}

// identity is a leader's identity in its Lease, in any encoding: its host and a UUID.
var identity = regexp.MustCompile(`[A-Za-z0-9.-]+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// peek reads the body of a request and puts it back.
func peek(request *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(request.Body, largestBody))
	if err != nil {
		return nil, fmt.Errorf("read the body of a call: %w", err)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// preconditionOfDelete finds the UID precondition of a delete, which is sent as JSON or protobuf. Without one it is
// empty.
func preconditionOfDelete(body []byte) (types.UID, error) {
	if len(body) == 0 {
		return "", nil
	}
	var options metav1.DeleteOptions
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &options); err != nil {
		return "", fmt.Errorf("parse the body of a delete: %w", err)
	}
	if options.Preconditions == nil || options.Preconditions.UID == nil {
		return "", nil
	}
	return *options.Preconditions.UID, nil
}
