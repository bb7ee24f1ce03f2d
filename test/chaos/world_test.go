// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// sec is the instant the given number of seconds after the beginning, which is the beginning of a second.
func sec(seconds float64) time.Time {
	return time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// world is a cluster in which happens what a timeline says: one node, one pod that is bound to it at 0 s, and two
// replicas, a and b, whose watches are open and of which a leads. It writes what happens where chaos finds it: what the
// replicas do into the ledger, and changes into the audit log and to the observer's watch. The run ends at 200 s.
type world struct {
	*observer

	now     float64
	log     strings.Builder // the audit log
	version int
	pod     *corev1.Pod
	node    *corev1.Node
	calmed  time.Time
}

const (
	thePod  = types.UID("uid-of-the-pod")
	theName = "default/pod"
	theNode = "node"
)

func newWorld(labels map[string]string) *world {
	w := &world{observer: newObserver(nil, newLedger()), calmed: sec(200)}
	w.observer.now = func() time.Time { return sec(w.now) }
	w.ledger.holders = map[string]process{"holder-a": {"a", 1}, "holder-b": {"b", 1}}
	w.ledger.holds("holder-a", sec(-50))
	for _, replica := range []string{"a", "b"} {
		p := process{replica, 1}
		w.ledger.lives = append(w.ledger.lives, &life{process: p, began: sec(-60)})
		for _, kind := range []callKind{watchPods, watchNodes} {
			w.ledger.streams = append(w.ledger.streams, &stream{process: p, kind: kind, opened: sec(-59)})
		}
	}
	w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: theNode}}
	w.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: thePod, CreationTimestamp: metav1.NewTime(sec(0)), Labels: labels},
		Spec:       corev1.PodSpec{NodeName: theNode},
	}
	w.writeNode(-30, "admin")
	w.writePod(0, "create", "pods", "admin")
	return w
}

// play lets happen what a timeline says: steps with a semicolon between them, each with its second and what happens, as
// [world.happens] and [world.does] understand it.
func play(t *testing.T, timeline string) *history {
	t.Helper()
	timeline, isGuarded := strings.CutPrefix(timeline, "guarded; ")
	var labels map[string]string
	if isGuarded {
		labels = map[string]string{guarded: ""}
	}
	w := newWorld(labels)
	for step := range strings.SplitSeq(timeline, ";") {
		words := strings.Fields(step)
		w.now = seconds(words[0])
		if !w.happens(words[1], words[2:]) && (len(words) < 3 || !w.does(words[1], words[2], words[3:])) {
			t.Fatalf("what is %q?", step)
		}
	}
	return w.history(t)
}

// history is what chaos finds at the end.
func (w *world) history(t *testing.T) *history {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(w.log.String()+`{"half": "a li`), 0o600); err != nil { // the last line is being written
		t.Fatal(err)
	}
	known, err := w.readAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	return w.observer.history(known, w.calmed, sec(200))
}

// happens is what happens to the cluster.
func (w *world) happens(what string, words []string) bool {
	switch what {
	case "taints": // that the node has from now on: key, key=value or key@timeAdded
		w.node.Spec.Taints = taintsOf(words)
		w.writeNode(w.now, "admin")
	case "untainted":
		w.node.Spec.Taints = nil
		w.writeNode(w.now, "admin")
	case "tolerates": // key or key=seconds
		w.pod.Spec.Tolerations = tolerationsOf(words)
		w.writePod(w.now, "update", "pods", "admin")
	case "mirror":
		w.pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
		w.writePod(w.now, "update", "pods", "admin")
	case "leaves": // because of a DELETE by a user
		w.leaves(w.now, strings.Replace(words[1], "replica", keeperUser, 1))
	case "successor": // with the name of the pod
		w.pod.UID, w.pod.Spec.NodeName, w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = "uid-of-the-successor", "another", nil, nil
		w.pod.CreationTimestamp = metav1.NewTime(sec(w.now))
		w.writePod(w.now, "create", "pods", "admin")
	case "outage":
		w.ledger.episodes = append(w.ledger.episodes, episode{w.until(words[1]), "outage"})
	case "webhook":
		w.ledger.reviews = append(w.ledger.reviews, episode{w.until(words[2]), words[0]})
	case "calm": // the last fault ends
		w.calmed = sec(w.now)
	default:
		return false
	}
	return true
}

