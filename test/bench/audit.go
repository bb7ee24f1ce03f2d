// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// call is a call that the API server has answered.
type call = auditlog.Event

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
	lines, err := auditlog.Read(a.path, mark)
	if err != nil {
		return nil, err
	}
	return lines.Events()
}

// deletes returns when the delete of each pod was accepted for the first time.
func deletes(calls []call) map[string]time.Time {
	accepted := map[string]time.Time{}
	for _, c := range calls {
		if c.Verb != "delete" || c.Resource != "pods" || !c.Accepted() {
			continue
		}
		if _, again := accepted[c.Name]; !again {
			accepted[c.Name] = c.Answered
		}
	}
	return accepted
}

// taintings returns which nodes this program has tainted, and when that was accepted.
func taintings(calls []call) map[string]time.Time {
	accepted := map[string]time.Time{}
	for _, c := range calls {
		if c.User == adminUser && c.Verb == "patch" && c.Resource == "nodes" && c.Accepted() {
			accepted[c.Name] = c.Answered
		}
	}
	return accepted
}

// awaitDeletes waits until the deletes of the given number of pods are accepted, and returns all calls since the mark.
// Until then it only counts, which takes almost no CPU time away from the contestant.
func (a audit) awaitDeletes(ctx context.Context, mark int64, pods int, limit time.Duration) ([]call, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	position, seen := mark, 0
	for {
		lines, err := auditlog.Read(a.path, position)
		if err != nil {
			return nil, err
		}
		position += int64(len(lines))
		seen += bytes.Count(lines, []byte(`"verb":"delete"`))
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
