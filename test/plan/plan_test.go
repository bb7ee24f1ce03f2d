// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

const (
	// horizon is the longest tolerationSeconds of a pod that the test waits for. Others tolerate for an hour.
	horizon  = 8
	patience = time.Minute
)

// TestAPlanComesTrue makes random clusters, plans random sets of taints, sets them, and compares.
func TestAPlanComesTrue(t *testing.T) {
	t.Logf("%d rounds of seed %d", *rounds, *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	worst, all, placed, zoned, kept := time.Duration(0), 0, 0, 0, 0
	for i := range *rounds {
		r := &round{
			Namespace: workloads.Namespace{T: t, Admin: admin, Name: fmt.Sprintf("round-%d", i)},
			random:    random, first: i == 0,
			strict: map[string]bool{}, wasThere: map[types.UID]bool{}, taintedAt: map[string]time.Time{},
		}
		r.populate()
		r.object()
		r.plan()
		r.taint()
		n, lateness := r.compare()
		placed += r.compareNodes()
		zoned += r.zoned
		kept += r.kept()
		all, worst = all+n, max(worst, lateness)
		r.clear()
	}
	if *seed == defaultSeed && *rounds >= defaultRounds && (all == 0 || kept == 0 || zoned == 0) {
		t.Errorf("%d pods were to leave in all rounds, policies kept %d, and %d were compared by zone: some of it was not compared", all, kept, zoned)
	}
	t.Logf("%d pods left as planned, the last of them %s after its instant, and %d came back on nodes that the plan names, %d of them compared by zone; policies kept %d, for some time or for good",
		all, worst.Round(time.Millisecond), placed, zoned, kept)
}

// round is one random cluster and one set of taints.
type round struct {
	workloads.Namespace

	random *rand.Rand
	first  bool

	nodes     []string
	specs     []string
	planned   *cliv1alpha1.TaintPlan
	counted   bool                 // whether a policy counts pods that leave
	strict    map[string]bool      // workloads that must be spread over the zones
	filled    bool                 // pods fill nodes, and preempt each other
	hangs     bool                 // the rollout of a Deployment hangs
	wasThere  map[types.UID]bool   // pods before the taints
	zoned     int                  // successors whose zones were compared
	taintedAt map[string]time.Time // when the API server had accepted a node's taints
	audit     *auditlog.Log
}

func (r *round) must(err error) {
	r.T.Helper()
	await.Must(r.T, err)
}

var keys = []string{"power", "maintenance", "spot"}

// closed is the key of a taint that keeps pods from coming to a node. A plan counts the pods that exist. A successor that
// comes to a tainted node is soon due there too, and could trip a breaker or take a place of a pace.
const closed = "closed"

func (r *round) tolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range keys {
		switch r.random.IntN(4) {
		case 0:
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		case 1:
			seconds := workloads.Pick(r.random, int64(r.random.IntN(horizon)), 3600)
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		case 2:
			seconds := int64(r.random.IntN(horizon))
			all = append(all, corev1.Toleration{Key: key, Value: workloads.Pick(r.random, "", "now"), TolerationSeconds: &seconds, Effect: corev1.TaintEffectNoExecute})
		}
	}
	return all
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
	r.prepare()
	for _, i := range r.random.Perm(len(keys))[:1+r.random.IntN(2)] {
		r.specs = append(r.specs, keys[i]+workloads.Pick(r.random, "", "=now", "=soon")+":"+workloads.Pick(r.random, "NoExecute", "NoExecute", "NoExecute", "NoSchedule"))
	}
	args := slices.Concat([]string{"--kubeconfig", kubeconfig, "plan", "--where-to", "-o", "json"}, r.nodes, r.specs)
	output, err := exec.CommandContext(r.T.Context(), plugin, args...).Output()
	if err != nil {
		r.T.Fatalf("%v: %v: %s", args, err, output)
	}
	r.must(json.Unmarshal(output, &r.planned))
	r.audit = auditlog.New(cluster.AuditLog())
	pods, err := admin.CoreV1().Pods(r.Name).List(r.T.Context(), metav1.ListOptions{})
	r.must(err)
	for i := range pods.Items {
		r.wasThere[pods.Items[i].UID] = true
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
		took, _, err := scene.EditTaints(r.T.Context(), admin, name, change)
		r.must(err)
		r.taintedAt[name] = took.To
	}
}