// does is what a replica does, or what happens to it; or what the built-in does, with either of its two users.
func (w *world) does(who, what string, words []string) bool {
	user := map[string]string{"built-in": auditlog.BuiltInAsServiceAccount, "manager": auditlog.BuiltInAsItself}[who]
	switch {
	case user != "" && what == "marks":
		w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "Taint manager: deleting"}}
		w.writePod(w.now, "patch", "pods/status", user)
		return true
	case user != "" && what == "deletes":
		w.leaves(w.now, user)
		return true
	case who != "a" && who != "b":
		return false
	}
	p := process{who, 1}
	switch what {
	case "evicts": // a whole eviction: the live read, the condition, the DELETE, and the end of the pod
		w.calls(p, w.now-0.02, getNode)
		w.calls(p, w.now-0.01, patchPod)
		w.calls(p, w.now, deletePod, words...)
		w.leaves(w.now+0.005, keeperUser)
	case "removes": // the pod, without having marked it
		w.calls(p, w.now-0.02, getNode)
		w.calls(p, w.now, deletePod)
		w.terminates(w.now+0.005, keeperUser)
	case "writes": // taints of the node
		w.node.Spec.Taints = taintsOf(words)
		w.writeNode(w.now, keeperUser)
	case "renews": // the eviction clock
		w.calls(p, w.now, clockCall)
		w.audit(w.now, w.now, "patch", "serviceaccounts", auditlog.EvictionClockName, keeperUser, 200, metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{auditlog.EvictionClockAnnotation: sec(w.now).Format(time.RFC3339)}},
		})
	default:
		kind, calls := map[string]callKind{"deletes": deletePod, "marks": patchPod, "gets": getPod, "reads": getNode}[what]
		if !calls {
			return w.suffers(p, what, words)
		}
		w.calls(p, w.now, kind, words...)
	}
	return true
}

// suffers is what happens to a replica.
func (w *world) suffers(p process, what string, words []string) bool {
	life := w.ledger.lives[map[string]int{"a": 0, "b": 1}[p.replica]]
	switch what {
	case "ends":
		life.ended = sec(w.now)
	case "stops": // is asked to
		life.stopped = sec(w.now)
	case "leads":
		w.ledger.holds("holder-"+p.replica, sec(w.now))
	case "starts": // it began two seconds before, and leads from now on
		life.began, w.ledger.reigns[0].from = sec(w.now-2), sec(w.now)
		w.watch(p, watchPods).opened, w.watch(p, watchNodes).opened = sec(w.now-1), sec(w.now-1)
	case "clock": // is wrong by so many seconds until
		w.ledger.wind(p.replica, time.Duration(seconds(words[0]))*time.Second, sec(w.now))
		w.ledger.wind(p.replica, 0, sec(seconds(words[2])))
	case "unwatches":
		w.watch(p, callKind("WATCH "+words[0])).closed = sec(w.now)
	case "watches": // again
		w.ledger.streams = append(w.ledger.streams, &stream{process: p, kind: callKind("WATCH " + words[0]), opened: sec(w.now)})
	case "stalls": // its watch, until
		s := w.watch(p, callKind("WATCH "+words[0]))
		s.stalls = append(s.stalls, w.until(words[2]))
	default:
		return false
	}
	return true
}

