// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Tables of the board. The key of a row is its table and its id.
const (
	tableHead        = "head/"
	tableSources     = "sources/"
	tableZones       = "zones/"
	tableNodes       = "nodes/"
	tableRules       = "rules/"
	tableEvictions   = "evictions/"
	tableDifferences = "differences/"
)

// rows are the JSON of everything that the board's pages show, by key. They are safe for concurrent use.
type rows struct {
	mu      sync.Mutex
	version uint64
	all     map[string]encodedRow
	// gone is how many rows of all are gone. Pages with a version before whole receive everything.
	gone  int
	whole uint64
	news  chan struct{} // closed when there is something new for pages
}

// encodedRow is a row, which is nil if it is gone, and the version in which it last changed.
type encodedRow struct {
	version uint64
	json    json.RawMessage
}

// mostGone is how many rows that are gone are remembered for pages that still show them.
const mostGone = 10_000

// update is what a page receives: rows by key, null if they are gone. Now is the API server's time in milliseconds since
// 1970. Reset tells the page that the rows are complete.
type update struct {
	Now   int64                      `json:"now"`
	Reset bool                       `json:"reset,omitempty"`
	Rows  map[string]json.RawMessage `json:"rows,omitempty"`
}

func newRows() *rows {
	return &rows{all: map[string]encodedRow{}, whole: 1, news: make(chan struct{})}
}

// put sets a row, with a new version if it has changed.
func (r *rows) put(key string, row any) {
	encoded, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", key, err)) // rows contain strings and numbers
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.all[key]
	if bytes.Equal(before.json, encoded) {
		return
	}
	if known && before.json == nil {
		r.gone--
	}
	r.version++
	r.all[key] = encodedRow{r.version, encoded}
}

// remove removes a row.
func (r *rows) remove(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(key)
}

// keep removes all rows of a table except some.
func (r *rows) keep(table string, kept map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.all {
		if strings.HasPrefix(key, table) && !kept[key] {
			r.removeLocked(key)
		}
	}
}

func (r *rows) removeLocked(key string) {
	if r.all[key].json == nil {
		return
	}
	r.version++
	r.all[key] = encodedRow{version: r.version}
	if r.gone++; r.gone <= mostGone {
		return
	}
	for key, row := range r.all {
		if row.json == nil {
			delete(r.all, key)
		}
	}
	r.gone, r.whole = 0, r.version
}

// notify wakes all pages.
func (r *rows) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.news)
	r.news = make(chan struct{})
}

// since returns what has changed since a version, the version after that, and a channel that is closed when there is
// more. It is encoded later, so that slow pages do not delay others.
func (r *rows) since(version uint64, now time.Time) (update, uint64, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := update{Now: now.UnixMilli(), Reset: version < r.whole}
	if !u.Reset && version == r.version {
		return u, version, r.news
	}
	u.Rows = map[string]json.RawMessage{}
	for key, row := range r.all {
		if u.Reset && row.json != nil || !u.Reset && row.version > version {
			u.Rows[key] = row.json
		}
	}
	return u, max(r.version, r.whole), r.news
}
