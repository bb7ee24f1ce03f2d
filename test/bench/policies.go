// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// policyPods is how many pods are created for each figure.
	policyPods = 2000
	// policyCreators is how many are created at the same time: enough to keep two processors busy, but few enough that
	// creates do not mainly wait.
	policyCreators = 8
	// policyWarmUp is how many pods are created before those that count.
	policyWarmUp = 200

	ordinaryNamespace  = "ordinary"
	concernedNamespace = "concerned"
	// concernedResource is the resource that the pods that concern every policy request.
	concernedResource = "bench.taintkeeper.dev/gpu"
)

// The crowds of pods, by their names in the report. Ordinary pods have requests, as nearly all pods do, and nothing
// else that concerns a policy. The others are in a namespace with every label and annotation, and request an extended
// resource.
const (
	crowdOrdinaryNone  = "ordinary pods, no policy"
	crowdOrdinaryAll   = "ordinary pods, every policy"
	crowdConcernedNone = "affected pods, no policy"
	crowdConcernedAll  = "affected pods, every policy"
)

var allPolicyCrowds = []string{crowdOrdinaryNone, crowdOrdinaryAll, crowdConcernedNone, crowdConcernedAll}

// policiesResult is what it takes to create pods.
type policiesResult struct {
	PerSecond float64       `json:"perSecond"`
	P50       time.Duration `json:"p50"` // of a create, as the client sees it
	P99       time.Duration `json:"p99"`
	// Processor time of the API server, for each pod.
	ServerCPU time.Duration `json:"serverCPU"`
}

// policies creates pods without the admission policies for tolerations and with all of them.
func (b *bench) policies(ctx context.Context) error {
	b.say("\npolicies: %d pods are created, %d at a time, without policies and with all of them", policyPods, policyCreators)
	if err := b.createPolicyNamespaces(ctx); err != nil {
		return err
	}
	for range b.rounds {
		if err := b.policiesRound(ctx); err != nil {
			return err
		}
	}
	b.report.printPolicies(b.out)
	return nil
}

func (b *bench) policiesRound(ctx context.Context) error {
	if err := b.createCrowds(ctx, crowdOrdinaryNone, crowdConcernedNone); err != nil {
		return err
	}
	if err := b.cluster.InstallPolicies(ctx); err != nil {
		return err
	}
	if err := b.awaitPolicies(ctx, allAdded); err != nil {
		return err
	}
	if err := b.createCrowds(ctx, crowdOrdinaryAll, crowdConcernedAll); err != nil {
		return err
	}
	if err := b.cluster.RemovePolicies(ctx); err != nil {
		return err
	}
	return b.awaitPolicies(ctx, addedByServer)
}

func (b *bench) createPolicyNamespaces(ctx context.Context) error {
	const prefix = "taintkeeper.dev/"
	concerned := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: concernedNamespace,
		Labels: map[string]string{
			prefix + "not-ready-seconds": "30", prefix + "unreachable-seconds": "30",
			prefix + "dedicated": "bench", prefix + "tolerations": "",
		},
		Annotations: map[string]string{
			"scheduler.alpha.kubernetes.io/defaultTolerations":   `[{"key":"spot","operator":"Exists","effect":"NoSchedule"},{"key":"pool","operator":"Equal","value":"batch"}]`,
			"scheduler.alpha.kubernetes.io/tolerationsWhitelist": `[{"key":"spot","operator":"Exists"},{"key":"pool","operator":"Exists"},{"operator":"Exists"}]`,
		},
	}}
	ordinary := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ordinaryNamespace}}
	for _, namespace := range []*corev1.Namespace{ordinary, concerned} {
		if _, err := b.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
	}
	return nil
}

// createCrowds creates the pods of some crowds one after the other, and removes them.
func (b *bench) createCrowds(ctx context.Context, crowds ...string) error {
	for _, crowd := range crowds {
		result, err := b.createCrowd(ctx, policyPod(crowd))
		if err != nil {
			return fmt.Errorf("%s: %w", crowd, err)
		}
		b.report.Policies[crowd] = append(b.report.Policies[crowd], result)
		b.say("  %s: %.0f a second, p99 %s, load %s", crowd, result.PerSecond, milliseconds(result.P99), loadAverage())
	}
	return nil
}

// policyPod returns what makes the pods of a crowd.
func policyPod(crowd string) func(i int) *corev1.Pod {
	concerned := strings.HasPrefix(crowd, concernedNamespace)
	return func(i int) *corev1.Pod {
		pod := productionPod(partPolicies, i, "")
		pod.Namespace = ordinaryNamespace
		if concerned {
			pod.Namespace = concernedNamespace
			pod.Labels["taintkeeper.dev/daemon"] = "true"
			resources := &pod.Spec.Containers[0].Resources
			resources.Requests[concernedResource] = resource.MustParse("1")
			resources.Limits[concernedResource] = resource.MustParse("1")
		}
		return pod
	}
}

