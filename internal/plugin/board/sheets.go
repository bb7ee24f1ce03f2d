// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Names of sheets, each with one kind of row.
const (
	sheetHead        = "head"
	sheetSources     = "sources"
	sheetZones       = "zones"
	sheetNodes       = "nodes"
	sheetPending     = "pending"
	sheetRules       = "rules"
	sheetEvictions   = "evictions"
	sheetDifferences = "differences"
)

// sheets are all rows as pages receive them. They are not safe for concurrent use.
type sheets struct {
	version uint64
	rows    map[rowKey]encodedRow
}

type rowKey struct{ sheet, id string }

// encodedRow is a row, and the version in which it last changed.
type encodedRow struct {
	version uint64
	json    json.RawMessage
}

func newSheets() *sheets { return &sheets{rows: map[rowKey]encodedRow{}} }

// put sets a row, with a new version if it has changed.
func (s *sheets) put(sheet, id string, row any) {
	encoded, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("encode a row of %s: %v", sheet, err)) // rows contain strings and numbers
	}
	key := rowKey{sheet, id}
	if bytes.Equal(s.rows[key].json, encoded) {
		return
	}
	s.version++
	s.rows[key] = encodedRow{s.version, encoded}
}

// remove removes a row.
func (s *sheets) remove(sheet, id string) {
	key := rowKey{sheet, id}
	if _, ok := s.rows[key]; ok {
		s.version++
		delete(s.rows, key)
	}
}

// replace replaces all rows of a sheet.
func replace[T any](s *sheets, sheet string, rows []T, id func(T) string) {
	kept := make(map[string]bool, len(rows))
	for _, row := range rows {
		kept[id(row)] = true
		s.put(sheet, id(row), row)
	}
	for key := range s.rows {
		if key.sheet == sheet && !kept[key.id] {
			s.remove(sheet, key.id)
		}
	}
}

// page is the versions of all rows that one page has received. The zero value has none.
type page struct {
	version uint64
	rows    map[rowKey]uint64
}

// update is what a page receives.
type update struct {
	// Now is the API server's time, in milliseconds since 1970.
	Now int64 `json:"now"`
	// Reset tells the page that the update is complete.
	Reset bool `json:"reset,omitempty"`
	// Sheets are the changes, by sheet.
	Sheets map[string]*sheetChanges `json:"sheets,omitempty"`
}

type sheetChanges struct {
	Set  []json.RawMessage `json:"set,omitempty"`
	Gone []string          `json:"gone,omitempty"`
}

// changesFor returns what a page has not received yet, and records that it has received it. At first that is
// everything.
func (s *sheets) changesFor(p *page, now int64) update {
	u := update{Now: now, Reset: p.rows == nil}
	if !u.Reset && p.version == s.version {
		return u
	}
	if u.Reset {
		p.rows = make(map[rowKey]uint64, len(s.rows))
	}
	u.Sheets = map[string]*sheetChanges{}
	changes := func(sheet string) *sheetChanges {
		if u.Sheets[sheet] == nil {
			u.Sheets[sheet] = &sheetChanges{}
		}
		return u.Sheets[sheet]
	}
	for key, row := range s.rows {
		if p.rows[key] != row.version {
			p.rows[key] = row.version
			changes(key.sheet).Set = append(changes(key.sheet).Set, row.json)
		}
	}
	for key := range p.rows {
		if _, ok := s.rows[key]; !ok {
			delete(p.rows, key)
			changes(key.sheet).Gone = append(changes(key.sheet).Gone, key.id)
		}
	}
	p.version = s.version
	return u
}