// departure is when a pod must leave according to the plan. Of pods that wait for the same pace, any may go first, so
// each may leave from an instant to another one.
type departure struct{ at, from, by time.Time }

// departure returns when a pod must leave; false if it must stay, or leaves so late that the test does not wait for it.
func (r *round) departure(pod *cliv1alpha1.PlannedPod) (departure, bool) {
	if !pod.Leaves {
		return departure{}, false
	}
	leaves := instant.Later(pod.Due.Time, r.planned.At.Time)
	if pod.Answer != nil {
		if pod.Answer.LeavesAt == nil {
			return departure{}, false
		}
		leaves = pod.Answer.LeavesAt.Time
	}
	if leaves.Sub(r.planned.At.Time) > patience {
		return departure{}, false
	}
	later := r.taintedAt[pod.Node].Sub(r.planned.At.Time)
	is := departure{at: leaves.Add(later)}
	is.from, is.by = is.at, is.at
	for _, policy := range r.planned.Policies {
		if pod.Answer != nil && policy.LastAt != nil {
			is.from = instant.Earlier(is.from, instant.Later(pod.Due.Time, r.planned.At.Time).Add(later))
			is.by = instant.Later(is.by, instant.Earlier(policy.LastAt.Time, leaves.Add(patience)).Add(later))
		}
	}
	return is, true
}

// compare waits for what is to happen, and returns how many pods left as planned and how late the latest was.
func (r *round) compare() (int, time.Duration) {
	due, planned := map[string]departure{}, map[string]bool{}
	end := time.Now().Add(horizon * time.Second) // until then those that are to stay are watched
	for i := range r.planned.Pods {
		pod := &r.planned.Pods[i]
		name := pod.Namespace + "/" + pod.Name
		planned[name] = true
		if at, leaves := r.departure(pod); leaves {
			due[name] = at
			end = instant.Later(end, at.by)
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
			r.T.Errorf("%s has not left, and according to the plan of %v on %v it leaves at %s", name, r.specs, r.nodes, instant.at)
		case !leaves:
			r.T.Errorf("%s left at %s, and according to the plan of %v on %v it does not", name, at, r.specs, r.nodes)
		case at.Sub(instant.from) < -time.Second || at.Sub(instant.by) > cluster.Stalls().Allowed(instant.by, at):
			r.T.Errorf("%s left at %s, and according to the plan of %v on %v between %s and %s", name, at, r.specs, r.nodes, instant.from, instant.by)
		default:
			worst = max(worst, at.Sub(instant.by))
		}
	}
	r.compareOrder(due, left)
	return len(due), worst
}

// compareOrder compares when the first pod leaves, the second, and so on, no matter which pods these are.
func (r *round) compareOrder(due map[string]departure, left map[string]time.Time) {
	var want, got []time.Time
	for name, is := range due {
		if at, gone := left[name]; gone {
			want, got = append(want, is.at), append(got, at)
		}
	}
	slices.SortFunc(want, time.Time.Compare)
	slices.SortFunc(got, time.Time.Compare)
	for i, at := range got {
		if at.Sub(want[i]) < -time.Second || at.Sub(want[i]) > cluster.Stalls().Allowed(want[i], at) {
			r.T.Errorf("pod %d of %d left at %s, and according to the plan of %v on %v at %s", i+1, len(got), at, r.specs, r.nodes, want[i])
		}
	}
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

// departures returns when the deletes of planned pods were accepted, once all that are expected have left. It waits
// until an instant at least, so that it notices if a pod leaves that is not expected to.
func (r *round) departures(planned map[string]bool, expected int, end time.Time) map[string]time.Time {
	left := map[string]time.Time{}
	until := end.Add(patience)
	for time.Now().Before(until) && (len(left) < expected || time.Now().Before(end)) {
		for _, e := range r.audit.All(r.T, workloads.Leaves, auditlog.Accepted, localcluster.NotByKwok) {
			name := e.Namespace + "/" + e.Name
			if _, again := left[name]; planned[name] && !again { // a StatefulSet's pod may leave a second time
				left[name] = e.Answered
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return left
}

func (r *round) untaint() {
	r.changeTaints(func(current []corev1.Taint) ([]corev1.Taint, error) {
		return slices.DeleteFunc(current, func(taint corev1.Taint) bool {
			return taint.Key == closed || taint.Key == workloads.Old || slices.Contains(keys, taint.Key)
		}), nil
	})
}
