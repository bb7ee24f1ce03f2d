// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// sign leaves a trace in a cluster.
type sign func(*state.Cluster)

// clusterWith returns a cluster in which Leases and ServiceAccounts were read.
func clusterWith(signs ...sign) *state.Cluster {
	cluster := &state.Cluster{Signs: state.Signs{At: now, LeasesKnown: true, EvictionClocksKnown: true}}
	for _, sign := range signs {
		sign(cluster)
	}
	return cluster
}

func noRights(cluster *state.Cluster) { cluster.Signs = state.Signs{At: now} }

// leads returns the Lease of a leader of Taintkeeper that says which controllers it runs.
func leads(controllers ...string) sign { return leadsIn("taintkeeper", controllers...) }

func leadsIn(lease string, controllers ...string) sign {
	leader := v1alpha1.Leader{Version: "v1.2.3", Controllers: controllers}
	return func(cluster *state.Cluster) {
		leaseIn("kube-system", lease, 2*time.Second)(cluster)
		cluster.Signs.Leases[len(cluster.Signs.Leases)-1].Labels = leader.Labels(replica)
	}
}

const replica = "replica-1"

// taintkeeperPod returns a ready pod of Taintkeeper with labels KEY=VALUE.
func taintkeeperPod(labels ...string) sign {
	return func(cluster *state.Cluster) {
		pod := pod("keeper", alone, labeled(v1alpha1.NameLabel, v1alpha1.Name))
		for _, label := range labels {
			key, value, _ := strings.Cut(label, "=")
			pod.Labels[key] = value
		}
		cluster.Pods = append(cluster.Pods, state.SlimPod(pod))
	}
}

// lease returns the Lease of a leader that was renewed at the given time before now, and says nothing else.
func lease(name string, ago time.Duration) sign { return leaseIn("kube-system", name, ago) }

// nodeHealthLease returns the Lease that node health renews.
func nodeHealthLease(ago time.Duration) sign {
	return leaseIn(corev1.NamespaceNodeLease, v1alpha1.NodeHealthLease, ago)
}

func leaseIn(namespace, name string, ago time.Duration) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(replica), LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-ago))),
			},
		})
	}
}

// leadsNow makes another replica the holder of the last Lease, which leaves its labels as they are.
func leadsNow(identity string) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.Leases[len(cluster.Signs.Leases)-1].Spec.HolderIdentity = &identity
	}
}

// released returns a Lease that its last holder released.
func released(name string) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(""), RenewTime: new(metav1.NewMicroTime(now))},
		})
	}
}

// clock returns an eviction clock with an annotation, or without one if it is empty.
func clock(renewed string) sign {
	return func(cluster *state.Cluster) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: v1alpha1.EvictionClock}}
		if renewed != "" {
			account.Annotations = map[string]string{v1alpha1.EvictionClockAnnotation: renewed}
		}
		cluster.Signs.AddEvictionClock(account)
	}
}

// process returns a pod with a command line.
func process(words ...string) sign {
	return func(cluster *state.Cluster) {
		pod := pod("process", alone)
		pod.Spec.Containers = []corev1.Container{{Name: "c", Command: words}}
		cluster.Pods = append(cluster.Pods, state.SlimPod(pod))
	}
}

// evicted returns the event of an eviction at the given time before now.
func evicted(manager string, ago time.Duration) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddEvent(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager}}},
			Reason:     v1alpha1.EventEviction, Message: "Marking for deletion Pod default/p", LastTimestamp: metav1.NewTime(now.Add(-ago)),
		})
	}
}

// wrote records who wrote a field of a node, at the given time before now.
func wrote(manager, fields string, ago time.Duration) sign {
	return func(cluster *state.Cluster) {
		written := node("n")
		written.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: new(metav1.NewTime(now.Add(-ago))),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}}
		cluster.Nodes = append(cluster.Nodes, state.SlimNode(written))
	}
}

