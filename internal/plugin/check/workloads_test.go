// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestAWorkloadThatToleratesACordonIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want is
	}{
		"by name":                 {pod("p", tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"})), warningThat("come back to a cordoned node, because of toleration {key: node.kubernetes.io/unschedulable, operator: Exists}")},
		"with everything":         {pod("p", tolerating(everything)), warningThat("{operator: Exists}")},
		"NoExecute alone":         {pod("p", tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"})), nothing},
		"a DaemonSet is meant to": {pod("p", ownedBy("DaemonSet", "d"), tolerating(everything)), nothing},
		"a bare pod is gone":      {pod("p", alone, tolerating(everything)), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "tolerates-cordon", pods(test.pod))) })
	}
}

func TestATaintThatIsSetForAWhileAndStaysIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		taint string
		since time.Duration // before now; 0 if it is not recorded
		want  is
	}{
		"a cordon of two days":    {"node.kubernetes.io/unschedulable:NoSchedule", 48 * time.Hour, infoThat("It has had the taint node.kubernetes.io/unschedulable for at least 2d.")},
		"a cordon of an hour":     {"node.kubernetes.io/unschedulable:NoSchedule", time.Hour, nothing},
		"a cordon of unknown age": {"node.kubernetes.io/unschedulable:NoSchedule", 0, nothing},
		"of an autoscaler":        {"ToBeDeletedByClusterAutoscaler=1764000000:NoSchedule", 2 * time.Hour, infoThat("ToBeDeletedByClusterAutoscaler for at least 120m")},
		"a taint that is to stay": {"dedicated:NoSchedule", 48 * time.Hour, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			if test.since > 0 {
				is.Spec.Taints[0].TimeAdded = new(metav1.NewTime(now.Add(-test.since)))
			}
			test.want.compare(t, found(t, "stale-taint", clusterWith(func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}

// cancelled returns an event that says how often the eviction of a pod was cancelled.
func cancelled(pod string, count int32) sign {
	return func(cluster *state.Cluster) {
		cluster.Signs.AddEvent(&corev1.Event{
			InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: pod},
			Reason:         v1alpha1.EventEviction, Message: "Cancelling deletion of Pod default/" + pod,
			Count: count, LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
		})
	}
}

func TestATaintThatComesAndGoesIsFound(t *testing.T) {
	there := func(cluster *state.Cluster) { cluster.Pods = append(cluster.Pods, pod("p"), pod("q")) }
	byHand := wrote("hand", ofTaints, time.Minute)
	const says = "Evictions of 1 pod were cancelled at least 3 times, as happens when a taint comes and goes"
	for name, test := range map[string]struct {
		signs []sign
		want  is
	}{
		"once":                     {[]sign{there, cancelled("p", 1)}, nothing},
		"once for each of them":    {[]sign{there, cancelled("p", 1), cancelled("q", 1)}, nothing},
		"three times":              {[]sign{there, cancelled("p", 3)}, warningThat(says + ".")},
		"in three events":          {[]sign{there, cancelled("p", 1), cancelled("p", 1), cancelled("p", 0)}, warningThat(says)},
		"the last writer is named": {[]sign{there, byHand, cancelled("p", 3)}, warningThat(says + "; field manager hand last wrote the taints of the node, at 2026-11-22T08:59:00Z.")},
		"a pod that is gone":       {[]sign{there, cancelled("gone", 3)}, nothing},
		"a successor with the name": {[]sign{func(cluster *state.Cluster) {
			cluster.Pods = append(cluster.Pods, pod("p", func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now) }))
		}, cancelled("p", 3)}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "flapping-taint", clusterWith(test.signs...)))
		})
	}
}

func TestAGracePeriodShorterThanTwoRenewalsIsFound(t *testing.T) {
	leading := func(grace time.Duration) sign {
		leader := v1alpha1.Leader{Controllers: []string{"node-health"}, MonitorGrace: grace}
		return func(cluster *state.Cluster) {
			leads("node-health")(cluster)
			cluster.Signs.Leases[0].Labels = leader.Labels(replica)
		}
	}
	for name, test := range map[string]struct {
		sign sign
		want is
	}{
		"one renewal":         {leading(10 * time.Second), warningThat("--node-monitor-grace-period=10s is less than 21s")},
		"just too short":      {leading(20999 * time.Millisecond), warningThat("=20.999s is less than 21s")},
		"long enough":         {leading(21 * time.Second), nothing},
		"without node health": {leading(0), nothing},
		"of the built-in":     {process("kube-controller-manager", "--node-monitor-grace-period=10s"), nothing},
		"of an old version":   {oldTaintkeeper, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "short-grace-period", clusterWith(test.sign)))
		})
	}
}

