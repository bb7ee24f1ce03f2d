// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") },
}).Parse(pageText))

// Handler serves the report: as JSON if ?format=json or the header Accept asks for it, and otherwise as a
// page for people.
func (c *Comparison) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the report is read-only", http.StatusMethodNotAllowed)
			return
		}
		write, kind := writePage, "text/html; charset=utf-8"
		if wantsJSON(r) {
			write, kind = writeJSON, "application/json"
		}
		var body bytes.Buffer
		if err := write(&body, c.Report()); err != nil {
			http.Error(w, "the report cannot be written: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = body.WriteTo(w) // the client has gone
	})
}

// wantsJSON reports whether the client asks for JSON, with the query or with an Accept header that names it and not
// HTML, as those of browsers do.
func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

func writeJSON(to io.Writer, report Report) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func writePage(to io.Writer, report Report) error { return page.Execute(to, rows{report}) }

// rows is the report as the page shows it.
type rows struct{ Report }

// Row is a line of the table of outcomes.
type row struct {
	Outcome Outcome
	Pods    int
	Meaning string
	Differs bool
}

// Rows returns the table of outcomes.
func (r rows) Rows() []row {
	all := make([]row, 0, len(outcomes))
	for _, outcome := range outcomes {
		all = append(all, row{outcome, r.Pods[outcome], outcome.meaning(), outcome.differs() && r.Pods[outcome] > 0})
	}
	return all
}

// meaning describes an outcome in a few words.
func (o Outcome) meaning() string {
	switch o {
	case OnTime:
		return "evicted when due, within " + Tolerance.String()
	case Early:
		return "evicted before"
	case Late:
		return "evicted after"
	case Never:
		return "due, but not evicted"
	case Stayed:
		return "evicted, but should have stayed"
	case Twice:
		return "evicted again: it was already terminating, or its predecessor of the same name had to leave"
	default:
		return "not judged: the countdown began unseen, the node is gone, or a watch was interrupted"
	}
}
