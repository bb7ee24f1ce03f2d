// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"time"
)

var (
	//go:embed board.html
	markup string
	//go:embed base.css
	baseStyle string
	//go:embed board.css
	ownStyle string
	//go:embed board.js
	script string

	style  = baseStyle + ownStyle
	parsed = template.Must(template.New("board").Parse(markup))
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
		header.Set("Content-Security-Policy", policy())
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		if !isLoopback(r.Host) {
			http.Error(w, "The board answers only this machine, at 127.0.0.1 or localhost.", http.StatusForbidden)
			return
		}
		if given := firstPart(r.URL.Path); subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
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

// firstPart returns the part between the first two slashes of a path.
func firstPart(path string) string {
	if len(path) == 0 || path[0] != '/' {
		return ""
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i]
		}
	}
	return ""
}

// policy is the Content-Security-Policy: the page's own style and script, and events from the same origin.
func policy() string {
	return fmt.Sprintf("default-src 'none'; connect-src 'self'; img-src data:; style-src '%s'; script-src '%s'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'", hash(style), hash(script))
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (b *Board) servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = parsed.Execute(w, map[string]any{ // it fails if the client is gone
		"Cluster": b.config.Cluster, "Style": template.CSS(style), "Script": template.JS(script),
	})
}

// serveEvents sends a page everything, and then each change.
func (b *Board) serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 1000\n\n") // a page that loses the connection retries after a second
	stream := &stream{w: w, control: http.NewResponseController(w)}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for sent := new(page); ; {
		update, news := b.next(sent)
		if err := stream.send(update); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		case <-alive.C:
		}
	}
}

// stream is a page's connection.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send sends an update. A page that does not read it in time is disconnected. It reconnects and receives everything.
func (s *stream) send(u update) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "data: %s\n\n", data); err != nil {
		return err
	}
	return s.control.Flush()
}
