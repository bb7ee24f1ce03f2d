// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

const (
	// At 20 calls per second, three calls and an event for each of 200 pods take 40 s.
	untaintPods = 200
	stormPods   = 150
	queuePods   = 80
	crowd       = 2000
	// stormLimit is how long a storm may last.
	stormLimit = 2 * time.Minute
)

// storm fails unless the first pod leaves promptly and all leave with about two calls each. If a controller reads all
// pods first, the first one waits long.
func storm(ctx context.Context, p *Play) (Finding, error) {
	began := p.Began(p.Named("pod-0"))
	left, err := p.Seen().Await(ctx, began.Add(stormLimit), p.Everyone()...)
	if err != nil {
		return Finding{}, err
	}
	calls, err := callsWithDeletes(ctx, p, stormPods-left)
	return judgeStorm(calls, began, p.Stalled), err
}

// callsWithDeletes returns the calls on pods once they include this many deletes, or after 5 s. It waits because the
// watch can show a delete before the audit log does.
func callsWithDeletes(ctx context.Context, p *Play, deletes int) ([]auditlog.Event, error) {
	const often, atMost = 50 * time.Millisecond, 5 * time.Second
	for until := time.Now().Add(atMost); ; {
		calls, err := p.Calls(auditlog.In(p.Namespace), onPods)
		done := len(auditlog.Choose(calls, auditlog.Deletes, auditlog.Accepted))
		if err != nil || done >= deletes || time.Now().After(until) {
			return calls, err
		}
		if err := await.Pause(ctx, often); err != nil {
			return nil, err
		}
	}
}

// onPods selects calls on pods, not on events.
func onPods(c auditlog.Event) bool { return strings.HasPrefix(c.Resource, "pods") }

func judgeStorm(calls []auditlog.Event, began time.Time, stalled func(from, to time.Time) time.Duration) Finding {
	deletes := auditlog.Choose(calls, auditlog.Deletes, auditlog.Accepted)
	if len(deletes) == 0 {
		return Finding{Seen: "nothing deleted"}
	}
	first, last := deletes[0].Answered.Sub(began), deletes[len(deletes)-1].Answered.Sub(began)
	perPod := float64(len(calls)) / float64(len(deletes))
	return Finding{
		Seen: fmt.Sprintf("%d of %d deleted, the first after %s, the last after %s; %.1f calls per pod",
			len(deletes), stormPods, Seconds(first), Seconds(last), perPod),
		Right: len(deletes) == stormPods && first <= stall.Bound+stalled(began, deletes[0].Answered) && perPod < 2.5,
	}
}

// cancelledNot fails if an event says that the deletion of a pod is cancelled although another client deleted it.
func cancelledNot(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		said, err := p.Events(ctx, pod, Cancelling)
		return Finding{
			Seen: "event 'Cancelling deletion' for the pod that another client deleted: " + Times(len(said)), Right: len(said) == 0,
		}, err
	}
}

// marked fails unless the events of an eviction have the pod's UID.
func marked(pod string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		said, err := p.Events(ctx, pod, "Marking for deletion")
		return judgeMarks(said, p.Named(pod).Pod), err
	}
}

func judgeMarks(said []corev1.Event, pod *corev1.Pod) Finding {
	if len(said) == 0 {
		return Finding{Seen: "no 'Marking for deletion' of the evicted pod"}
	}
	identified := 0
	for _, event := range said {
		if event.InvolvedObject.UID == pod.UID {
			identified++
		}
	}
	return Finding{
		Seen:  fmt.Sprintf("'Marking for deletion' with the pod's UID: %d of %d", identified, len(said)),
		Right: identified == len(said),
	}
}

const durationMetric = "taint_eviction_controller_pod_deletion_duration_seconds"

// durations reads how long evictions took according to the contestant's histogram.
func durations(ctx context.Context, p *Play) (Finding, error) {
	if err := await.Pause(ctx, time.Second); err != nil {
		return Finding{}, err
	}
	scraped, err := stageOf(p).contestant.scrape(ctx)
	if err != nil {
		return Finding{}, err
	}
	durations, err := scraped.only(durationMetric)
	return judgeDuration(durations.GetHistogram()), err
}

func judgeDuration(h *dto.Histogram) Finding {
	var within uint64
	limit := 0.0
	for _, bucket := range h.GetBucket() {
		if bucket.GetUpperBound() <= 240 { // the last finite one
			within, limit = bucket.GetCumulativeCount(), bucket.GetUpperBound()
		}
	}
	count, sum := h.GetSampleCount(), h.GetSampleSum()
	return Finding{
		Seen:  fmt.Sprintf("%d of %d samples above %.0f s, their sum %.3g s", count-within, count, limit, sum),
		Right: count > 0 && within == count && sum >= 0 && sum <= limit*float64(count),
	}
}

