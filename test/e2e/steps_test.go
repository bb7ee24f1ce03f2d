// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// namespaceOf makes a prefix of namespaces from the name of a test.
func namespaceOf(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "Test"), "/")
	return strings.ToLower(name)
}

// keptAlive waits until a held pod has the toleration with which it survives a restart of its kubelet. Simulated kubelets
// end no pods; test/kubelets plays that.
func keptAlive(name string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			pod, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(pod.Spec.Tolerations, taints.IsForNoTime) {
				err = fmt.Errorf("pod %s tolerates only %v", name, pod.Spec.Tolerations)
			}
			return err
		})
	}
}

// countdowns makes pods on a node, one of which is due every second after its taint "gone".
func countdowns(node string, count int) Step {
	var all []Step
	for i := range count {
		all = append(all, On(node, fmt.Sprintf("in-%d", i), scene.Tolerating("gone", int64(i))))
	}
	return Steps(all...)
}

// awaitDeletes waits until the contestant has deleted this many pods of the scene, and returns its calls about pods and
// those of them that are accepted deletes, in order. If it does not happen, it says so.
func awaitDeletes(ctx context.Context, p *Play, count int) (calls, deletes []auditlog.Event, missing string) {
	err := await.Poll(ctx, func(context.Context) (err error) {
		calls, err = p.Calls(auditlog.In(p.Namespace), func(c auditlog.Event) bool { return strings.HasPrefix(c.Resource, "pods") })
		deletes = auditlog.Choose(calls, auditlog.Deletes, auditlog.Accepted)
		if err == nil && len(deletes) < count {
			err = fmt.Errorf("%d of %d pods have left", len(deletes), count)
		}
		return err
	})
	if err != nil {
		missing = err.Error()
	}
	slices.SortFunc(deletes, auditlog.Event.Compare)
	return calls, deletes, missing
}

// storm wants the first of many pods to leave promptly, and all of them to leave with two calls each.
func storm(ctx context.Context, p *Play) (Finding, error) {
	calls, deletes, missing := awaitDeletes(ctx, p, stormPods)
	if missing != "" {
		return Finding{Seen: missing}, nil
	}
	tainted, first := p.Began(p.Named("pod-0")), deletes[0].Answered
	perPod := float64(len(calls)) / stormPods
	return Finding{
		Seen:  fmt.Sprintf("the first pod left after %s; %.1f calls per pod", Seconds(first.Sub(tainted)), perPod),
		Right: first.Sub(tainted) <= cluster.Stalls().Allowed(tainted, first) && perPod < 2.5,
	}, nil
}

// leftBy wants exactly this many pods to have left, by calls of a kind, and no other call to have been accepted. A
// conflict would have cost a budget something.
func leftBy(count int, verbAndResource string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := p.Calls(auditlog.In(p.Namespace), leaves, func(c auditlog.Event) bool {
			return c.Accepted() || c.Code == http.StatusConflict
		})
		right := len(calls) == count
		for _, c := range calls {
			right = right && c.Accepted() && c.Verb+" "+c.Resource == verbAndResource
		}
		return Finding{Seen: fmt.Sprintf("pods left by %v", calls), Right: right}, err
	}
}

// allStay wants every pod to be there.
func allStay(ctx context.Context, p *Play) (Finding, error) {
	left, err := p.Seen().Await(ctx, time.Now(), p.Everyone()...)
	return Finding{Seen: fmt.Sprintf("%d of %d pods stay", left, len(p.Everyone())), Right: left == len(p.Everyone())}, err
}

// restartAPIServer lets pods that are due wait for it.
var restartAPIServer = outageDuring(stopAPIServer, After(2*time.Second), startAPIServer)

// outageDuring is an outage of the API server, or of Taintkeeper's way to it, during some steps. Whatever is late until
// the end of the story, because watches are opened again only then, is excused.
func outageDuring(begin, between, end Step) Step {
	return func(ctx context.Context, p *Play) error {
		s, from := stageOf(p), time.Now()
		err := begin(ctx, p)
		begun := time.Now().Add(time.Second)
		err = errors.Join(err, between(ctx, p))
		over := time.Now()
		err = errors.Join(err, end(ctx, p))
		s.mu.Lock()
		s.outages = append(s.outages, outage{from, time.Now().Add(stall.Bound)})
		s.mu.Unlock()
		s.recovering.Store(true)
		p.Finally(func(context.Context) error { s.recovering.Store(false); return nil })
		p.Excuse(time.Now())
		calls, failed := p.Calls(auditlog.Since(begun), func(c auditlog.Event) bool { return c.Received.Before(over) })
		if len(calls) > 0 {
			failed = fmt.Errorf("there was no outage: %v", calls)
		}
		return errors.Join(err, failed)
	}
}