func TestAStartupTaintThatStaysIsFound(t *testing.T) {
	const cilium = "node.cilium.io/agent-not-ready:NoExecute"
	for name, test := range map[string]struct {
		taint string
		ready corev1.ConditionStatus
		wrote time.Duration // how long ago; 0 if there are no managed fields
		want  is
	}{
		"for an hour":                      {cilium, corev1.ConditionTrue, time.Hour, warningThat("This taint is removed by Cilium when a node has started (https://docs.cilium.io/en/stable/installation/taints/), but it has been on 1 node for more than 15 minutes.")},
		"of a prefix":                      {"readiness.k8s.io/network:NoSchedule", corev1.ConditionTrue, time.Hour, warningThat("removed by node-readiness-controller")},
		"for 14 minutes":                   {cilium, corev1.ConditionTrue, 14 * time.Minute, nothing},
		"with a timeAdded":                 {cilium + " since 8:00", corev1.ConditionTrue, time.Minute, warningThat("Cilium")},
		"in a file without managed fields": {cilium, corev1.ConditionTrue, 0, infoThat("but it is still on 1 node, ready for more than 15 minutes.")},
		"a node that is not ready":         {cilium, corev1.ConditionFalse, time.Hour, nothing},
		"another taint":                    {"dedicated:NoSchedule", corev1.ConditionTrue, time.Hour, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			is.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour))
			is.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
			if test.wrote > 0 {
				is.ManagedFields = []metav1.ManagedFieldsEntry{{
					Manager: "kubectl-taint", Time: new(metav1.NewTime(now.Add(-test.wrote))), FieldsV1: metav1.NewFieldsV1(ofTaints),
				}}
			}
			test.want.compare(t, found(t, "startup-taint", clusterWith(func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}

func TestPodsThatNameATaintedNodeAreFound(t *testing.T) {
	created := func(ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	template := func(name string, change ...func(*corev1.Pod)) sign {
		return func(cluster *state.Cluster) {
			cluster.Workloads = append(cluster.Workloads, state.WorkloadTemplate{
				CheckedObject: cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "CronJob", Name: "w"}}, Replicas: 1, Pod: pod("w", append(change, alone, on(name))...),
			})
		}
	}
	running := func(change ...func(*corev1.Pod)) sign {
		return func(cluster *state.Cluster) { cluster.Pods = append(cluster.Pods, pod("p", change...)) }
	}
	nodes := func(specs ...string) sign {
		return func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{node("n", specs...)} }
	}
	const taint, stamped = "k=v:NoExecute", "k=v:NoExecute since 8:00"
	for name, test := range map[string]struct {
		cluster []sign
		want    is
	}{
		"a template, without its node":   {[]sign{template("n")}, warningThat("Its template names node n, so the scheduler does not keep its pods off")},
		"a template, with a clean node":  {[]sign{template("n"), nodes("k:NoSchedule")}, warningThat("names node n")},
		"a template, with a tainted one": {[]sign{template("n"), nodes(taint)}, errorThat("Its template names node n, and does not tolerate taint k=v:NoExecute of that node")},
		"one that tolerates":             {[]sign{template("n", tolerating(everything)), nodes(taint)}, warningThat("names node n")},
		"a template that names none":     {[]sign{template(""), nodes(taint)}, nothing},
		"a pod younger than the taint":   {[]sign{running(created(time.Minute)), nodes(stamped)}, errorThat("created on n although they do not tolerate taint k=v:NoExecute, which was added before")},
		"an older pod":                   {[]sign{running(created(2 * time.Hour)), nodes(stamped)}, nothing},
		"one just before the scheduler knew": {
			[]sign{running(created(time.Hour - 9*time.Second)), nodes(stamped)}, nothing,
		},
		"a pod that tolerates":     {[]sign{running(created(time.Minute), tolerating(everything)), nodes(stamped)}, nothing},
		"without timeAdded":        {[]sign{running(created(time.Minute)), nodes(taint)}, nothing},
		"a pod without controller": {[]sign{running(created(time.Minute), alone), nodes(stamped)}, nothing},
		"a static pod":             {[]sign{running(created(time.Minute), static), nodes(stamped)}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "names-node", clusterWith(test.cluster...)))
		})
	}
}

