// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// call is a call that the API server has answered.
type call struct {
	User     string
	Verb     string
	Resource string // with its subresource: pods/status
	Name     string
	Code     int
	Accepted time.Time // when it was answered, to the microsecond
}

func (c call) succeeded() bool { return c.Code >= 200 && c.Code < 300 }

// audit is the API server's audit log. It has a line for each answered call, in the order of the answers.
type audit struct{ path string }

// mark returns a position: what is read from there on happened afterwards.
func (a audit) mark() (int64, error) {
	info, err := os.Stat(a.path)
	if err != nil {
		return 0, fmt.Errorf("find the end of the audit log: %w", err)
	}
	return info.Size(), nil
}

// since reads the calls from a position on.
func (a audit) since(mark int64) ([]call, error) {
	content, err := a.read(mark)
	if err != nil {
		return nil, err
	}
	return parseAudit(content)
}

func (a audit) read(mark int64) ([]byte, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, mark, 1<<62))
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return content, nil
}

// parseAudit reads complete lines; the last may be half written.
func parseAudit(content []byte) ([]call, error) {
	var calls []call
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		c, err := parseCall(line)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func parseCall(line []byte) (call, error) {
	var event struct {
		Verb           string
		User           struct{ Username string }
		ObjectRef      struct{ Resource, Subresource, Name string }
		ResponseStatus struct{ Code int }
		StageTimestamp time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return call{}, fmt.Errorf("understand a line of the audit log: %w", err)
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return call{
		User: event.User.Username, Verb: event.Verb, Resource: resource, Name: event.ObjectRef.Name,
		Code: event.ResponseStatus.Code, Accepted: event.StageTimestamp,
	}, nil
}

// deletes returns when the delete of each pod was accepted for the first time.
func deletes(calls []call) map[string]time.Time {
	accepted := map[string]time.Time{}
	for _, c := range calls {
		if c.Verb != "delete" || c.Resource != "pods" || !c.succeeded() {
			continue
		}
		if _, again := accepted[c.Name]; !again {
			accepted[c.Name] = c.Accepted
		}
	}
	return accepted
}

// awaitDeletes waits until the deletes of so many pods are accepted, and returns all calls since the mark. Until then it
// only counts, which costs next to nothing of the processors that the contestant needs.
func (a audit) awaitDeletes(ctx context.Context, mark int64, pods int, limit time.Duration) ([]call, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	position, seen := mark, 0
	for {
		content, err := a.read(position)
		if err != nil {
			return nil, err
		}
		position += int64(len(content))
		seen += bytes.Count(content, []byte(`"verb":"delete"`))
		if seen >= pods {
			calls, err := a.since(mark)
			if err != nil || len(deletes(calls)) >= pods {
				return calls, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d pods were deleted: %w", seen, pods, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
