// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const durationMetric = "taint_eviction_controller_pod_deletion_duration_seconds"

// playDuration evicts pods and reads how long the contestant says that took.
func playDuration(ctx context.Context, s *scene) (finding, error) {
	node, err := s.node(ctx, "tainted")
	if err != nil {
		return finding{}, err
	}
	pods, err := s.Pods(ctx, 5, node)
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, node, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	if _, err := s.observer.Await(ctx, began.Add(time.Minute), pods...); err != nil {
		return finding{}, err
	}
	took := time.Since(began)
	if err := pause(ctx, time.Second); err != nil {
		return finding{}, err
	}
	scraped, err := s.contestant.scrape(ctx)
	if err != nil {
		return finding{}, err
	}
	histogram, err := scraped.histogram(durationMetric)
	if err != nil {
		return finding{}, err
	}
	found := judgeDuration(histogram)
	found.seen += fmt.Sprintf(" (five of them took %s in all)", seconds(took))
	return found, nil
}

func judgeDuration(h *dto.Histogram) finding {
	var within uint64
	limit := 0.0
	for _, bucket := range h.GetBucket() {
		if bucket.GetUpperBound() <= 240 { // the last finite one
			within, limit = bucket.GetCumulativeCount(), bucket.GetUpperBound()
		}
	}
	count, sum := h.GetSampleCount(), h.GetSampleSum()
	return finding{
		seen:  fmt.Sprintf("%d of %d samples above %.0f s, their sum %.3g s", count-within, count, limit, sum),
		right: count > 0 && within == count && sum >= 0 && sum <= limit*float64(count),
	}
}

// playVisibility looks for what an operator can see of evictions, while one is pending.
func playVisibility(ctx context.Context, s *scene) (finding, error) {
	pod, err := s.lonelyPod(ctx, "pending", rig.Tolerating("gone", longTime))
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone")); err != nil {
		return finding{}, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return finding{}, err
	}
	scraped, err := s.contestant.scrape(ctx)
	if err != nil {
		return finding{}, err
	}
	help, err := exec.CommandContext(ctx, s.contestant.program(), "--help").CombinedOutput()
	if err != nil {
		return finding{}, fmt.Errorf("ask %s for its flags: %w", s.contestant.program(), err)
	}
	return judgeVisibility(scraped, string(help)), nil
}

var dryRunFlag = regexp.MustCompile(`(?m)^\s*--dry-run\b`)

func judgeVisibility(scraped metrics, help string) finding {
	pending, results := 0.0, false
	for _, family := range scraped.aboutEvictions() {
		if family.GetType() == dto.MetricType_GAUGE && strings.Contains(family.GetName(), "pending") {
			pending = family.GetMetric()[0].GetGauge().GetValue()
		}
		results = results || hasLabel(family, "result")
	}
	return finding{right: true}.
		and(presence(pending > 0, "gauge of pending evictions")).
		and(presence(results, "result on a metric")).
		and(presence(dryRunFlag.MatchString(help), "dry run"))
}

// presence writes whether there is something that should be.
func presence(there bool, what string) (seen string, right bool) {
	if there {
		return "a " + what, true
	}
	return "no " + what, false
}

// junk is the value of a taint that is no integer, as the log of a contestant shows it.
const junk = "not-a-number"

// playJunk lets tolerations with Gt meet a value that is no integer, five times.
func playJunk(ctx context.Context, s *scene) (finding, error) {
	mark, err := markLog(s.contestant.log())
	if err != nil {
		return finding{}, err
	}
	pod, err := s.lonelyPod(ctx, "choosy", comparing("quality", 10))
	if err != nil {
		return finding{}, err
	}
	value := rig.NoExecute("quality")
	value.Value = junk
	began, err := s.taint(ctx, pod.Spec.NodeName, value)
	if err != nil {
		return finding{}, err
	}
	for i := range 4 {
		if err := pause(ctx, time.Second); err != nil {
			return finding{}, err
		}
		if _, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute(fmt.Sprintf("other-%d", i))); err != nil {
			return finding{}, err
		}
	}
	d, err := s.observer.departure(ctx, pod, began, never, 5*time.Second)
	if err != nil {
		return finding{}, err
	}
	lines, err := mark.lines(junk)
	if err != nil {
		return finding{}, err
	}
	found := finding{seen: counted(lines, "line", "lines") + " in the log", right: lines == 0}
	if d.left {
		found = found.and("the pod "+d.String()+" although it tolerates everything in the end", false)
	}
	return found, nil
}

// comparing lets a pod tolerate a value greater than some integers, and everything else for ever.
func comparing(key string, count int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i := range count {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpGt, Value: fmt.Sprint(i), Effect: corev1.TaintEffectNoExecute,
			})
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
}
