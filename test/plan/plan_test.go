// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	// late is how long after its instant an eviction may come here: this machine runs a whole control plane and more
	// besides.
	late = 5 * time.Second
	// horizon is for how long pods tolerate at the most that are waited for. Others tolerate for an hour.
	horizon  = 8
	patience = time.Minute
)

// TestAPlanComesTrue makes random clusters, plans random sets of taints, sets them, and compares.
func TestAPlanComesTrue(t *testing.T) {
	t.Logf("%d rounds of seed %d", *rounds, *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	worst, all, placed, kept := time.Duration(0), 0, 0, 0
	for i := range *rounds {
		r := &round{t: t, random: random, namespace: fmt.Sprintf("round-%d", i), wasThere: map[string]bool{}, taintedAt: map[string]time.Time{}}
		r.populate()
		r.object()
		r.plan()
		r.taint()
		n, lateness := r.compare()
		placed += r.compareNodes()
		kept += r.kept()
		all, worst = all+n, max(worst, lateness)
		r.clear()
	}
	if all == 0 || kept == 0 {
		t.Errorf("%d pods were to leave in all rounds, and policies kept %d: nothing was compared", all, kept)
	}
	t.Logf("%d pods left as planned, the last of them %s after its instant, and %d came back on nodes that the plan names; policies kept %d, for some time or for good",
		all, worst.Round(time.Millisecond), placed, kept)
}

// round is one random cluster and one set of taints.
type round struct {
	t         *testing.T
	random    *rand.Rand
	namespace string

	nodes     []string
	specs     []string
	planned   *cliv1alpha1.TaintPlan
	wasThere  map[string]bool      // pods before the taints
	taintedAt map[string]time.Time // when the API server had accepted a node's taints
	audit     *auditlog.Log
}

func pick[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

func (r *round) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// await polls until a condition holds.
func (r *round) await(what string, holds func(context.Context) (bool, error)) {
	r.t.Helper()
	if err := wait.PollUntilContextTimeout(r.t.Context(), 100*time.Millisecond, patience, true, holds); err != nil {
		r.t.Fatalf("%s: %s: %v", r.namespace, what, err)
	}
}

var keys = []string{"power", "maintenance", "spot"}

func (r *round) tolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range keys {
		switch r.random.IntN(4) {
		case 0:
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		case 1:
			seconds := pick(r.random, int64(r.random.IntN(horizon)), 3600)
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		case 2:
			seconds := int64(r.random.IntN(horizon))
			all = append(all, corev1.Toleration{Key: key, Value: pick(r.random, "", "now"), TolerationSeconds: &seconds, Effect: corev1.TaintEffectNoExecute})
		}
	}
	return all
}

// populate makes Deployments, and returns once all their pods run.
func (r *round) populate() {
	ctx := r.t.Context()
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
	r.must(err)
	replicas := 0
	for i := range apps {
		n := 1 + r.random.IntN(5)
		replicas += n
		_, err := admin.AppsV1().Deployments(r.namespace).Create(ctx, r.deployment(appName(i), i, int32(n)), metav1.CreateOptions{})
		r.must(err)
	}
	r.await("all pods run", func(ctx context.Context) (bool, error) {
		pods, err := admin.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		return err == nil && len(pods.Items) == replicas, nil
	})
}

// apps is how many Deployments a round has.
const apps = 8

func appName(i int) string { return fmt.Sprintf("app-%d", i) }

func (r *round) deployment(name string, i int, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name, "half": strconv.Itoa(i % 2)}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Tolerations:                   r.tolerations(),
					TerminationGracePeriodSeconds: new(int64(1)),
					Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/main"}},
				},
			},
		},
	}
}

// plan draws nodes and taints, and asks what they would do.
func (r *round) plan() {
	for i := range 9 {
		if r.random.IntN(2) == 0 {
			r.nodes = append(r.nodes, fmt.Sprintf("node-%d", i))
		}
	}
	if len(r.nodes) == 0 {
		r.nodes = []string{"node-0"}
	}
	for _, i := range r.random.Perm(len(keys))[:1+r.random.IntN(2)] {
		r.specs = append(r.specs, keys[i]+pick(r.random, "", "=now", "=soon")+":"+pick(r.random, "NoExecute", "NoExecute", "NoExecute", "NoSchedule"))
	}
	args := slices.Concat([]string{"--kubeconfig", kubeconfig, "plan", "--where-to", "-o", "json"}, r.nodes, r.specs)
	output, err := exec.CommandContext(r.t.Context(), plugin, args...).Output()
	if err != nil {
		r.t.Fatalf("%v: %v: %s", args, err, output)
	}
	r.must(json.Unmarshal(output, &r.planned))
	r.audit = auditlog.New(cluster.AuditLog())
	pods, err := admin.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	for i := range pods.Items {
		r.wasThere[pods.Items[i].Name] = true
	}
}

// taint sets the taints as kubectl taint does.
func (r *round) taint() {
	edit, err := taints.ParseEdit(r.specs...)
	r.must(err)
	r.changeTaints(func(current []corev1.Taint) ([]corev1.Taint, error) { return edit.Apply(current, taints.KeepExisting) })
}

func (r *round) changeTaints(change func([]corev1.Taint) ([]corev1.Taint, error)) {
	for _, name := range r.nodes {
		took, _, err := scene.EditTaints(r.t.Context(), admin, name, change)
		r.must(err)
		r.taintedAt[name] = took.To
	}
}

