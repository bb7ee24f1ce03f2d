// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// notAsked are plugins of the default profile that are left out, because a plan does not read what they read, or
// because they act instead of answering; [Room.Preempt] asks the part of preemption that decides. notAskedInWords tells
// the reader of the plan.
var notAsked = []string{
	names.DynamicResources, names.DefaultPreemption, names.NodeDeclaredFeatures, names.GangScheduling,
	names.TopologyPlacementGenerator, names.PodGroupPodsCount,
}

// byItself are plugins whose score of a node depends only on that node and the shape of a pod. The sum of their scores
// is valid as long as the node does not change. Other scores depend on other nodes, or on more of the pod.
var byItself = []string{names.NodeResourcesFit, names.NodeResourcesBalancedAllocation}

const notAskedInWords = "The default profile of Kubernetes 1.37's scheduler says where pods would go. It does not take into account " +
	"resource claims (DRA), free storage capacity, features that nodes declare, or third-party plugins, profiles and extenders."

// initScheduler creates the scheduler's metrics, which its plugins increment. They are never registered, so nothing is
// kept. It sets the feature gate that [plan.Rule] assumes.
var initScheduler = sync.OnceFunc(func() {
	metrics.InitMetrics()
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.TaintTolerationComparisonOperators): true,
	}))
})

// scheduler is the part of kube-scheduler that decides: its cache, a snapshot of the cache, and the plugins that read
// it.
type scheduler struct {
	cache     schedulercache.Cache
	snapshot  *schedulercache.Snapshot
	counted   *counted
	occupied  []occupied // the nodes with the pods that count, by index
	podCounts podCounts
	defaults  defaults
	framework framework.Framework // all filters, and all scores except byItself
	itself    framework.Framework // the scores byItself
	// preemption says which pods make room for others, and nominated are the pods that wait for that.
	preemption *preemption.Evaluator
	nominated  *nominations
	// indifferent are the plugins that give all nodes the same score, or nil if not known.
	indifferent []string
	nodes       []fwk.NodeInfo // all nodes, in the scheduler's order
	places      map[string]int // the indexes of nodes in that list, by name
	changed     []int          // the indexes of changed nodes, in the order of the changes
	pods        int            // how many there are at the start
	// terminating are pods that started to terminate after that, and are still on their nodes.
	terminating map[types.UID]bool
	next        int                    // where the next sample of nodes begins, as in the scheduler
	said        map[string]*fwk.Status // what nodes say, by its text
}

// newScheduler returns a scheduler that knows the given nodes and pods. It lives as long as the context.
func newScheduler(ctx context.Context, cluster *state.Cluster,
	nodes []*corev1.Node, pods []*corev1.Pod) (*scheduler, error) {
	initScheduler()
	factory, err := informersOf(cluster)
	if err != nil {
		return nil, err
	}
	s := &scheduler{
		cache: schedulercache.New(ctx, nil, false, false), snapshot: schedulercache.NewEmptySnapshot(),
		podCounts: podCounts{}, defaults: defaultsOf(factory), pods: len(pods),
		terminating: map[types.UID]bool{}, said: map[string]*fwk.Status{},
		nominated: &nominations{pods: map[string][]fwk.PodInfo{}, on: map[types.UID]string{}},
	}
	s.counted = &counted{SharedLister: s.snapshot}
	for _, node := range nodes {
		s.cache.AddNode(noLogs, node)
	}
	for _, pod := range pods {
		if err := s.cache.AddPod(noLogs, pod); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if err := s.podCounts.add(pod, 1); err != nil {
			return nil, err
		}
	}
	if err := s.update(); err != nil {
		return nil, err
	}
	if s.nodes, err = s.snapshot.NodeInfos().List(); err != nil {
		return nil, fmt.Errorf("list the scheduler's nodes: %w", err)
	}
	s.places, s.occupied = make(map[string]int, len(s.nodes)), make([]occupied, len(s.nodes))
	for i, node := range s.nodes {
		s.places[node.Node().Name], s.occupied[i].NodeInfo = i, node
	}
	if s.framework, err = newFramework(ctx, factory, s, scoreOthers); err != nil {
		return nil, err
	}
	if s.preemption, err = newPreemption(ctx, s.framework); err != nil {
		return nil, err
	}
	s.itself, err = newFramework(ctx, factory, s, scoreItself)
	return s, err
}

// noLogs discards the scheduler's logs, because a command prints only its answer.
var noLogs = logr.Discard()

