// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// keepAlive is how often a page receives an update even if nothing has changed, with the time and as a sign of life.
	keepAlive = 5 * time.Second
	// sendTime is how long a page may take to read an update.
	sendTime = 10 * time.Second
)

// NewToken returns the secret part of a board's address. Neither another user of this machine nor a page of another
// site can guess it.
func NewToken() string { return rand.Text() }

// Handler serves the board to this machine below a token: /TOKEN/ is the page, and /TOKEN/events the stream of updates.
func (b *Board) Handler(token string) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{token}/{$}", b.servePage)
	pages.HandleFunc("GET /{token}/events", b.serveEvents)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy(board)+"; frame-ancestors 'none'")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		if !isLoopback(r.Host) {
			http.Error(w, "The board answers only this machine, at 127.0.0.1 or localhost.", http.StatusForbidden)
			return
		}
		given, _, whole := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !whole || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			http.Error(w, "There is nothing here: use the complete address that kubectl taintkeeper board printed.", http.StatusNotFound)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this machine. A page of another site can reach this server through a
// name that its owner points to 127.0.0.1 (DNS rebinding), but then the header contains that name.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip := net.ParseIP(name)
	return name == "localhost" || ip.IsLoopback()
}

func (b *Board) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = Write(w, Page{ // it fails if the client is gone
		Kind: board, Title: "Board: " + b.config.Cluster, Answer: "Reading the cluster.",
		Facts: []Fact{
			{Name: "Cluster", Value: b.config.Cluster, ID: "cluster"},
			{Name: "Pods of", Value: cmp.Or(b.config.Namespace, "all namespaces")},
			{Name: "API server's clock", ID: "clock"},
		},
		Footer: "The board only reads, with your own permissions. Press Ctrl-C in its terminal to stop it.",
	})
}

// serveEvents sends a page everything, and then each change.
func (b *Board) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 1000\n\n") // a page that loses the connection retries after a second
	control := http.NewResponseController(w)
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for sent := uint64(0); ; {
		changes, version, news := b.rows.since(sent, b.config.Now())
		if err := send(w, control, changes); err != nil {
			return
		}
		sent = version
		select {
		case <-r.Context().Done():
			return
		case <-news:
		case <-alive.C:
		}
	}
}

// send sends an update. A page that does not read it in time is disconnected. It reconnects and receives everything.
func send(w http.ResponseWriter, control *http.ResponseController, changes update) error {
	data, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := control.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err
	}
	return control.Flush()
}

// Tables of the board. The key of a row is its table and its id.
const (
	tableHead    = "head/"
	tableSources = "sources/"
	tableNodes   = "nodes/"
	tableRules   = "rules/"
)

// rows are the JSON of everything that the board's pages show, by key. They are safe for concurrent use.
type rows struct {
	mu      sync.Mutex
	version uint64
	// whole is the version in which a row was last removed: pages with an earlier one receive everything.
	whole uint64
	all   map[string]encodedRow
	news  chan struct{} // closed when there is something new for pages
}

// encodedRow is a row, and the version in which it last changed.
type encodedRow struct {
	version uint64
	json    json.RawMessage
}

// update is what a page receives: rows by key. Now is the API server's time in milliseconds since 1970. Reset tells the
// page that the rows are complete.
type update struct {
	Now   int64                      `json:"now"`
	Reset bool                       `json:"reset,omitempty"`
	Rows  map[string]json.RawMessage `json:"rows,omitempty"`
}

func newRows() *rows {
	return &rows{version: 1, whole: 1, all: map[string]encodedRow{}, news: make(chan struct{})}
}

// put sets a row, with a new version if it has changed.
func (r *rows) put(key string, row any) {
	encoded, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", key, err)) // rows contain strings and numbers
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.all[key].json, encoded) {
		r.version++
		r.all[key] = encodedRow{r.version, encoded}
	}
}

// remove removes a row.
func (r *rows) remove(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.all[key]; ok {
		r.version++
		r.whole = r.version
		delete(r.all, key)
	}
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
	if version == r.version {
		return u, version, r.news
	}
	u.Rows = map[string]json.RawMessage{}
	for key, row := range r.all {
		if u.Reset || row.version > version {
			u.Rows[key] = row.json
		}
	}
	return u, r.version, r.news
}
