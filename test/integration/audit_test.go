// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// auditPolicy notes every finished call of our user, with the body that it sent: a delete's UID
// precondition is there.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Request
  users: ["` + user + `"]
- level: None
`

// call is a call of our user as the API server saw it.
type call struct {
	Verb     string
	Received time.Time `json:"requestReceivedTimestamp"`
	Finished time.Time `json:"stageTimestamp"`
	Ref      struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	Response struct{ Code int } `json:"responseStatus"`
	Request  struct {
		Metadata      struct{ UID types.UID }
		Preconditions struct{ UID types.UID }
		Message       string
	} `json:"requestObject"`
}

func (c call) String() string {
	return fmt.Sprintf("%s %s %s/%s/%s of UID %q: %d", c.Received.Format(time.StampMicro), c.Verb, c.Ref.Resource, c.Ref.Namespace, c.Ref.Name, c.uid(), c.Response.Code)
}

// uid is the precondition of the call.
func (c call) uid() types.UID {
	if c.Verb == "delete" {
		return c.Request.Preconditions.UID
	}
	return c.Request.Metadata.UID
}

func (c call) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}

func (c call) accepted() bool { return c.Response.Code == http.StatusOK }

// auditLog reads what the API server appends to its audit log. Safe for concurrent use.
type auditLog struct {
	path string

	mu    sync.Mutex
	read  int64
	calls []call
}

// all returns every finished call of our user so far that all the filters want.
func (a *auditLog) all(t *testing.T, wanted ...func(call) bool) []call {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.readOn(); err != nil {
		t.Fatal(err)
	}
	var found []call
	for _, c := range a.calls {
		if !slices.ContainsFunc(wanted, func(wants func(call) bool) bool { return !wants(c) }) {
			found = append(found, c)
		}
	}
	return found
}

// readOn reads the lines that came since it was called last. The last one may not be complete yet.
func (a *auditLog) readOn() error {
	file, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(a.read, io.SeekStart); err != nil {
		return fmt.Errorf("find the end of the audit log: %w", err)
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		a.read += int64(len(line))
		var c call
		if err := json.Unmarshal(bytes.TrimSpace(line), &c); err != nil {
			return fmt.Errorf("a line of the audit log: %w: %s", err, line)
		}
		a.calls = append(a.calls, c)
	}
}

// Filters of calls.

func deletes(c call) bool { return c.Verb == "delete" && c.Ref.Resource == "pods" }

func statusPatches(c call) bool {
	return c.Verb == "patch" && c.Ref.Resource == "pods" && c.Ref.Subresource == "status"
}

func changesOfPods(c call) bool { return deletes(c) || statusPatches(c) }

func nodePatches(c call) bool { return c.Verb == "patch" && c.Ref.Resource == "nodes" }

func nodeReads(c call) bool { return c.Verb == "get" && c.Ref.Resource == "nodes" }

func writes(c call) bool { return c.writes() }

func accepted(c call) bool { return c.accepted() }

func refusals(c call) bool { return !c.accepted() }

func named(name string) func(call) bool {
	return func(c call) bool { return c.Ref.Name == name }
}

func in(namespace string) func(call) bool {
	return func(c call) bool { return c.Ref.Namespace == namespace }
}

func of(uid types.UID) func(call) bool {
	return func(c call) bool { return c.uid() == uid }
}

func since(at time.Time) func(call) bool {
	return func(c call) bool { return !c.Received.Before(at) }
}