func onNode(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

func TestPodsThatATaintEvictsAgainAndAgainAreFound(t *testing.T) {
	forAWhile := tolerating(forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoExecute"}, 10))
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		on   []string // taints of the node
		want is
	}{
		"tolerated for a while, without a twin":        {pod("p", forAWhile), []string{"k:NoExecute"}, warningThat("It tolerates taint k:NoExecute only for a while, with {key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 10}, and nothing keeps its pods off nodes that have it: n.")},
		"with a twin":                                  {pod("p", forAWhile), []string{"k:NoExecute", "k:NoSchedule"}, nothing},
		"another taint keeps it off":                   {pod("p", forAWhile), []string{"k:NoExecute", "other:NoExecute"}, nothing},
		"another taint hardly does":                    {pod("p", forAWhile), []string{"k:NoExecute", "other:PreferNoSchedule"}, warningThat("k:NoExecute")},
		"the node lacks the taint":                     {pod("p", forAWhile), nil, nothing},
		"it is not tolerated, so they do not come":     {pod("p"), []string{"k:NoExecute"}, nothing},
		"it is tolerated indefinitely":                 {pod("p", tolerating(everything)), []string{"k:NoExecute"}, nothing},
		"they select other nodes":                      {pod("p", forAWhile, onNode("disk", "ssd")), []string{"k:NoExecute"}, nothing},
		"a bare pod does not come back":                {pod("p", forAWhile, alone), []string{"k:NoExecute"}, nothing},
		"the value decides":                            {pod("p", tolerating(forSeconds(corev1.Toleration{Key: "k", Value: "a", Effect: "NoExecute"}, 10))), []string{"k=b:NoExecute"}, nothing},
		"node health's taints have their twins":        {pod("p", defaults), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}, nothing},
		"the twin is tolerated, too, so they may come": {pod("p", tolerating(forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoExecute"}, 10), corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoSchedule"})), []string{"k:NoExecute", "k:NoSchedule"}, warningThat("k:NoExecute")},
		"the twin of a failed node, which node health sets": {pod("p", defaults, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: "Exists", Effect: "NoSchedule"})
		}), []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}, warningThat("unreachable").advising("Do not tolerate node.kubernetes.io/unreachable:NoSchedule")},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "evicted-again", &state.Cluster{Nodes: []*corev1.Node{node("n", test.on...)}, Pods: []*corev1.Pod{test.pod}}))
		})
	}
}

func TestADaemonSetThatATaintKeepsOffIsFound(t *testing.T) {
	daemon := ownedBy("DaemonSet", "plugin")
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		on   []string
		want is
	}{
		"a taint that it does not tolerate":          {pod("p", daemon), []string{"type=gpu:NoSchedule"}, infoThat("Taint type=gpu:NoSchedule keeps it off m.")},
		"a taint that it tolerates":                  {pod("p", daemon, tolerating(everything)), []string{"type=gpu:NoSchedule"}, nothing},
		"the control plane's":                        {pod("p", daemon), []string{"node-role.kubernetes.io/control-plane:NoSchedule"}, nothing},
		"it selects other nodes":                     {pod("p", daemon, onNode("gpu", "yes")), []string{"type=gpu:NoSchedule"}, nothing},
		"its controller's affinity names its node":   {pod("p", daemon, inAffinity("other")), []string{"type=gpu:NoSchedule"}, infoThat("keeps it off m.")},
		"a Deployment is kept off for other reasons": {pod("p"), []string{"type=gpu:NoSchedule"}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "daemonset-kept-off", &state.Cluster{Nodes: []*corev1.Node{node("m", test.on...)}, Pods: []*corev1.Pod{test.pod}}))
		})
	}
}

// inAffinity is how the DaemonSet controller binds a pod to its node.
func inAffinity(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{node}}}}},
		}}}
	}
}
