// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
)

// tainter is the part of the plugin TaintToleration that the scheduler calls for a pod.
type tainter interface {
	fwk.FilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
}

// scheduler is upstream: its two plugins, made as the scheduler makes them.
type scheduler struct {
	ctx    context.Context
	taints tainter
	cordon fwk.FilterPlugin
	log    *logbook
}

// newScheduler makes the plugins with the feature gate as it is set: one takes it from its configuration, the other from
// the process.
func newScheduler(t *testing.T, operators bool) *scheduler {
	t.Helper()
	s := &scheduler{log: &logbook{}}
	s.ctx = klog.NewContext(t.Context(), s.log.logger())
	config := feature.Features{EnableTaintTolerationComparisonOperators: operators}
	taints, err := tainttoleration.New(s.ctx, nil, nil, config)
	if err != nil {
		t.Fatal(err)
	}
	cordon, err := nodeunschedulable.New(s.ctx, nil, nil, config)
	if err != nil {
		t.Fatal(err)
	}
	s.taints, s.cordon = taints.(tainter), cordon.(fwk.FilterPlugin)
	return s
}

// nodeInfo is what the scheduler knows of a node.
func nodeInfo(n node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{Spec: corev1.NodeSpec{Taints: n.Taints, Unschedulable: n.Unschedulable}})
	return info
}

func podWith(tolerations []corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerations}}
}

// refusal is what a filter says about a node. The zero value means that it lets the pod pass.
type refusal struct {
	Code    fwk.Code
	Message string
	// Taint is the one that the plugin names in its log, and nowhere else.
	Taint corev1.Taint
}

func (s *scheduler) filter(tolerations []corev1.Toleration, n node) refusal {
	s.log.taint = corev1.Taint{}
	status := s.taints.Filter(s.ctx, framework.NewCycleState(), podWith(tolerations), nodeInfo(n))
	return refusal{Code: status.Code(), Message: status.Message(), Taint: s.log.taint}
}

func (s *scheduler) refusesCordoned(tolerations []corev1.Toleration, n node) bool {
	return !s.cordon.Filter(s.ctx, framework.NewCycleState(), podWith(tolerations), nodeInfo(n)).IsSuccess()
}

// score runs one scheduling cycle's worth of scoring: the raw score of each node, and the normalized one.
func (s *scheduler) score(tolerations []corev1.Toleration, nodes []node) (raw, normalized []int64) {
	state, pod := framework.NewCycleState(), podWith(tolerations)
	var infos []fwk.NodeInfo
	for _, n := range nodes {
		infos = append(infos, nodeInfo(n))
	}
	must(s.taints.PreScore(s.ctx, state, pod, infos))
	for _, info := range infos {
		score, status := s.taints.Score(s.ctx, state, pod, info)
		must(status)
		raw = append(raw, score)
	}
	return raw, s.normalize(raw)
}

func (s *scheduler) normalize(raw []int64) []int64 {
	list := make(fwk.NodeScoreList, len(raw))
	for i, score := range raw {
		list[i].Score = score
	}
	must(s.taints.ScoreExtensions().NormalizeScore(s.ctx, framework.NewCycleState(), podWith(nil), list))
	normalized := make([]int64, len(raw))
	for i := range list {
		normalized[i] = list[i].Score
	}
	return normalized
}

// must panics if a plugin does not succeed, which is then what the input shows.
func must(status *fwk.Status) {
	if !status.IsSuccess() {
		panic(status.AsError())
	}
}

// logbook is a log that counts its lines, and keeps the taint that the plugin names last. It is not safe for concurrent
// use.
type logbook struct {
	lines int
	taint corev1.Taint
}

func (l *logbook) logger() logr.Logger { return logr.New(l) }

// Info implements logr.LogSink.
func (l *logbook) Info(_ int, _ string, keysAndValues ...any) {
	l.lines++
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		if taint, ok := keysAndValues[i+1].(corev1.Taint); ok && keysAndValues[i] == "untoleratedTaint" {
			l.taint = taint
		}
	}
}

func (l *logbook) Init(logr.RuntimeInfo)          {}
func (l *logbook) Enabled(int) bool               { return true }
func (l *logbook) Error(error, string, ...any)    { l.lines++ }
func (l *logbook) WithValues(...any) logr.LogSink { return l }
func (l *logbook) WithName(string) logr.LogSink   { return l }
