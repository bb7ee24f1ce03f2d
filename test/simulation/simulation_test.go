// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

// TestASimulationComesTrue makes random clusters, plays random steps for real, and compares with the simulation of them.
func TestASimulationComesTrue(t *testing.T) {
	t.Logf("%d rounds of seed %d", *rounds, *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	var all tally
	for i := range *rounds {
		r := &round{
			Namespace: workloads.Namespace{T: t, Admin: admin, Name: fmt.Sprintf("round-%d", i)},
			random:    random, index: i,
		}
		r.populate()
		r.play()
		found := r.compare(r.simulate(0))
		t.Logf("%s: %d nodes, %d pods, %s: %d evictions", r.Name, len(r.nodes), r.replicas, r.policyKind(), found.left)
		all.add(found)
		r.clear()
	}
	follows := all.successors + all.places + all.budgets // how many of each depends on where the scheduler put the pods
	if *seed == defaultSeed && *rounds >= defaultRounds && (all.taints == 0 || all.left == 0 || follows == 0) {
		t.Errorf("some of it was compared in no round: %s", all)
	}
	t.Log(all)
}

// span is from one instant of a round to another.
type span struct{ from, to time.Duration }

// round is one random cluster and scenario.
type round struct {
	workloads.Namespace

	random *rand.Rand
	index  int

	nodes    []localcluster.NodeSpec
	replicas int
	policy   *v1alpha1.EvictionPolicy // nil: none
	steps    []cliv1alpha1.SimulationStep

	at      time.Time     // of the start
	until   time.Duration // after which the simulation ends
	before  *state.Cluster
	played  []cliv1alpha1.SimulationStep // as they came to pass
	silent  map[string]bool
	unheard []string // silent nodes whose last sign of life is not known yet
	outage  span     // of the API server; zero if there is none
	filled  bool     // pods fill the nodes, and one of them preempts others
}

func (r *round) must(err error) {
	r.T.Helper()
	await.Must(r.T, err)
}

// populate makes nodes and workloads, and returns once all pods run and the policy is in force.
func (r *round) populate() {
	ctx := r.T.Context()
	r.drawNodes()
	r.must(cluster.AddNodes(ctx, r.nodes...))
	_, err := scene.New(ctx, admin, r.Name)
	r.must(err)
	r.policy = r.drawPolicy()
	r.makeWorkloads()
	r.steps = r.drawSteps()
	r.taintLongAgo()
	r.limit()
	if r.policy != nil {
		r.object()
	}
	await.Until(r.T, settled)
}

// object puts the policy in force, and keeps successors away from the nodes of the steps: were those due as well, paces
// and breakers would count them, and on which nodes they are is luck.
func (r *round) object() {
	ctx := r.T.Context()
	cordoned := map[string]bool{}
	for _, step := range r.steps {
		for _, of := range []*cliv1alpha1.SimulationNodes{step.Silent, nodesOf(step.Taint)} {
			if of == nil {
				continue
			}
			for _, name := range of.Nodes {
				cordoned[name] = true
			}
		}
	}
	for name := range cordoned {
		_, err := admin.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
		r.must(err)
		await.Eventually(r.T, name+" has the taint of cordoned nodes", func(ctx context.Context) error {
			node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err == nil && len(node.Spec.Taints) == 0 {
				err = errors.New("it has none")
			}
			return err
		})
	}
	r.must(objects.Create(ctx, r.policy))
	await.Eventually(r.T, "the policy is followed", func(ctx context.Context) error {
		var all v1alpha1.EvictionPolicyList
		err := objects.List(ctx, &all)
		if err == nil && (len(all.Items) != 1 || all.Items[0].Status.ObservedGeneration == 0) {
			err = errors.New("no status says so")
		}
		return err
	})
}

// policyKind says which policy is drawn.
func (r *round) policyKind() string {
	switch {
	case r.policy == nil:
		return "no policy"
	case r.policy.Spec.Pace != nil:
		return "a pace"
	case r.policy.Spec.Breaker != nil:
		return "a breaker"
	}
	return "action " + string(r.policy.Spec.Action)
}

func nodesOf(taint *cliv1alpha1.SimulationTaint) *cliv1alpha1.SimulationNodes {
	if taint == nil {
		return nil
	}
	return &taint.SimulationNodes
}

// play reads the cluster as the plugin does, plays the steps, and returns when the simulation is over.
func (r *round) play() {
	env := command.Env{IOStreams: genericiooptions.IOStreams{ErrOut: io.Discard}, Clock: clock.RealClock{}}
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = kubeconfig
	from := source.New(env, flags)
	var err error
	r.before, err = from.Read(r.T.Context(), source.Wants{Policies: true, Budgets: true, Successors: true, Scheduling: true})
	r.must(err)
	r.at, r.silent = time.Now(), map[string]bool{}
	for _, step := range r.steps {
		await.Until(r.T, r.at.Add(step.At.Duration))
		r.hear()
		switch {
		case step.Silent != nil:
			r.silence(step.Silent.Nodes)
		case step.Back != nil:
			r.resume(step.Back.Nodes)
		case step.Taint != nil:
			r.taint(step.Taint)
		case step.APIServerDown != nil:
			r.bringDown(step.APIServerDown.Duration)
		}
	}
	r.until = time.Since(r.at) + rest
	await.Until(r.T, r.at.Add(r.until))
	if r.policy != nil {
		r.must(objects.Get(r.T.Context(), client.ObjectKeyFromObject(r.policy), r.policy))
	}
	await.Until(r.T, r.at.Add(r.until+late))
	r.hear()
}

// bringDown lets the API server be paused. Its connections stay open: after an outage that closes them, the other
// components take up to half a minute to connect again.
func (r *round) bringDown(length time.Duration) {
	r.outage.from = time.Since(r.at)
	r.must(cluster.Freeze(localcluster.APIServer))
	await.Until(r.T, r.at.Add(r.outage.from+length))
	r.must(cluster.Thaw(localcluster.APIServer))
	r.outage.to = time.Since(r.at)
	r.note(r.at.Add(r.outage.from), cliv1alpha1.SimulationStep{APIServerDown: &metav1.Duration{Duration: r.outage.to - r.outage.from}})
}

// note notes a step as it came to pass.
func (r *round) note(at time.Time, step cliv1alpha1.SimulationStep) {
	step.At.Duration = max(at.Sub(r.at), 0)
	r.played = append(r.played, step)
}

func (r *round) silence(names []string) {
	r.must(cluster.SilenceNodes(r.T.Context(), names...))
	for _, name := range names {
		if !r.silent[name] {
			r.silent[name] = true
			r.unheard = append(r.unheard, name)
		}
	}
}

// hear finds out when silent nodes gave their last signs of life. A step ago kwok may still have renewed a lease.
func (r *round) hear() {
	for _, name := range r.unheard {
		lease, err := admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(r.T.Context(), name, metav1.GetOptions{})
		r.must(err)
		r.note(lease.Spec.RenewTime.Time, cliv1alpha1.SimulationStep{Silent: &cliv1alpha1.SimulationNodes{Nodes: []string{name}}})
	}
	r.unheard = nil
}

func (r *round) resume(names []string) {
	r.must(cluster.ResumeNodes(r.T.Context(), names...))
	r.note(time.Now(), cliv1alpha1.SimulationStep{Back: &cliv1alpha1.SimulationNodes{Nodes: names}})
	for _, name := range names {
		delete(r.silent, name)
		r.startPods(name)
	}
}

// startPods says about the pods of a node that is back that they are ready, as kubelets do and kwok does not.
func (r *round) startPods(node string) {
	await.Eventually(r.T, node+" is ready", func(ctx context.Context) error {
		is, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil && !readiness.IsReady(is) {
			err = errors.New("it is not")
		}
		return err
	})
	pods, err := admin.CoreV1().Pods(r.Name).List(r.T.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	r.must(err)
	for i := range pods.Items {
		_, err := admin.CoreV1().Pods(r.Name).Patch(r.T.Context(), pods.Items[i].Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		if !apierrors.IsNotFound(err) { // it was deleted while its node was silent
			r.must(err)
		}
	}
}

func (r *round) taint(step *cliv1alpha1.SimulationTaint) {
	edit, err := taints.ParseEdit(step.Taints...)
	r.must(err)
	for _, name := range step.Nodes {
		took, _, err := scene.EditTaints(r.T.Context(), admin, name, func(all []corev1.Taint) ([]corev1.Taint, error) {
			return edit.Apply(all, taints.OverwriteExisting)
		})
		r.must(err)
		one := *step
		one.Nodes = []string{name}
		r.note(took.To, cliv1alpha1.SimulationStep{Taint: &one})
	}
}

// simulate plays the steps, as they came to pass, from the cluster as it was before. Nodes may be silent for a bit more
// than the grace period.
func (r *round) simulate(more time.Duration) *cliv1alpha1.SimulationReport {
	simulation := cliv1alpha1.Simulation{Until: metav1.Duration{Duration: r.until}, Steps: r.played}
	simulation.Kind = "Simulation"
	text, err := yaml.Marshal(simulation)
	r.must(err)
	scenario, err := course.Parse(text)
	r.must(err)
	grace := graces
	grace.Monitor += more
	report, err := course.Play(r.T.Context(), r.before, scenario, course.Options{
		At: r.at, Grace: grace, Policy: rates, StartDelay: startDelay, WhereTo: true,
	})
	r.must(err)
	return report
}

// startDelay is how long kwok takes for a pod.
const startDelay = time.Second

// clear removes all that the round has made.
func (r *round) clear() {
	if r.policy != nil {
		r.must(objects.Delete(r.T.Context(), r.policy))
	}
	r.Clear(objects)
	for _, node := range r.nodes {
		r.must(admin.CoreV1().Nodes().Delete(r.T.Context(), node.Name, metav1.DeleteOptions{}))
	}
}

// known reports whether a node belongs to the round.
func (r *round) known(name string) bool {
	return slices.ContainsFunc(r.nodes, func(node localcluster.NodeSpec) bool { return node.Name == name })
}