// departure is when a pod has to leave by the plan: at an instant, or, where a pace lets it wait, by another one.
type departure struct{ from, by time.Time }

// departure returns when a pod has to leave; false if it has to stay, or leaves after so long that nobody waits for it.
func (r *round) departure(pod *cliv1alpha1.PlannedPod) (departure, bool) {
	if !pod.Leaves {
		return departure{}, false
	}
	at := pod.Due.Time
	if pod.Answer != nil {
		if pod.Answer.LeavesAt == nil {
			return departure{}, false
		}
		at = pod.Answer.LeavesAt.Time
	}
	if at.Sub(r.planned.At.Time) > patience {
		return departure{}, false
	}
	by := at
	for _, policy := range r.planned.Policies {
		if pod.Answer != nil && policy.LastAt != nil { // which may be that of a pod for which nobody waits
			by = timeline.Later(by, timeline.Earlier(policy.LastAt.Time, at.Add(patience)))
		}
	}
	later := r.taintedAt[pod.Node].Sub(r.planned.At.Time)
	return departure{at.Add(later), by.Add(later)}, true
}

// compare waits for what is to happen, and returns how many pods left as planned and how late the latest was. A
// Deployment gives no name twice, so names tell the pods apart.
func (r *round) compare() (int, time.Duration) {
	due, planned := map[string]departure{}, map[string]bool{}
	end := time.Now().Add(horizon * time.Second) // until then those that are to stay are watched
	for i := range r.planned.Pods {
		pod := &r.planned.Pods[i]
		name := pod.Namespace + "/" + pod.Name
		planned[name] = true
		if at, leaves := r.departure(pod); leaves {
			due[name] = at
			end = timeline.Later(end, at.from)
		}
	}
	left := r.departures(planned, len(due), end.Add(time.Second))
	worst := time.Duration(0)
	for name := range planned {
		at, gone := left[name]
		instant, leaves := due[name]
		switch {
		case !gone && !leaves:
		case !gone:
			r.t.Errorf("%s has not left, and by the plan of %v on %v it leaves at %s", name, r.specs, r.nodes, instant.from)
		case !leaves:
			r.t.Errorf("%s left at %s, and by the plan of %v on %v it does not", name, at, r.specs, r.nodes)
		case at.Sub(instant.from) < -time.Second || at.Sub(instant.by) > late:
			r.t.Errorf("%s left at %s, and by the plan of %v on %v between %s and %s", name, at, r.specs, r.nodes, instant.from, instant.by)
		default:
			worst = max(worst, at.Sub(instant.by))
		}
	}
	return len(due), worst
}

// kept returns how many pods had to leave and did not when they were due, because of policies.
func (r *round) kept() (kept int) {
	for i := range r.planned.Pods {
		pod := &r.planned.Pods[i]
		if pod.Leaves && pod.Due.Sub(r.planned.At.Time) <= patience && pod.Answer.Stays() {
			kept++
		}
	}
	return kept
}

// compareNodes returns how many pods took the place of those that left. Each must be on a node that the plan named for
// one of its workload.
func (r *round) compareNodes() int {
	fits, planned := map[string][]string{}, map[string]bool{}
	for i := range r.planned.Pods {
		pod := &r.planned.Pods[i]
		planned[pod.Name] = true
		if pod.WhereTo != nil && pod.Owner != nil {
			fits[pod.Owner.Name] = append(fits[pod.Owner.Name], pod.WhereTo.Nodes...)
		}
	}
	pods, err := admin.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	r.must(err)
	placed := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		app := pod.Labels["app"]
		if _, left := fits[app]; !left || planned[pod.Name] || pod.Spec.NodeName == "" || r.wasThere[pod.Name] {
			continue
		}
		placed++
		if !slices.Contains(fits[app], pod.Spec.NodeName) {
			r.t.Errorf("%s/%s went to %s, and by the plan of %v on %v only %v would take it", pod.Namespace, pod.Name, pod.Spec.NodeName, r.specs, r.nodes, fits[app])
		}
	}
	return placed
}

// departures returns when the deletes of planned pods were accepted, once all that are expected have left. It waits
// until an instant at least, so that a pod that is not expected to leave is seen to.
func (r *round) departures(planned map[string]bool, expected int, end time.Time) map[string]time.Time {
	left := map[string]time.Time{}
	until := end.Add(patience)
	for time.Now().Before(until) && (len(left) < expected || time.Now().Before(end)) {
		for _, e := range r.audit.All(r.t, leaves, auditlog.Accepted, localcluster.NotByKwok) {
			if planned[e.Namespace+"/"+e.Name] {
				left[e.Namespace+"/"+e.Name] = e.Answered
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return left
}

// leaves picks the calls by which pods leave: deletes, and evictions by the Eviction API.
func leaves(e auditlog.Event) bool {
	return auditlog.Deletes(e) || e.Verb == "create" && e.Resource == "pods/eviction"
}

// clear takes the taints off, and the pods.
func (r *round) clear() {
	r.changeTaints(func(current []corev1.Taint) ([]corev1.Taint, error) {
		return slices.DeleteFunc(current, func(taint corev1.Taint) bool { return slices.Contains(keys, taint.Key) }), nil
	})
	r.agree()
	r.must(admin.AppsV1().Deployments(r.namespace).DeleteCollection(r.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	r.await("all pods go", func(ctx context.Context) (bool, error) {
		pods, err := admin.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0, nil
	})
}
