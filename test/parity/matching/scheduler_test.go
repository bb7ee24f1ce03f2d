// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
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

// snapshot gives what the scheduler knows of the nodes, in their order.
func snapshot(nodes []node) ([]fwk.NodeInfo, error) {
	var objects []*corev1.Node
	for i, n := range nodes {
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)},
			Spec:       corev1.NodeSpec{Taints: n.Taints, Unschedulable: n.Unschedulable},
		})
	}
	taken := cache.NewSnapshot(nil, objects)
	var infos []fwk.NodeInfo
	for _, object := range objects {
		info, err := taken.Get(object.Name)
		if err != nil {
			return nil, fmt.Errorf("take node %s out of the snapshot: %w", object.Name, err)
		}
		infos = append(infos, info)
	}
	return infos, nil
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

func (s *scheduler) filter(pod *corev1.Pod, info fwk.NodeInfo) refusal {
	s.log.taint = corev1.Taint{}
	status := s.taints.Filter(s.ctx, framework.NewCycleState(), pod, info)
	return refusal{Code: status.Code(), Message: status.Message(), Taint: s.log.taint}
}

func (s *scheduler) refusesCordoned(pod *corev1.Pod, info fwk.NodeInfo) bool {
	return !s.cordon.Filter(s.ctx, framework.NewCycleState(), pod, info).IsSuccess()
}

// score runs one scheduling cycle's worth of scoring: the raw score of each node, and the normalized one.
func (s *scheduler) score(pod *corev1.Pod, infos []fwk.NodeInfo) (raw, normalized []int64, err error) {
	state := framework.NewCycleState()
	if status := s.taints.PreScore(s.ctx, state, pod, infos); !status.IsSuccess() {
		return nil, nil, fmt.Errorf("PreScore: %w", status.AsError())
	}
	for _, info := range infos {
		score, status := s.taints.Score(s.ctx, state, pod, info)
		if !status.IsSuccess() {
			return nil, nil, fmt.Errorf("Score: %w", status.AsError())
		}
		raw = append(raw, score)
	}
	normalized, err = s.normalize(raw)
	return raw, normalized, err
}

func (s *scheduler) normalize(raw []int64) ([]int64, error) {
	list := make(fwk.NodeScoreList, len(raw))
	for i, score := range raw {
		list[i].Score = score
	}
	if status := s.taints.ScoreExtensions().NormalizeScore(s.ctx, framework.NewCycleState(), podWith(nil), list); !status.IsSuccess() {
		return nil, fmt.Errorf("NormalizeScore: %w", status.AsError())
	}
	normalized := make([]int64, len(raw))
	for i := range list {
		normalized[i] = list[i].Score
	}
	return normalized, nil
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