// calls adds a call by a replica. The words say what else is true of it; otherwise it goes through without a fault.
func (w *world) calls(p process, at float64, kind callKind, words ...string) {
	c := &call{
		process: p, kind: kind, name: theName, uid: w.pod.UID,
		received: sec(at), forwarded: sec(at), answered: sec(at + 0.005), told: sec(at + 0.006), answer: 200, heard: 200,
	}
	if kind == getNode {
		c.name, c.uid = theNode, ""
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "uid":
			c.uid = types.UID(value)
		case "name":
			c.name = value
		case "failing": // answered with an injected error
			c.forwarded, c.answered, c.answer, c.heard, c.faults = time.Time{}, time.Time{}, 0, 500, []faultKind{internalError}
		case "refused": // by admission
			c.answer, c.heard = 403, 403
		case "lost": // carried out without the replica's being told
			c.heard, c.faults = 0, []faultKind{droppedAnswer}
		case "answered": // only then
			c.answered, c.told = sec(seconds(value)), sec(seconds(value)+0.001)
		case "told": // only then
			c.told, c.faults = sec(seconds(value)), []faultKind{delayedAnswer}
		case "forwarded": // only then
			c.forwarded, c.answered = sec(seconds(value)), sec(seconds(value))
			c.told, c.faults = sec(seconds(value)+0.01), []faultKind{delayedCall}
		}
	}
	w.ledger.calls = append(w.ledger.calls, c)
}

// leaves makes the pod terminate. Replicas mark it first.
func (w *world) leaves(at float64, user string) {
	if user == keeperUser {
		w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: v1alpha1.MarkMessage}}
	}
	w.terminates(at, user)
}

func (w *world) terminates(at float64, user string) {
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &metav1.Time{Time: sec(at)}, new(int64(30))
	w.writePod(at, "delete", "pods", user)
}

func (w *world) writeNode(at float64, user string) {
	w.version++
	w.now, w.node.ResourceVersion = at, fmt.Sprint(w.version)
	w.audit(at, at, "update", "nodes", theNode, user, 200, w.node)
	nodeNotes{w.observer}.Changed(watch.Modified, w.node.DeepCopy())
}

func (w *world) writePod(at float64, verb, resource, user string) {
	w.version++
	w.now, w.pod.ResourceVersion = at, fmt.Sprint(w.version)
	w.audit(at, at, verb, resource, "pod", user, 200, w.pod)
	podNotes{w.observer}.Changed(watch.Modified, w.pod.DeepCopy())
}

// audit adds a line to the audit log.
func (w *world) audit(from, to float64, verb, resource, name, user string, code int, answer any) {
	of, sub, _ := strings.Cut(resource, "/")
	is := map[string]any{"uid": w.pod.UID}
	line, err := json.Marshal(map[string]any{
		"verb": verb, "user": map[string]any{"username": user}, "responseStatus": map[string]any{"code": code}, "responseObject": answer,
		"objectRef":                map[string]any{"resource": of, "subresource": sub, "namespace": "default", "name": name},
		"requestObject":            map[string]any{"metadata": is, "preconditions": is},
		"requestReceivedTimestamp": sec(from), "stageTimestamp": sec(to),
	})
	if err != nil {
		panic(err)
	}
	w.log.Write(append(line, '\n'))
}

// watch returns the newest watch of a process.
func (w *world) watch(p process, kind callKind) (newest *stream) {
	for _, s := range w.ledger.streams {
		if s.process == p && s.kind == kind {
			newest = s
		}
	}
	return newest
}

func (w *world) until(word string) span { return oracle.Between(sec(w.now), sec(seconds(word))) }

func seconds(word string) float64 {
	s, err := strconv.ParseFloat(word, 64)
	if err != nil {
		panic(err)
	}
	return s
}

// keyOf spells out the keys that have a long name.
func keyOf(word string) string {
	return strings.NewReplacer("not-ready", corev1.TaintNodeNotReady, "unreachable", corev1.TaintNodeUnreachable).Replace(word)
}

func taintsOf(words []string) (all []corev1.Taint) {
	for _, word := range words {
		word, added, dated := strings.Cut(word, "@")
		key, value, _ := strings.Cut(word, "=")
		taint := corev1.Taint{Key: keyOf(key), Value: value, Effect: corev1.TaintEffectNoExecute}
		if dated {
			taint.TimeAdded = &metav1.Time{Time: sec(seconds(added))}
		}
		all = append(all, taint)
	}
	return all
}

func tolerationsOf(words []string) (all []corev1.Toleration) {
	for _, word := range words {
		key, lasting, limited := strings.Cut(word, "=")
		toleration := corev1.Toleration{Key: keyOf(key), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if limited {
			toleration.TolerationSeconds = new(int64(seconds(lasting)))
		}
		all = append(all, toleration)
	}
	return all
}
