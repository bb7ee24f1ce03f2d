// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
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
	_ = Write(w, b.servedPage()) // it fails if the client is gone
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