// scoreOthers disables the scores of the plugins byItself, but not their filters.
func scoreOthers(plugins *config.Plugins) {
	for _, name := range byItself {
		plugins.PreScore.Disabled = append(plugins.PreScore.Disabled, config.Plugin{Name: name})
		plugins.Score.Disabled = append(plugins.Score.Disabled, config.Plugin{Name: name})
	}
}

// scoreItself disables all other plugins, except those that a framework requires.
func scoreItself(plugins *config.Plugins) {
	needed := slices.Concat(byItself, []string{names.PrioritySort, names.DefaultBinder})
	plugins.MultiPoint.Enabled = slices.DeleteFunc(plugins.MultiPoint.Enabled, func(plugin config.Plugin) bool {
		return !slices.Contains(needed, plugin.Name)
	})
}

func newFramework(ctx context.Context, factory informers.SharedInformerFactory,
	s *scheduler, choose func(*config.Plugins)) (framework.Framework, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's default profile: %w", err)
	}
	profile := &defaults.Profiles[0]
	asked := &profile.Plugins.MultiPoint
	asked.Enabled = slices.DeleteFunc(asked.Enabled, func(plugin config.Plugin) bool {
		return slices.Contains(notAsked, plugin.Name)
	})
	choose(profile.Plugins)
	registry := plugins.NewInTreeRegistry()
	spread := registry[names.PodTopologySpread]
	registry[names.PodTopologySpread] = func(
		ctx context.Context, args k8sruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return spread(ctx, args, spreadHandle{handle, s.counted})
	}
	made, err := runtime.NewFramework(klog.NewContext(ctx, noLogs), registry, profile,
		runtime.WithInformerFactory(factory),
		runtime.WithSnapshotSharedLister(s.snapshot),
		runtime.WithMutableSnapshotLister(s.snapshot),
		runtime.WithPodNominator(s.nominated),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		runtime.WithLogger(noLogs),
		runtime.WithParallelism(goruntime.GOMAXPROCS(0)),
	)
	if err != nil {
		return nil, fmt.Errorf("start the scheduler's plugins: %w", err)
	}
	return made, nil
}

func (s *scheduler) update() error {
	if err := s.cache.UpdateSnapshot(noLogs, s.snapshot); err != nil {
		return fmt.Errorf("take a snapshot for the scheduler: %w", err)
	}
	return nil
}

// changes records that a node changes.
func (s *scheduler) changes(name string) {
	if place, known := s.places[name]; known {
		s.changed = append(s.changed, place)
	}
}

// changedSince returns the indexes of the nodes that changed after the given number of changes.
func (s *scheduler) changedSince(changes int) []int {
	return slices.Compact(slices.Sorted(slices.Values(s.changed[changes:])))
}

// updateNode replaces a node that has changed. Plugins see it after the next update.
func (s *scheduler) updateNode(before, after *corev1.Node) {
	s.changes(after.Name)
	s.indifferent = nil
	s.cache.UpdateNode(noLogs, before, after)
}

// remove removes a pod from its node. Plugins see it after the next update.
func (s *scheduler) remove(pod *corev1.Pod) error {
	s.changes(pod.Spec.NodeName)
	if err := s.cache.RemovePod(noLogs, pod); err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if s.terminating[pod.UID] { // it no longer counts
		delete(s.terminating, pod.UID)
		return nil
	}
	return s.podCounts.add(pod, -1)
}

// terminate marks a pod as terminating; it stays on its node. Plugins see it after the next update.
func (s *scheduler) terminate(pod *corev1.Pod) error {
	s.changes(pod.Spec.NodeName)
	terminating := *pod
	terminating.DeletionTimestamp = &metav1.Time{}
	if err := s.cache.UpdatePod(noLogs, pod, &terminating); err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.terminating[pod.UID] = true
	return s.podCounts.add(pod, -1)
}

// place puts a pod on the node with the best score of those that fit, and returns its name.
func (s *scheduler) place(ctx context.Context, state fwk.CycleState, l *leaver, fits []int) (string, error) {
	node, err := s.pick(ctx, state, l, fits)
	if err != nil {
		return "", err
	}
	return node, s.bind(ctx, state, l.successor, node)
}

// bind puts a pod on a node, with the volumes that were chosen there.
func (s *scheduler) bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) error {
	placed := *pod
	placed.Spec.NodeName = node
	if status := s.framework.RunReservePluginsReserve(ctx, state, &placed, node); !status.IsSuccess() {
		return status.AsError()
	}
	s.changes(node)
	s.nominated.remove(pod)
	if err := s.cache.AddPod(noLogs, &placed); err != nil {
		return err
	}
	if err := s.podCounts.add(&placed, 1); err != nil {
		return err
	}
	return s.update()
}

