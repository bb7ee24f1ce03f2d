// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

const (
	// updateEvery is how long changes are collected: pages get at most four updates a second.
	updateEvery = time.Second / 4
	// pingEvery is how often the API server is pinged, and how long it may take to respond.
	pingEvery = 5 * time.Second
)

// Config says what a board shows.
type Config struct {
	// Cluster names the cluster for people.
	Cluster string
	// Namespace is the namespace whose pods are shown. If it is empty, all pods are shown.
	Namespace string
	// Clients and Rules list and watch. They have no timeout.
	Clients kubernetes.Interface
	Rules   dynamic.Interface
	// Policies calls tell repeatedly until the context ends, with the EvictionPolicies and the objects that they need.
	Policies func(ctx context.Context, tell func(*state.Cluster, error))
	// Ping sends any request to the API server, and fails if it does not respond.
	Ping func(context.Context) error
	// Now returns the API server's time.
	Now func() time.Time
}

// Board is the known state of a cluster, for all pages that show it. One set of watches feeds it. Each open page
// receives what has changed since it last received something. Therefore a slow page skips intermediate states and
// delays nobody, and a page that reconnects receives everything.
type Board struct {
	config   Config
	follower *follow.Follower
	rows     *rows

	// Everything below belongs to the goroutine of the follower.
	live    state.Live
	pending plan.Pending
	held    map[string]string // why node health does not taint nodes, by their names
	changed map[string]bool   // the nodes whose rows may have changed
	pods    map[string][]cliv1alpha1.PendingPod
	again   map[string]time.Time        // when rows of nodes change with time
	waiting map[types.UID]*corev1.Event // those that say why nodes wait for their taints
	counted map[types.UID]bool
	report  *v1alpha1.ShadowReport
	head    headRow
	sources map[string]*currency
}

// headRow has everything that exists only once. ToGo counts the pods that must leave, as all commands do. Evicted
// counts the evictions that the board saw, and Evictions are the last of them, newest first. Idle says that Taintkeeper
// does not evict, and what that means. It is empty if Taintkeeper evicts, or if that is not known. Differences are what
// shadow mode has found, newest first, and NoDifference says what it means if there is none.
type headRow struct {
	Zones     []zoneRow            `json:"zones,omitempty"`
	ToGo      cliv1alpha1.PodsToGo `json:"toGo"`
	Evicted   int                  `json:"evicted"`
	Evictions []evictionRow        `json:"evictions,omitempty"`
	Idle      string               `json:"idle,omitempty"`

	Differences  []differenceRow `json:"differences,omitempty"`
	NoDifference string          `json:"noDifference"`
}

// New returns a board. Run starts it.
func New(config Config) *Board {
	b := &Board{
		config: config, follower: follow.New(updateEvery), rows: newRows(),
		pending: plan.Pending{Owner: (&state.Cluster{}).Owner},
		held:    map[string]string{}, changed: map[string]bool{}, waiting: map[types.UID]*corev1.Event{},
		counted: map[types.UID]bool{}, pods: map[string][]cliv1alpha1.PendingPod{}, again: map[string]time.Time{},
		sources: map[string]*currency{},
	}
	b.follower.Also = []func(context.Context){b.pingServer, func(ctx context.Context) {
		config.Policies(ctx, func(read *state.Cluster, err error) {
			b.follower.Do(ctx, func() { b.setPolicies(read, err) })
		})
	}}
	b.follower.Called, b.follower.Listed, b.follower.Act = b.called, b.listed, b.update
	return b
}

// Run watches the cluster until the context ends, and returns when everything has stopped.
func (b *Board) Run(ctx context.Context) {
	b.follower.Feeds = b.feeds()
	for _, feed := range b.follower.Feeds {
		b.source(feed.Kind) // the page says that it is being read
	}
	_ = b.follower.Run(ctx) // it never fails
}