const (
	ofTaints     = `{"f:spec":{"f:taints":{}}}`
	ofConditions = `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`
	ofRoutes     = `{"f:spec":{"f:podCIDR":{}}}`
)

var (
	taintkeeperLeads   = leads("eviction", "node-taint-rule")
	oldTaintkeeper     = lease("taintkeeper", 2*time.Second)
	managerLeads       = lease("kube-controller-manager", 2*time.Second)
	managerWithAll     = process("/usr/local/bin/kube-controller-manager", "--leader-elect=true")
	managerWithout     = process("kube-controller-manager", "--controllers=*,-taint-eviction-controller,-node-lifecycle-controller")
	freshEvictionClock = clock("2026-11-22T08:59:55Z")
	staleEvictionClock = clock("2026-11-22T08:59:25Z")
)

func TestWhoEvicts(t *testing.T) {
	for name, test := range map[string]struct {
		signs []sign
		who   cliv1alpha1.Who
		says  string // of the task
		want  is     // of the rule
	}{
		"ours leads and its clock is fresh, next to the built-in":        {[]sign{taintkeeperLeads, freshEvictionClock, managerLeads, managerWithAll}, cliv1alpha1.WhoTaintkeeper, "its eviction clock keeps the built-in controller from evicting", nothing},
		"a fresh clock says enough":                                      {[]sign{noRights, freshEvictionClock}, cliv1alpha1.WhoTaintkeeper, "its eviction clock keeps", nothing},
		"ours leads and the built-in is off":                             {[]sign{taintkeeperLeads, managerLeads, managerWithout}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"ours leads and kube-controller-manager is dead":                 {[]sign{taintkeeperLeads, lease("kube-controller-manager", time.Hour)}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"ours runs alone, without an election":                           {[]sign{taintkeeperPod(), managerWithout}, cliv1alpha1.WhoUnknown, "the built-in controller does not, and nothing shows whether Taintkeeper does (pod default/keeper is ready, but no leader renews a Lease", nothing},
		"ours runs alone, and has evicted":                               {[]sign{taintkeeperPod(), managerWithout, evicted("taintkeeper", time.Minute)}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"ours is too old to say what it runs":                            {[]sign{oldTaintkeeper, taintkeeperPod(), managerWithAll}, cliv1alpha1.WhoUnknown, "the built-in controller does, and nothing shows whether Taintkeeper does too (Lease kube-system/taintkeeper does not say what replica-1 runs: upgrade Taintkeeper)", nothing},
		"ours is too old, and nothing is known about the built-in":       {[]sign{oldTaintkeeper, managerLeads}, cliv1alpha1.WhoUnknown, "upgrade Taintkeeper), nor whether the built-in controller is off", nothing},
		"ours is too old, and has evicted":                               {[]sign{oldTaintkeeper, managerWithout, evicted("taintkeeper", time.Minute)}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"ours is too old, and its clock is fresh":                        {[]sign{oldTaintkeeper, freshEvictionClock, managerWithAll}, cliv1alpha1.WhoTaintkeeper, "its eviction clock keeps", nothing},
		"an old version leads after a newer one":                         {[]sign{taintkeeperLeads, leadsNow("another_1"), managerWithout}, cliv1alpha1.WhoUnknown, "does not say what another_1 runs: upgrade", nothing},
		"ours leads, and nothing is known about the built-in":            {[]sign{taintkeeperLeads, managerLeads}, cliv1alpha1.WhoUnknown, "nothing shows whether the built-in controller is off", warningThat("nothing shows")},
		"the clock is dead, and the built-in is there":                   {[]sign{lease("taintkeeper", time.Hour), staleEvictionClock, managerLeads, managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in taint-eviction-controller evicts.", warningThat("Taintkeeper does not: its eviction clock is stale")},
		"the clock was handed back":                                      {[]sign{released("taintkeeper"), clock(""), managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", nothing},
		"the clock is from the year 9999":                                {[]sign{lease("taintkeeper", time.Hour), clock("9999-01-01T00:00:00Z"), managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", warningThat("stale")},
		"ours leads but does not renew its clock":                        {[]sign{taintkeeperLeads, staleEvictionClock, managerWithAll}, cliv1alpha1.WhoBoth, "both evict", errorThat("does not renew its eviction clock")},
		"both, without a clock":                                          {[]sign{taintkeeperLeads, managerLeads, managerWithAll}, cliv1alpha1.WhoBoth, "both evict", errorThat("both evict")},
		"both, by an event of the built-in":                              {[]sign{taintkeeperLeads, managerLeads, evicted("kube-controller-manager", 9*time.Minute)}, cliv1alpha1.WhoBoth, "Taintkeeper evicts, and the built-in taint-eviction-controller evicted 9m ago; it may have been switched off since.", errorThat("evicted 9m ago")},
		"the built-in alone":                                             {[]sign{managerLeads, managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", nothing},
		"the built-in alone, by an event":                                {[]sign{released("taintkeeper"), managerLeads, evicted("kube-controller-manager", 9*time.Minute)}, cliv1alpha1.WhoBuiltIn, "The built-in taint-eviction-controller evicted 9m ago; it may have been switched off since.", nothing},
		"ours elects no leader, and shows by an event":                   {[]sign{managerWithout, evicted("taintkeeper", time.Minute)}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"an event of ours is no sign of the built-in":                    {[]sign{managerLeads, evicted("taintkeeper", time.Minute)}, cliv1alpha1.WhoUnknown, "nothing shows whether the built-in controller is off", warningThat("nothing shows")},
		"an old event of ours is no sign":                                {[]sign{managerWithout, evicted("taintkeeper", time.Hour)}, cliv1alpha1.WhoUnknown, "there is no sign that Taintkeeper does", warningThat("there is no sign that Taintkeeper does")},
		"ours had a leader, which died after an event":                   {[]sign{lease("taintkeeper", time.Hour), managerWithout, evicted("taintkeeper", time.Minute)}, cliv1alpha1.WhoNobody, "Nothing evicts", errorThat("Nothing evicts")},
		"an old event is no sign":                                        {[]sign{managerLeads, evicted("kube-controller-manager", time.Hour)}, cliv1alpha1.WhoUnknown, "by default; nothing shows", nothing},
		"ours is a shadow next to the built-in":                          {[]sign{taintkeeperPod("taintkeeper.dev/mode=shadow"), managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", nothing},
		"ours follows rules alone":                                       {[]sign{leads("node-taint-rule"), managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", nothing},
		"ours judges the health of nodes alone":                          {[]sign{leads("node-health"), managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in", nothing},
		"the built-in is off, and there is no trace of ours":             {[]sign{managerLeads, managerWithout}, cliv1alpha1.WhoUnknown, "there is no sign that Taintkeeper does", warningThat("there is no sign that Taintkeeper does")},
		"nobody: the built-in is off and ours has died":                  {[]sign{lease("taintkeeper", time.Hour), managerLeads, managerWithout}, cliv1alpha1.WhoNobody, "Nothing evicts", errorThat("Nothing evicts")},
		"kube-controller-manager is dead, and there is no trace of ours": {[]sign{lease("kube-controller-manager", time.Hour), managerWithAll}, cliv1alpha1.WhoUnknown, "there is no sign that Taintkeeper does", warningThat("there is no sign that Taintkeeper does")},
		"a managed control plane, where no pod has a command line":       {[]sign{managerLeads}, cliv1alpha1.WhoUnknown, "kube-controller-manager does by default", nothing},
		"ours has a Lease with another name":                             {[]sign{leadsIn("tk", "eviction"), managerWithout}, cliv1alpha1.WhoTaintkeeper, "Taintkeeper evicts.", nothing},
		"ours has a pod, and no Lease is found":                          {[]sign{taintkeeperPod(), managerWithAll}, cliv1alpha1.WhoUnknown, "nothing shows whether Taintkeeper does too", nothing},
		"there is no trace of ours":                                      {[]sign{managerLeads, managerWithAll}, cliv1alpha1.WhoBuiltIn, "The built-in taint-eviction-controller evicts. There is no sign that Taintkeeper does.", nothing},
		"no rights":                                                      {[]sign{noRights}, cliv1alpha1.WhoUnknown, "nothing shows whether Taintkeeper does, nor whether the built-in controller is off", nothing},
		"no rights, but a command line":                                  {[]sign{noRights, managerWithAll}, cliv1alpha1.WhoUnknown, "nothing shows whether Taintkeeper does too", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterWith(test.signs...)
			task := taskOf(cluster, "eviction")
			if task.Who != test.who || !strings.Contains(task.Message, test.says) {
				t.Errorf("it is %s: %q, want %s with %q; signs: %q", task.Who, task.Message, test.who, test.says, task.Signs)
			}
			test.want.compare(t, found(t, "eviction-controllers", cluster))
		})
	}
}

func TestWhoTaintsNodes(t *testing.T) {
	all := leads("eviction", "node-health", "node-taint-rule")
	for name, test := range map[string]struct {
		signs []sign
		who   cliv1alpha1.Who
		want  is
	}{
		"the built-in, by its command line":             {[]sign{managerLeads, managerWithAll}, cliv1alpha1.WhoBuiltIn, nothing},
		"the built-in, by a taint that it wrote":        {[]sign{managerLeads, wrote("kube-controller-manager", ofTaints, time.Minute)}, cliv1alpha1.WhoBuiltIn, nothing},
		"the built-in, by a condition that it wrote":    {[]sign{managerLeads, wrote("kube-controller-manager", ofConditions, time.Minute)}, cliv1alpha1.WhoBuiltIn, nothing},
		"another of its controllers wrote something":    {[]sign{managerLeads, wrote("kube-controller-manager", ofRoutes, time.Minute)}, cliv1alpha1.WhoUnknown, nothing},
		"it wrote a taint an hour ago":                  {[]sign{managerLeads, wrote("kube-controller-manager", ofTaints, time.Hour)}, cliv1alpha1.WhoUnknown, nothing},
		"ours, and the built-in is off":                 {[]sign{all, managerLeads, managerWithout}, cliv1alpha1.WhoTaintkeeper, nothing},
		"ours does not by default":                      {[]sign{taintkeeperLeads, managerWithAll}, cliv1alpha1.WhoBuiltIn, nothing},
		"ours does not when it follows rules":           {[]sign{taintkeeperLeads, wrote("taintkeeper", ofTaints, time.Minute), managerWithAll}, cliv1alpha1.WhoBuiltIn, nothing},
		"ours is too old to say what it runs":           {[]sign{oldTaintkeeper, managerWithAll}, cliv1alpha1.WhoUnknown, nothing},
		"ours, by a condition that it wrote":            {[]sign{oldTaintkeeper, wrote("taintkeeper", ofConditions, time.Minute), managerWithout}, cliv1alpha1.WhoTaintkeeper, nothing},
		"ours, without an election, by a condition":     {[]sign{wrote("taintkeeper", ofConditions, time.Minute), managerWithout}, cliv1alpha1.WhoTaintkeeper, nothing},
		"ours has died since it wrote a condition":      {[]sign{lease("taintkeeper", time.Hour), wrote("taintkeeper", ofConditions, time.Minute), managerWithout}, cliv1alpha1.WhoNobody, errorThat("Nothing taints unhealthy nodes")},
		"both: coexistence is for evictions alone":      {[]sign{all, freshEvictionClock, managerLeads, managerWithAll}, cliv1alpha1.WhoBoth, errorThat("at twice the rate")},
		"ours, and nothing is known about the built-in": {[]sign{all, managerLeads}, cliv1alpha1.WhoUnknown, warningThat("nothing shows")},
		"ours, by its Lease":                            {[]sign{nodeHealthLease(time.Second), managerWithout}, cliv1alpha1.WhoTaintkeeper, nothing},
		"ours has stopped, by its Lease":                {[]sign{nodeHealthLease(time.Hour), all, managerWithout}, cliv1alpha1.WhoNobody, errorThat("Nothing taints unhealthy nodes")},
		"nobody":                                        {[]sign{managerLeads, managerWithout}, cliv1alpha1.WhoNobody, errorThat("Nothing taints unhealthy nodes")},
		"by the name that the built-in had until 1.28":  {[]sign{process("kube-controller-manager", "--controllers=*,-nodelifecycle")}, cliv1alpha1.WhoNobody, errorThat("Nothing")},
		"a list without a star has on what it names":    {[]sign{process("kube-controller-manager", "--controllers=nodelifecycle")}, cliv1alpha1.WhoBuiltIn, nothing},
		"no rights": {[]sign{noRights}, cliv1alpha1.WhoUnknown, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterWith(test.signs...)
			if task := taskOf(cluster, "node-health"); task.Who != test.who {
				t.Errorf("it is %s: %q, want %s; signs: %q", task.Who, task.Message, test.who, task.Signs)
			}
			test.want.compare(t, found(t, "node-health-controllers", cluster))
		})
	}
}

func taskOf(cluster *state.Cluster, name string) cliv1alpha1.CheckedTask {
	tasks := check.Make(cluster, nil, "", now).Controllers
	return tasks[slices.IndexFunc(tasks, func(task cliv1alpha1.CheckedTask) bool { return task.Task == name })]
}

func TestTheBacklogOfTheBuiltInIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		until, spared string
		want          string // empty if none
	}{
		"it is over":           {"2026-11-22T08:59:59Z", "n1", ""},
		"it cannot be read":    {"soon", "", ""},
		"no node is spared":    {"2026-11-22T09:01:30Z", "", "until 2026-11-22T09:01:30Z at the latest (another 1m30s); no node is spared."},
		"two nodes are spared": {"2026-11-22T09:01:30Z", "n1 n2", "(another 1m30s); spared nodes: n1, n2."},
		"all nodes are spared": {"2026-11-22T09:01:30Z", "*", "all nodes are spared."},
		"many are":             {"2026-11-22T09:01:30Z", strings.Repeat("n ", 11), "spared nodes: n, n, n, n, n, n, n, n, n, n and 1 more."},
	} {
		t.Run(name, func(t *testing.T) {
			notes := check.Make(clusterWith(func(cluster *state.Cluster) {
				cluster.Signs.AddEvictionClock(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
					Namespace: "kube-system", Name: v1alpha1.EvictionClock,
					Annotations: map[string]string{v1alpha1.BacklogUntilAnnotation: test.until, v1alpha1.BacklogSparedAnnotation: test.spared},
				}})
			}), nil, "", now).Notes
			told := slices.IndexFunc(notes, func(note string) bool { return strings.Contains(note, "backlog") })
			switch {
			case told < 0 && test.want != "":
				t.Errorf("the notes are %q, want %q", notes, test.want)
			case told >= 0 && (test.want == "" || !strings.HasSuffix(notes[told], test.want)):
				t.Errorf("it says %q, want %q", notes[told], test.want)
			}
		})
	}
}

// TestAnEvictionClockIsValidForAsLongAsThePolicySays compares the check with the policy that holds back the built-in.
func TestAnEvictionClockIsValidForAsLongAsThePolicySays(t *testing.T) {
	policy, err := os.ReadFile("../../../config/coexistence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(policy), "variables.renewed + duration('30s')") {
		t.Error("config/coexistence.yaml does not have a renewal valid for 30 s")
	}
	for renewed, who := range map[string]cliv1alpha1.Who{"2026-11-22T08:59:30Z": cliv1alpha1.WhoTaintkeeper, "2026-11-22T08:59:29Z": cliv1alpha1.WhoBoth} {
		if got := taskOf(clusterWith(taintkeeperLeads, clock(renewed), managerWithAll), "eviction").Who; got != who {
			t.Errorf("with a clock of %s at %s it is %s, want %s", renewed, now, got, who)
		}
	}
}