func (b *bench) createCrowd(ctx context.Context, pod func(i int) *corev1.Pod) (policiesResult, error) {
	namespace := pod(0).Namespace
	if _, err := b.createTimed(ctx, policyWarmUp, pod); err != nil {
		return policiesResult{}, err
	}
	if err := b.removePodsIn(ctx, namespace); err != nil {
		return policiesResult{}, err
	}
	before, err := b.serverCPU(ctx)
	if err != nil {
		return policiesResult{}, err
	}
	began := time.Now()
	took, err := b.createTimed(ctx, policyPods, pod)
	if err != nil {
		return policiesResult{}, err
	}
	passed := time.Since(began)
	after, err := b.serverCPU(ctx)
	result := policiesResult{
		PerSecond: policyPods / passed.Seconds(), ServerCPU: (after - before) / policyPods,
		P50: median(took), P99: quantile(took, 0.99),
	}
	return result, errors.Join(err, b.removePodsIn(ctx, namespace))
}

// createTimed creates the given number of pods and returns how long each took.
func (b *bench) createTimed(ctx context.Context, number int, pod func(i int) *corev1.Pod) ([]time.Duration, error) {
	var lock sync.Mutex
	var took []time.Duration
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(policyCreators)
	for i := range number {
		group.Go(func() error {
			made := pod(i)
			began := time.Now()
			if _, err := b.admin.CoreV1().Pods(made.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s: %w", made.Name, err)
			}
			passed := time.Since(began)
			lock.Lock()
			defer lock.Unlock()
			took = append(took, passed)
			return nil
		})
	}
	return took, group.Wait()
}

// awaitPolicies waits until every policy is in force, or none: until a pod that concerns all of them gets the given
// number of tolerations, and a pod that tolerates other teams' nodes is refused, or is not.
func (b *bench) awaitPolicies(ctx context.Context, tolerations int) error {
	probe := policyPod(crowdConcernedAll)(0)
	stranger := policyPod(crowdOrdinaryAll)(0)
	stranger.Spec.Tolerations = []corev1.Toleration{{
		Key: "taintkeeper.dev/dedicated", Operator: corev1.TolerationOpExists,
	}}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	inForce := func(ctx context.Context) (bool, error) {
		made, err := b.admin.CoreV1().Pods(probe.Namespace).Create(ctx, probe, dryRun)
		if err != nil {
			return false, fmt.Errorf("create a pod that every policy changes: %w", err)
		}
		_, err = b.admin.CoreV1().Pods(stranger.Namespace).Create(ctx, stranger, dryRun)
		if err != nil && !apierrors.IsForbidden(err) {
			return false, fmt.Errorf("create a pod that a policy refuses: %w", err)
		}
		refused := err != nil
		return len(made.Spec.Tolerations) == tolerations && refused == (tolerations > addedByServer), nil
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, inForce)
}

const (
	// addedByServer is how many tolerations the API server adds to each pod by itself, and allAdded how many there are
	// with every policy: those, the daemon's four for pressure and cordoned nodes, the resource's, the group's, and two by
	// default.
	addedByServer = 2
	allAdded      = addedByServer + 4 + 1 + 1 + 2
)

func (r *report) printPolicies(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\npolicies, %d pods (medians of %d rounds)\n", policyPods, len(r.Policies[crowdOrdinaryNone]))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\tpods a second\tp50\tp99\tCPU time of the API server per pod\t")
	for _, crowd := range allPolicyCrowds {
		m := medianPolicies(r.Policies[crowd])
		_, _ = fmt.Fprintf(w, "%s\t%s\t%.1f ms\t%.1f ms\t%.2f ms\t\n", crowd, strconv.Itoa(int(m.PerSecond)), inMilliseconds(m.P50), inMilliseconds(m.P99), inMilliseconds(m.ServerCPU))
	}
	_ = w.Flush()
}

func inMilliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// medianPolicies has the median of each figure.
func medianPolicies(rounds []policiesResult) policiesResult {
	var perSecond []float64
	var p50, p99, cpu []time.Duration
	for _, round := range rounds {
		perSecond, cpu = append(perSecond, round.PerSecond), append(cpu, round.ServerCPU)
		p50, p99 = append(p50, round.P50), append(p99, round.P99)
	}
	return policiesResult{PerSecond: median(perSecond), P50: median(p50), P99: median(p99), ServerCPU: median(cpu)}
}