// count limits what PodTopologySpread sees to the pods that count, if a pod is spread by default: on all nodes, and on
// the nodes to score, which it returns. For a pod that has constraints, all pods count.
func (s *scheduler) count(pod *corev1.Pod, sample []int) []fwk.NodeInfo {
	for _, node := range s.counted.nodes {
		node.(*occupied).pods = nil
	}
	s.counted.nodes = nil
	toScore := make([]fwk.NodeInfo, len(sample))
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		for i, place := range sample {
			toScore[i] = s.nodes[place]
		}
		return toScore
	}
	s.counted.nodes = []fwk.NodeInfo{&s.occupied[0]} // without any node the plugin would not score at all
	pods := s.podCounts.find(pod.Namespace, s.defaults.selector(pod))
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		place, known := s.places[name]
		if !known {
			continue
		}
		if s.occupied[place].pods = pods[name]; place > 0 {
			s.counted.nodes = append(s.counted.nodes, &s.occupied[place])
		}
	}
	for i, place := range sample {
		toScore[i] = &s.occupied[place]
	}
	return toScore
}

// pick returns the node with the best score. It scores as many nodes as the scheduler does: in a large cluster only
// some, starting where it stopped the last time. If scores are equal, it takes the first, where the scheduler chooses
// at random.
func (s *scheduler) pick(ctx context.Context, state fwk.CycleState, l *leaver, fits []int) (string, error) {
	if len(fits) == 1 {
		return s.nodes[fits[0]].Node().Name, nil
	}
	if s.indifferent == nil {
		s.indifferent = indifferent(s.nodes)
	}
	sample := s.sample(fits)
	scores, err := score(ctx, s.framework, state, l.successor, s.count(l.successor, sample), s.indifferent...)
	if err != nil {
		return "", err
	}
	known, err := s.knownScores(ctx, l, sample)
	if err != nil {
		return "", err
	}
	best := 0
	for i := range scores {
		scores[i].TotalScore += known[sample[i]]
		if scores[i].TotalScore > scores[best].TotalScore ||
			scores[i].TotalScore == scores[best].TotalScore && scores[i].Name < scores[best].Name {
			best = i
		}
	}
	return scores[best].Name, nil
}

// score returns the scores of nodes. It skips plugins that are indifferent.
func score(ctx context.Context, by framework.Framework, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo, indifferent ...string) ([]fwk.NodePluginScores, error) {
	if status := by.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	state.GetSkipScorePlugins().Insert(indifferent...)
	scores, status := by.RunScorePlugins(ctx, state, pod, nodes)
	return scores, status.AsError()
}

// indifferent returns the plugins that give all nodes the same score, because no node has what they look for.
func indifferent(nodes []fwk.NodeInfo) []string {
	plugins := []string{}
	if !slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool { return len(node.GetImageStates()) > 0 }) {
		plugins = append(plugins, names.ImageLocality)
	}
	if !slices.ContainsFunc(nodes, func(node fwk.NodeInfo) bool {
		return slices.ContainsFunc(node.Node().Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Effect == corev1.TaintEffectPreferNoSchedule
		})
	}) {
		plugins = append(plugins, names.TaintToleration)
	}
	return plugins
}

// knownScores returns the scores of a sample that depend only on the node, by index among all nodes.
func (s *scheduler) knownScores(ctx context.Context, l *leaver, sample []int) ([]int64, error) {
	var known []int64
	if shape := l.group.shape.known; shape != nil && shape.changes == len(s.changed) {
		known = shape.scores
	} else {
		known = noScores(len(s.nodes))
	}
	var places []int
	var nodes []fwk.NodeInfo
	for _, place := range sample {
		if known[place] == unscored {
			places, nodes = append(places, place), append(nodes, s.nodes[place])
		}
	}
	if len(nodes) == 0 {
		return known, nil
	}
	scores, err := score(ctx, s.itself, framework.NewCycleState(), l.successor, nodes)
	for i := range scores {
		known[places[i]] = scores[i].TotalScore
	}
	return known, err
}

// The scheduler looks for at least this many nodes that fit: KubeSchedulerConfiguration.percentageOfNodesToScore.
const (
	leastScored        = 100
	leastScoredPercent = 5
)

func (s *scheduler) sample(fits []int) []int {
	percent := max(50-len(s.nodes)/125, leastScoredPercent)
	most := max(len(s.nodes)*percent/100, leastScored)
	if len(fits) <= most {
		return fits
	}
	start := s.next % len(fits)
	s.next = start + most
	if end := start + most; end > len(fits) {
		return slices.Concat(fits[start:], fits[:end-len(fits)])
	}
	return fits[start : start+most]
}
