// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// Kinds of objects that are watched, and the API server itself.
const (
	kindRules  = "nodetaintrules"
	kindEvents = "events"
	kindServer = "server"

	kindPolicies = "evictionpolicies"
)

// States of a source.
const (
	stateReading = "reading" // the first list is not complete
	stateCurrent = "current"
	stateDenied  = "denied"
	stateAbsent  = "absent" // the API server does not have the kind
	stateBroken  = "broken" // the page shows what was last seen
)

// missing says what is missing on the page if a kind may not be read.
var missing = map[string]string{
	follow.Nodes: "nodes, zones and countdowns are missing",
	follow.Pods:  "pods that must leave and evictions are missing",
	kindRules:    "rules are missing",
	kindEvents:   "findings of shadow mode are missing, and reasons why nodes wait for their taints",
}

// askForViewer says which role to ask for.
const askForViewer = "Ask for the ClusterRole " + state.ViewerRole + ", which grants this access."

// currency is how current a kind is.
type currency struct {
	read     bool      // it has been listed once
	current  time.Time // when it was last current
	problems map[string]problem
}

// sourceRow says how current a kind of object is. Read is set once it was listed: before that, zero does not mean none.
// Since is when a broken source was last current. Problem is a sentence, if there is one.
type sourceRow struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Read    bool   `json:"read"`
	Since   int64  `json:"since,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// problem is why a verb fails.
type problem struct{ state, text string }

// source returns the state of a kind.
func (b *Board) source(kind string) *currency {
	if b.sources[kind] == nil {
		b.sources[kind] = &currency{problems: map[string]problem{}}
	}
	return b.sources[kind]
}

// called records the result of a call to list or to watch a kind.
func (b *Board) called(_ context.Context, feed follow.Feed, verb string, err error) {
	s := b.source(feed.Kind)
	if err != nil {
		b.failed(s, verb, problemOf(feed.Kind, verb, err))
		return
	}
	// Someone who may list but not watch may still not watch.
	if verb == "watch" || s.problems["watch"].state != stateDenied {
		clear(s.problems)
	}
	delete(s.problems, verb)
}

// failed records a problem of a kind, which has been current until now.
func (b *Board) failed(s *currency, verb string, is problem) {
	if len(s.problems) == 0 {
		s.current = b.config.Now()
	}
	s.problems[verb] = is
}

// policiesCalled records which policies could not be read, and reports whether they were read. While no policies are
// known, pages are not told that reading them failed.
func (b *Board) policiesCalled(missing []string, err error) bool {
	if err != nil && b.pending.Policies == nil {
		return false
	}
	s := b.source(kindPolicies)
	if err != nil {
		b.failed(s, "list", problemOf(kindPolicies, "list", err))
		return false
	}
	s.read = true
	clear(s.problems)
	if len(missing) > 0 {
		s.problems["list"] = problem{stateDenied, strings.Join(missing, " ") + " " + askForViewer}
	}
	return true
}

// listed records that a list is complete.
func (b *Board) listed(feed follow.Feed) {
	b.source(feed.Kind).read = true
	if feed.Kind == follow.Nodes || feed.Kind == follow.Pods {
		b.markAllChanged()
	}
}

func problemOf(kind, verb string, err error) problem {
	switch {
	case apierrors.IsForbidden(err):
		return problem{stateDenied, fmt.Sprintf("You may not %s %s: %s. %s", verb, kind, missing[kind], askForViewer)}
	case apierrors.IsUnauthorized(err):
		return problem{stateDenied, "The API server no longer accepts your credentials: log in again, and restart the board."}
	case apierrors.IsNotFound(err) && kind == kindRules:
		return problem{stateAbsent, "The cluster has no NodeTaintRules: their CustomResourceDefinition is not installed."}
	}
	return problem{stateBroken, fmt.Sprintf("Cannot read %s: %v.", kind, err)}
}

// pinged records whether the API server responds at all.
func (b *Board) pinged(asked time.Time, err error) {
	s := b.source(kindServer)
	clear(s.problems)
	if err != nil {
		s.problems["get"] = problem{stateBroken, fmt.Sprintf("The API server does not answer: %v.", err)}
		return
	}
	s.read, s.current = true, asked
}

func (b *Board) renderSources() {
	for kind, s := range b.sources {
		row := sourceRow{ID: kind, State: stateCurrent, Read: s.read}
		if !s.read {
			row.State = stateReading
		}
		for _, verb := range []string{"get", "watch", "list"} {
			if known, ok := s.problems[verb]; ok {
				row.State, row.Problem = known.state, known.text
			}
		}
		if row.State == stateBroken && !s.current.IsZero() {
			row.Since = s.current.UnixMilli()
		}
		b.rows.put(tableSources+kind, row)
	}
}