// visibility checks what an operator can see of evictions while one is pending.
func visibility(ctx context.Context, p *Play) (Finding, error) {
	contestant := stageOf(p).contestant
	scraped, err := contestant.scrape(ctx)
	if err != nil {
		return Finding{}, err
	}
	help, err := exec.CommandContext(ctx, contestant.program(), "--help").CombinedOutput()
	if err != nil {
		return Finding{}, fmt.Errorf("ask %s for its flags: %w", contestant.program(), err)
	}
	return judgeVisibility(scraped, string(help)), nil
}

var dryRunFlag = regexp.MustCompile(`(?m)^\s*--dry-run\b`)

func judgeVisibility(scraped metrics, help string) Finding {
	pending, results := 0.0, false
	for _, family := range scraped.aboutEvictions() {
		if family.GetType() == dto.MetricType_GAUGE && strings.Contains(family.GetName(), "pending") {
			pending = family.GetMetric()[0].GetGauge().GetValue()
		}
		results = results || hasLabel(family, "result")
	}
	return presence(pending > 0, "gauge of pending evictions").
		And(presence(results, "metric with the result")).
		And(presence(dryRunFlag.MatchString(help), "dry run"))
}

// presence reports whether something that should exist does.
func presence(there bool, what string) Finding {
	if there {
		return Finding{Seen: "a " + what, Right: true}
	}
	return Finding{Seen: "no " + what}
}

// goroutines makes many pods pending, then due at once, and weighs the contestant after each step.
func goroutines(ctx context.Context, p *Play) (Finding, error) {
	var weights []weight
	for _, step := range []Step{After(0), Taint("tainted", "soon"), Taint("tainted", "now")} {
		if err := step(ctx, p); err != nil {
			return Finding{}, err
		}
		weighed, err := weigh(ctx, stageOf(p).contestant)
		if err != nil {
			return Finding{}, err
		}
		weights = append(weights, weighed)
	}
	return judgeCrowd(weights[0], weights[1], weights[2]), nil
}

// weight is the number of goroutines and the memory of a process.
type weight struct{ goroutines, bytes float64 }

// weigh returns the highest of three scrapes, a second apart.
func weigh(ctx context.Context, c contestant) (weight, error) {
	var most weight
	for range 3 {
		if err := await.Pause(ctx, time.Second); err != nil {
			return most, err
		}
		scraped, err := c.scrape(ctx)
		if err != nil {
			return most, err
		}
		goroutines, err := scraped.only("go_goroutines")
		if err != nil {
			return most, err
		}
		bytes, err := scraped.only("process_resident_memory_bytes")
		if err != nil {
			return most, err
		}
		most = weight{max(most.goroutines, goroutines.GetGauge().GetValue()), max(most.bytes, bytes.GetGauge().GetValue())}
	}
	return most, nil
}

// judgeCrowd fails if the number of goroutines grows with the number of pods. Memory depends on garbage collection, so
// it is only shown.
func judgeCrowd(before, pending, due weight) Finding {
	mebibytes := func(w weight) string { return fmt.Sprintf("%.0f MiB", w.bytes/(1<<20)) }
	more := max(pending.goroutines, due.goroutines) - before.goroutines
	return Finding{
		Seen: fmt.Sprintf("goroutines: %.0f before, %.0f with the pods pending, %.0f with the pods due; memory: %s, %s, %s",
			before.goroutines, pending.goroutines, due.goroutines, mebibytes(before), mebibytes(pending), mebibytes(due)),
		Right: more < crowd/10,
	}
}

// junk is a taint value that is not an integer, as it appears in a contestant's log.
const junk = "not-a-number"

// junkTaint sets a taint with that value.
func junkTaint(node string) Step {
	return AddTaints(node, corev1.Taint{Key: "quality", Value: junk, Effect: corev1.TaintEffectNoExecute})
}

// silent fails if a line of the log contains words.
func silent(words string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		n, err := lines(stageOf(p).contestant.log(), words)
		return Finding{Seen: sentence.Counted(n, "line") + " in the log", Right: n == 0}, err
	}
}

// says adds words to the finding if a line of the log contains them. It never fails.
func says(words string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		n, err := lines(stageOf(p).contestant.log(), words)
		if n == 0 {
			return Finding{Right: true}, err
		}
		return Finding{Seen: "its log: '" + words + "'", Right: true}, err
	}
}

// lines returns how many lines of a log contain words.
func lines(path, words string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read a log: %w", err)
	}
	n := 0
	for line := range bytes.Lines(content) {
		if bytes.Contains(line, []byte(words)) {
			n++
		}
	}
	return n, nil
}

// fewWrites fails if the contestant fights another writer of a node. One write per second would be 20.
func fewWrites(node string) Check {
	const few = 8
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := p.Calls(auditlog.In(metav1.NamespaceNone), nodeWrites, auditlog.Named(p.NodeName(node)),
			auditlog.Since(p.Began(p.Named(node))))
		return Finding{Seen: sentence.Counted(len(calls), "write") + " to the node", Right: len(calls) <= few}, err
	}
}

// nodeWrites selects writes to the node itself, not to its status.
func nodeWrites(c auditlog.Event) bool {
	return c.Resource == "nodes" && (c.Verb == "patch" || c.Verb == "update")
}