// feeds are all watches.
func (b *Board) feeds() []follow.Feed {
	clients := b.config.Clients
	// client-go's recorder writes events on objects without a namespace there.
	nodeEvents := clients.CoreV1().Events(metav1.NamespaceDefault)
	held := fields.Set{"involvedObject.kind": "Node", "reason": v1alpha1.EventNodeTaintHeld}.AsSelector()
	reports := clients.CoreV1().ConfigMaps(metav1.NamespaceAll)
	rules := b.config.Rules.Resource(v1alpha1.GroupVersion.WithResource(kindRules))
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeTaintRule"))
	return append(follow.ClusterFeeds(clients, b.config.Namespace, nil, b),
		follow.FeedOf(kindEvents, clients, &corev1.Event{}, nodeEvents.List, nodeEvents.Watch, held, b.setEvent,
			func(uid types.UID, _ string, _ *corev1.Event) { delete(b.waiting, uid) }),
		follow.FeedOf(kindReports, clients, &corev1.ConfigMap{}, reports.List, reports.Watch,
			fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.ShadowConfigMap), b.setReport,
			func(types.UID, string, *corev1.ConfigMap) { b.report = nil }),
		follow.FeedOf(kindRules, b.config.Rules, rule, rules.List, rules.Watch, fields.Everything(),
			func(rule *unstructured.Unstructured) {
				b.rows.put(tableRules+string(rule.GetUID()), map[string]any{
					"name": rule.GetName(), "spec": rule.Object["spec"], "status": rule.Object["status"],
				})
			},
			func(uid types.UID, _ string, _ *unstructured.Unstructured) { b.rows.remove(tableRules + string(uid)) }))
}

// setPolicies updates who evicts, and the policies. Policies change what the board says about pods, but not which pods
// must leave.
func (b *Board) setPolicies(read *state.Cluster, err error) {
	if err == nil && b.live.Evictor != read.Evictor {
		b.live.Evictor, b.head.Idle = read.Evictor, read.Idle
		b.markAllChanged()
	}
	set := read.PoliciesOf()
	news := set != nil || b.pending.Policies != nil || len(read.Unread()) > 0 || b.sources[kindPolicies] != nil
	if !news || !b.policiesCalled(read.Unread(), err) {
		return
	}
	b.pending.Policies = set
	b.markAllChanged()
}

// pingServer pings until the context ends, because a watch can hang without an error.
func (b *Board) pingServer(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		at := b.config.Now()
		asking, cancel := context.WithTimeout(ctx, pingEvery)
		err := b.config.Ping(asking)
		cancel()
		b.follower.Do(ctx, func() { b.pinged(at, err) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update renders what has changed, wakes all pages, and returns how long nothing else changes what the board shows.
func (b *Board) update() time.Duration {
	now := b.config.Now()
	b.renderHeld()
	b.renderReport(now)
	for name, at := range b.again {
		b.changed[name] = b.changed[name] || !at.After(now)
	}
	for name, changed := range b.changed {
		if changed {
			b.renderNode(name, now)
		}
	}
	if len(b.changed) > 0 {
		clear(b.changed)
		b.head.Zones = b.zones()
	}
	next := b.count(now)
	b.renderSources()
	b.rows.put(tableHead, b.head)
	b.rows.notify()
	return next
}

// count counts the pods that must leave, and returns how long the numbers and the rows of nodes stay the same.
func (b *Board) count(now time.Time) time.Duration {
	b.head.ToGo = cliv1alpha1.PodsToGo{}
	for _, pods := range b.pods {
		for i := range pods {
			plan.Count(&b.head.ToGo, &pods[i], now)
		}
	}
	next := time.Hour
	if b.head.ToGo.Due > b.head.ToGo.Overdue {
		next = time.Second
	}
	if at := b.head.ToGo.Next; at != nil {
		next = min(next, at.Sub(now))
	}
	for _, at := range b.again {
		next = min(next, at.Sub(now))
	}
	return next
}

// Kinds of objects that are watched, and the API server itself.
const (
	kindRules    = "nodetaintrules"
	kindEvents   = "events"
	kindReports  = "configmaps"
	kindServer   = "server"
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

// missing is what the page lacks if a kind may not be read.
var missing = map[string]string{
	follow.Nodes: "nodes, zones and countdowns are missing",
	follow.Pods:  "pods that must leave and evictions are missing",
	kindRules:    "rules are missing",
	kindEvents:   "reasons why nodes wait for their taints are missing",
	kindReports:  "findings of shadow mode are missing",
}

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
