// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"slices"
	"sync"
)

// AuditLog is an API server's audit log that is read as it grows: each time only what is new. It is safe for concurrent
// use.
type AuditLog struct {
	path string

	mu     sync.Mutex
	read   int64 // bytes
	events []AuditEvent
}

// NewAuditLog makes the reader of an audit log (see [Cluster.AuditLog]), from its beginning on.
func NewAuditLog(path string) *AuditLog { return &AuditLog{path: path} }

// Events returns every call so far that all the filters want, in the order of the answers.
func (l *AuditLog) Events(wanted ...func(AuditEvent) bool) ([]AuditEvent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readOn(); err != nil {
		return nil, err
	}
	var found []AuditEvent
	for _, e := range l.events {
		if !slices.ContainsFunc(wanted, func(wants func(AuditEvent) bool) bool { return !wants(e) }) {
			found = append(found, e)
		}
	}
	return found, nil
}

// readOn reads the lines that came since it was called last.
func (l *AuditLog) readOn() error {
	lines, err := ReadAudit(l.path, l.read)
	if err != nil {
		return err
	}
	events, err := lines.Events()
	if err != nil {
		return err
	}
	l.read += int64(len(lines))
	l.events = append(l.events, events...)
	return nil
}