func stopAPIServer(ctx context.Context, _ *Play) error  { return cluster.StopAPIServer(ctx) }
func killAPIServer(ctx context.Context, _ *Play) error  { return cluster.KillAPIServer(ctx) }
func startAPIServer(ctx context.Context, _ *Play) error { return cluster.StartAPIServer(ctx) }

// freeze stops processes, and thaw lets them go on. The clock runs on, and all connections stay open, as if a container
// or a virtual machine were paused.
func freeze(components ...localcluster.Component) Step {
	return func(context.Context, *Play) error { return cluster.Freeze(components...) }
}

func thaw(components ...localcluster.Component) Step {
	return func(context.Context, *Play) error { return cluster.Thaw(components...) }
}

func restartBuiltIn(ctx context.Context, p *Play) error {
	return cluster.RestartControllerManager(ctx, stageOf(p).manager())
}

// reported wants shadow mode to report that one pod left on time and another one late.
func reported(punctual, late string) Check {
	return func(ctx context.Context, _ *Play) (Finding, error) {
		report := &v1alpha1.ShadowReport{}
		err := await.Poll(ctx, func(ctx context.Context) error {
			found, err := cluster.ShadowReport(ctx, metav1.NamespaceSystem)
			if err != nil {
				return err
			}
			if report = found; report.Pods[v1alpha1.ShadowOnTime] != 1 || report.Pods[v1alpha1.ShadowLate] != 1 {
				return fmt.Errorf("outcomes %v, differences %+v; want pod %s on time", report.Pods, report.Differences, punctual)
			}
			return nil
		})
		if len(report.Differences) == 0 {
			return Finding{Seen: fmt.Sprint("shadow mode reports no difference: ", err)}, nil
		}
		said := report.Differences[0]
		right := err == nil && said.Pod == late && strings.Contains(said.Sentence, "the built-in controller restarted its countdown of 12 s at")
		return Finding{Seen: said.Sentence, Right: right}, nil
	}
}

// reportedNever wants shadow mode to report that a pod was never deleted.
func reportedNever(pod string) Check {
	return func(ctx context.Context, _ *Play) (Finding, error) {
		err := await.Poll(ctx, func(ctx context.Context) error {
			report, err := cluster.ShadowReport(ctx, metav1.NamespaceSystem)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(report.Differences, func(d v1alpha1.ShadowDifference) bool {
				return d.Pod == pod && d.Outcome == v1alpha1.ShadowNever && strings.Contains(d.Sentence, "but it was not deleted")
			}) {
				return fmt.Errorf("the report does not say so: %+v", report.Differences)
			}
			return nil
		})
		return Finding{Seen: fmt.Sprintf("pod %s was never deleted: %v", pod, err), Right: err == nil}, nil
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}

// metricsAreRight wants at least one pod to be pending, and every duration of an eviction to be plausible in seconds.
// Other stories are played meanwhile.
func metricsAreRight(ctx context.Context, p *Play) (Finding, error) {
	metrics, err := scraped(ctx, stageOf(p).replicas[0])
	if err != nil {
		return Finding{}, err
	}
	gauge, histogram := metrics["taintkeeper_pending_evictions"], metrics["taint_eviction_controller_pod_deletion_duration_seconds"]
	if len(gauge.GetMetric()) == 0 || len(histogram.GetMetric()) == 0 {
		return Finding{Seen: "a metric is missing"}, nil
	}
	pending, durations := gauge.GetMetric()[0].GetGauge().GetValue(), histogram.GetMetric()[0].GetHistogram()
	return Finding{
		Seen:  fmt.Sprintf("%v evictions are pending, and durations are %v", pending, durations),
		Right: pending >= 1 && durations.GetSampleCount() > 0 && isPlausible(durations),
	}, nil
}

// isPlausible reports whether a mean duration is of seconds, and whether all are in finite buckets.
func isPlausible(durations *dto.Histogram) bool {
	count, sum := durations.GetSampleCount(), durations.GetSampleSum()
	finite := uint64(0)
	for _, bucket := range durations.GetBucket() {
		if bucket.GetUpperBound() < 1000 {
			finite = bucket.GetCumulativeCount()
		}
	}
	return finite == count && sum > 0 && sum < float64(count)*240
}
