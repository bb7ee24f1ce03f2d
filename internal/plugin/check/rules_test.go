// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

var now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// found applies one rule to a cluster.
func found(t *testing.T, id string, cluster *state.Cluster) []cliv1alpha1.CheckFinding {
	t.Helper()
	rules := slices.DeleteFunc(check.Rules(), func(rule check.Rule) bool { return rule.ID != id })
	if len(rules) != 1 {
		t.Fatalf("there are %d rules %q", len(rules), id)
	}
	return check.Make(cluster, rules, "", now).Findings
}

// is says which finding a test expects: none if severity is empty, else one whose message and advice contain the words.
type is struct {
	severity      cliv1alpha1.Severity
	words, advice string
}

func (want is) advising(words string) is {
	want.advice = words
	return want
}

var nothing = is{}

func (want is) compare(t *testing.T, findings []cliv1alpha1.CheckFinding) {
	t.Helper()
	switch {
	case want == nothing && len(findings) > 0:
		t.Errorf("found %+v, want nothing", findings)
	case want == nothing:
	case len(findings) != 1:
		t.Errorf("found %+v, want one finding", findings)
	case findings[0].Severity != want.severity || !strings.Contains(findings[0].Message, want.words):
		t.Errorf("found %s: %q, want %s with %q", findings[0].Severity, findings[0].Message, want.severity, want.words)
	case findings[0].Advice == "" || !strings.Contains(findings[0].Advice, want.advice):
		t.Errorf("the advice is %q, want %q", findings[0].Advice, want.advice)
	}
}

func errorThat(words string) is { return is{severity: cliv1alpha1.SeverityError, words: words} }

func warningThat(words string) is { return is{severity: cliv1alpha1.SeverityWarning, words: words} }

func infoThat(words string) is { return is{severity: cliv1alpha1.SeverityInfo, words: words} }

func node(name string, specs ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, spec := range specs {
		spec, stamped := strings.CutSuffix(spec, " since 8:00")
		taint, err := taints.Parse(spec)
		if err != nil {
			panic(err)
		}
		if stamped {
			taint.TimeAdded = new(metav1.NewTime(now.Add(-time.Hour)))
		}
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return node
}

// pod returns a pod of Deployment web on node n.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	ownedBy("Deployment", "web")(pod)
	for _, change := range change {
		change(pod)
	}
	return pod
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
}

func alone(pod *corev1.Pod) { pod.OwnerReferences = nil }

func labeled(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}

func static(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func on(node string) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Spec.NodeName = node } }

func critical(pod *corev1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }

func tolerating(all ...corev1.Toleration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = all }
}

func pods(all ...*corev1.Pod) *state.Cluster { return &state.Cluster{Pods: all} }

// forSeconds sets tolerationSeconds.
func forSeconds(t corev1.Toleration, seconds int64) corev1.Toleration {
	t.TolerationSeconds = &seconds
	return t
}

var (
	everything  = corev1.Toleration{Operator: corev1.TolerationOpExists}
	notReady    = corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	unreachable = corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	// defaults are the tolerations that the admission plugin DefaultTolerationSeconds adds.
	defaults = tolerating(forSeconds(notReady, 300), forSeconds(unreachable, 300))
)

func TestATolerationThatIsNotWhatItSeemsIsFound(t *testing.T) {
	const noExecute, noSchedule = corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	for name, test := range map[string]struct {
		rule        string
		tolerations []corev1.Toleration
		want        is
	}{
		"Exists with a value":                 {"malformed-toleration", []corev1.Toleration{{Key: "k", Operator: "Exists", Value: "v"}}, errorThat("{key: k, operator: Exists, value: v}: operator Exists ignores the value")},
		"Exists without a value":              {"malformed-toleration", []corev1.Toleration{{Key: "k", Operator: "Exists"}}, nothing},
		"Equal without a key":                 {"malformed-toleration", []corev1.Toleration{{Operator: "Equal", Value: "v"}}, errorThat("operator Equal needs a key")},
		"no operator and no key":              {"malformed-toleration", []corev1.Toleration{{}}, errorThat("operator Equal needs a key")},
		"Equal without a value":               {"malformed-toleration", []corev1.Toleration{{Key: "k", Operator: "Equal"}}, nothing},
		"Exists without a key":                {"malformed-toleration", []corev1.Toleration{everything}, nothing},
		"seconds with NoSchedule":             {"malformed-toleration", []corev1.Toleration{forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: noSchedule}, 60)}, errorThat("only with effect NoExecute")},
		"seconds without an effect":           {"malformed-toleration", []corev1.Toleration{forSeconds(corev1.Toleration{Key: "k", Operator: "Exists"}, 60)}, errorThat("only with effect NoExecute")},
		"seconds with NoExecute":              {"malformed-toleration", []corev1.Toleration{forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: noExecute}, 60)}, nothing},
		"an operator that does not exist":     {"malformed-toleration", []corev1.Toleration{{Key: "k", Operator: "In", Value: "v"}}, errorThat(`there is no operator "In"`)},
		"an effect that does not exist":       {"malformed-toleration", []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoEvict"}}, errorThat(`there is no effect "NoEvict"`)},
		"a key that no taint can have":        {"malformed-toleration", []corev1.Toleration{{Key: "a b", Operator: "Exists"}}, errorThat(`{key: "a b", operator: Exists}: no taint can have this key`)},
		"a value that no taint can have":      {"malformed-toleration", []corev1.Toleration{{Key: "k", Value: "a b"}}, errorThat("no taint can have this value")},
		"two faults, reported together":       {"malformed-toleration", []corev1.Toleration{forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Value: "v"}, 60)}, errorThat(", and tolerationSeconds are allowed")},
		"Gt":                                  {"comparison-operator", []corev1.Toleration{{Key: "k", Operator: "Gt", Value: "5"}}, warningThat("matches nothing unless the feature gate")},
		"Lt":                                  {"comparison-operator", []corev1.Toleration{{Key: "k", Operator: "Lt", Value: "5"}}, warningThat("operator: Lt")},
		"Equal compares nothing":              {"comparison-operator", []corev1.Toleration{{Key: "k", Value: "5"}}, nothing},
		"malformed ones are reported as such": {"no-seconds", []corev1.Toleration{forSeconds(corev1.Toleration{Key: "k", Operator: "Exists"}, 0)}, nothing},
		"negative seconds":                    {"no-seconds", []corev1.Toleration{forSeconds(unreachable, -1)}, warningThat("leave immediately")},
		"zero seconds":                        {"no-seconds", []corev1.Toleration{forSeconds(unreachable, 0)}, warningThat("leave immediately")},
		"as Taintkeeper adds it":              {"no-seconds", []corev1.Toleration{taints.ForNoTime(corev1.Taint{Key: "gone", Value: "x", Effect: noExecute})}, infoThat("survives a restart of its kubelet")},
		"that outlasts its taint":             {"unknown-key", []corev1.Toleration{taints.ForNoTime(corev1.Taint{Key: "gone", Value: "x", Effect: noExecute})}, nothing},
		"a second":                            {"no-seconds", []corev1.Toleration{forSeconds(unreachable, 1)}, nothing},
		"indefinitely":                        {"no-seconds", []corev1.Toleration{unreachable}, nothing},
		"the narrow one comes last":           {"shadowed-toleration", []corev1.Toleration{everything, forSeconds(unreachable, 300)}, warningThat("pods stay indefinitely, not for 300 s")},
		"the narrow one comes first":          {"shadowed-toleration", []corev1.Toleration{forSeconds(unreachable, 300), everything}, nothing},
		"the longer one comes last":           {"shadowed-toleration", []corev1.Toleration{forSeconds(unreachable, 30), forSeconds(unreachable, 300)}, warningThat("pods stay for 30 s, not for 300 s")},
		"any value before one value":          {"shadowed-toleration", []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: noExecute}, forSeconds(corev1.Toleration{Key: "k", Value: "v", Effect: noExecute}, 60)}, warningThat("never counts")},
		"one value before any value":          {"shadowed-toleration", []corev1.Toleration{{Key: "k", Value: "v", Effect: noExecute}, forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: noExecute}, 60)}, nothing},
		"the same for as long, differently":   {"shadowed-toleration", []corev1.Toleration{everything, unreachable}, nothing},
		"another key":                         {"shadowed-toleration", []corev1.Toleration{notReady, forSeconds(unreachable, 300)}, nothing},
		"another effect":                      {"shadowed-toleration", []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: noSchedule}, forSeconds(corev1.Toleration{Key: "k", Operator: "Exists", Effect: noExecute}, 60)}, nothing},
		"the same twice":                      {"duplicate-toleration", []corev1.Toleration{notReady, unreachable, notReady}, infoThat("more than once")},
		"the same but for the seconds":        {"duplicate-toleration", []corev1.Toleration{notReady, forSeconds(notReady, 300)}, nothing},
		"a key that a node has":               {"unknown-key", []corev1.Toleration{{Key: "dedicated", Operator: "Exists"}}, nothing},
		"a key that Kubernetes sets":          {"unknown-key", []corev1.Toleration{unreachable}, nothing},
		"a key that nobody sets":              {"unknown-key", []corev1.Toleration{{Key: "maintenance", Operator: "Exists"}}, infoThat("no node has a taint with the key maintenance")},
		"a typing error":                      {"unknown-key", []corev1.Toleration{{Key: "node.kubernetes.io/unreachible", Operator: "Exists"}}, warningThat("Did you mean node.kubernetes.io/unreachable?")},
		"one letter fewer than a node's key":  {"unknown-key", []corev1.Toleration{{Key: "dedicatd", Operator: "Exists"}}, infoThat("no node has a taint with the key dedicatd, but some have dedicated")},
		"a key of AWS":                        {"unknown-key", []corev1.Toleration{{Key: "fsx.csi.aws.com/agent-not-ready", Operator: "Exists"}}, nothing},
		"a driver that is like another":       {"unknown-key", []corev1.Toleration{{Key: "eks.csi.aws.com/agent-not-ready", Operator: "Exists"}}, infoThat("no node has")},
		"a typing error in a domain":          {"unknown-key", []corev1.Toleration{{Key: "karpentr.sh/disrupted", Operator: "Exists"}}, warningThat("Did you mean karpenter.sh/disrupted?")},
		"a key of Gardener":                   {"unknown-key", []corev1.Toleration{{Key: "node.gardener.cloud/critical-components-not-ready", Operator: "Exists"}}, nothing},
		"a key that Kubernetes retired":       {"unknown-key", []corev1.Toleration{{Key: "node.alpha.kubernetes.io/notReady", Operator: "Exists"}}, warningThat("Kubernetes no longer sets the key node.alpha.kubernetes.io/notReady. Did you mean node.kubernetes.io/not-ready?")},
		"a key with a known prefix":           {"unknown-key", []corev1.Toleration{{Key: "readiness.k8s.io/network", Operator: "Exists"}}, nothing},
		"a short key that is like another":    {"unknown-key", []corev1.Toleration{{Key: "cpus", Operator: "Exists"}}, infoThat("no node has")},
	} {
		t.Run(test.rule+": "+name, func(t *testing.T) {
			cluster := pods(pod("p", tolerating(test.tolerations...)))
			cluster.Nodes = []*corev1.Node{node("n", "dedicated=gpu:NoSchedule", "gpus:NoSchedule")}
			test.want.compare(t, found(t, test.rule, cluster))
		})
	}
}

func TestABudgetIsFoundThatDoesNotKeepWhatItPromises(t *testing.T) {
	selecting := func(value string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ObservedGeneration: 1},
		}
	}
	untold, unreadable := selecting("web", 0), selecting("web", 0)
	untold.Status = policyv1.PodDisruptionBudgetStatus{}
	unreadable.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
	together := []*corev1.Pod{pod("a"), pod("b"), pod("c", on("m"))}
	oneOfOne, zero := selecting("web", 0), selecting("web", 0)
	oneOfOne.Spec.MinAvailable, oneOfOne.Status.ExpectedPods = new(intstr.FromInt32(1)), 1
	zero.Spec.MaxUnavailable, zero.Status.ExpectedPods = new(intstr.FromInt32(0)), 3
	const more = "Run more replicas, or loosen the PodDisruptionBudget"
	for name, test := range map[string]struct {
		budget *policyv1.PodDisruptionBudget
		pods   []*corev1.Pod
		want   is
	}{
		"more pods on a node than it allows":          {selecting("web", 1), together, warningThat("It covers 3 pods and allows 1 disruption, but a NoExecute taint on node n alone evicts 2.").advising("Spread the pods")},
		"it is 1 of 1":                                {oneOfOne, []*corev1.Pod{pod("a")}, warningThat("It covers 1 pod and allows 0 disruptions").advising(more)},
		"it never allows one":                         {zero, together, warningThat("It covers 3 pods and allows 0 disruptions").advising(more)},
		"as many pods on a node as it allows":         {selecting("web", 2), together, nothing},
		"it allows none":                              {selecting("web", 0), []*corev1.Pod{pod("a"), pod("b", on("m"))}, warningThat("It covers 2 pods and allows 0 disruptions, but a NoExecute taint on node m alone evicts 1.").advising("Find out why not all")},
		"the pods tolerate what they are not told of": {selecting("web", 0), []*corev1.Pod{pod("a", tolerating(everything))}, nothing},
		"it covers no pod":                            {selecting("wbe", 1), together, infoThat("covers no pod")},
		"its selector cannot be read":                 {unreadable, together, warningThat("cannot be read")},
		"nobody has worked out what it allows":        {untold, together, nothing},
		"there are no pods to know of":                {selecting("web", 1), nil, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := pods(test.pods...)
			cluster.Budgets = []*policyv1.PodDisruptionBudget{test.budget}
			test.want.compare(t, found(t, "budget-false-comfort", cluster))
		})
	}
}

func TestATaintWithoutTimeAddedIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  is
	}{
		"a NoExecute taint without timeAdded":        {[]*corev1.Node{node("n", "k=v:NoExecute")}, nil, warningThat("no timeAdded on 1 node,")},
		"on many nodes, which is one finding":        {[]*corev1.Node{node("m", "k:NoExecute"), node("n", "k:NoExecute")}, nil, warningThat("on 2 nodes")},
		"a NoExecute taint with timeAdded":           {[]*corev1.Node{node("n", "k=v:NoExecute since 8:00")}, nil, nothing},
		"another effect, whose instant says nothing": {[]*corev1.Node{node("n", "k=v:NoSchedule")}, nil, nothing},
		"a pod tolerates it for a while":             {[]*corev1.Node{node("n", "k:NoExecute")}, []*corev1.Pod{pod("p", tolerating(forSeconds(everything, 60)))}, warningThat("no timeAdded on 1 node,")},
		"no pod tolerates it for a while":            {[]*corev1.Node{node("n", "k:NoExecute")}, []*corev1.Pod{pod("p"), pod("q", tolerating(everything))}, nothing},
		"a pod on another node does":                 {[]*corev1.Node{node("m", "k:NoExecute")}, []*corev1.Pod{pod("p", tolerating(forSeconds(everything, 60)))}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.compare(t, found(t, "no-time-added", &state.Cluster{Nodes: test.nodes, Pods: test.pods}))
		})
	}
}

func TestTolerationsThatKubernetesAddsToATemplateCount(t *testing.T) {
	template := func(kind string, tolerations ...corev1.Toleration) *state.Cluster {
		return &state.Cluster{Workloads: []state.WorkloadTemplate{{
			CheckedObject: cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: kind, Name: "web"}}, Replicas: 1, Pod: pod("web", alone, tolerating(tolerations...)),
		}}}
	}
	for name, test := range map[string]struct {
		rule    string
		cluster *state.Cluster
		want    is
	}{
		"a Deployment gets 300 seconds":                       {"single-replica", template("Deployment"), infoThat("300 s")},
		"but not where it says something else":                {"single-replica", template("Deployment", forSeconds(unreachable, 30)), nothing},
		"a Deployment that tolerates everything indefinitely": {"unreachable-indefinitely", template("Deployment", everything), warningThat("{operator: Exists}")},
		"a DaemonSet tolerates failed nodes":                  {"daemonset-leaves", template("DaemonSet"), infoThat("gets node.kubernetes.io/out-of-service:NoExecute, or a")},
		"its controller drops their seconds":                  {"daemonset-leaves", template("DaemonSet", forSeconds(unreachable, 30)), infoThat("It leaves a node that gets node.kubernetes.io/out-of-service:NoExecute, or a")},
		"what is added shadows nothing":                       {"shadowed-toleration", template("Deployment", everything), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, test.rule, test.cluster)) })
	}
}

func TestABudgetKeepsItsPromiseWherePoliciesAskIt(t *testing.T) {
	type spec = v1alpha1.EvictionPolicySpec
	broken := warningThat("It covers 2 pods and allows 1 disruption, but a NoExecute taint on node n alone evicts 2.")
	for name, test := range map[string]struct {
		change func(*spec)
		want   is
	}{
		"Evict":              {nil, nothing},
		"Evict, other pods":  {func(s *spec) { s.PodSelector = withLabel("app", "db") }, broken},
		"Evict, some taints": {func(s *spec) { s.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "k"}} }, broken},
		"Delete":             {func(s *spec) { s.Action = v1alpha1.ActionDelete }, broken},
		"a dry run":          {func(s *spec) { s.DryRun = true }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			budget := maxUnavailable(intstr.FromInt32(1))
			budget.Status = policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, ObservedGeneration: 1}
			test.want.compare(t, found(t, "budget-false-comfort", evicting(test.change, budget)))
		})
	}
}

func TestADaemonSetIsFoundThatACommonTaintTakesAway(t *testing.T) {
	daemon := ownedBy("DaemonSet", "cni")
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want is
	}{
		"with what its controller adds alone":      {pod("p", daemon, tolerating(notReady, unreachable)), infoThat("node.kubernetes.io/out-of-service:NoExecute, or a NoExecute taint that its tolerations do not name")},
		"when it is critical":                      {pod("p", daemon, critical, tolerating(notReady, unreachable)), warningThat("out-of-service")},
		"by priority alone":                        {pod("p", daemon, func(p *corev1.Pod) { p.Spec.Priority = new(int32(2_000_001_000)) }, tolerating(notReady, unreachable)), warningThat("out-of-service")},
		"when it tolerates everything":             {pod("p", daemon, critical, tolerating(everything)), nothing},
		"when it tolerates every NoExecute taint":  {pod("p", daemon, critical, tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"})), nothing},
		"when it tolerates NoSchedule alone":       {pod("p", daemon, critical, tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoSchedule"})), warningThat("not-ready:NoExecute, or node.kubernetes.io/unreachable:NoExecute, or")},
		"when it tolerates everything for a while": {pod("p", daemon, critical, tolerating(forSeconds(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"}, 60))), warningThat("not-ready")},
		"a Deployment may leave":                   {pod("p", critical), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "daemonset-leaves", pods(test.pod))) })
	}
}

func TestWithoutNodesItIsNotKnownWhetherAKeyIsUsed(t *testing.T) {
	nothing.compare(t, found(t, "unknown-key", pods(pod("p", tolerating(corev1.Toleration{Key: "maintenance", Operator: "Exists"})))))
}

func TestAPartOfTheControlPlaneThatACommonTaintEvictsIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want is
	}{
		"a kube-apiserver in a Deployment":  {pod("p", labeled("component", "kube-apiserver"), defaults), warningThat("out-of-service")},
		"whatever has the tier's label":     {pod("p", labeled("tier", "control-plane"), defaults), warningThat("out-of-service")},
		"a static pod stays":                {pod("p", labeled("component", "kube-apiserver"), static), nothing},
		"Taintkeeper tolerates every taint": {pod("p", labeled("app.kubernetes.io/name", "taintkeeper"), tolerating(forSeconds(unreachable, 30), corev1.Toleration{Operator: "Exists", Effect: "NoExecute"})), nothing},
		"a workload of a user":              {pod("p", defaults), nothing},
		"a DaemonSet has a rule of its own": {pod("p", labeled("component", "kube-scheduler"), ownedBy("DaemonSet", "s")), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "control-plane-leaves", pods(test.pod))) })
	}
}

func TestEveryRuleHasAnIDATitleAndOneSentenceOfAdvice(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range check.Rules() {
		if rule.ID == "" || seen[rule.ID] || rule.Title == "" || rule.Severity == "" {
			t.Errorf("rule %+v", rule)
		}
		seen[rule.ID] = true
		if !strings.HasSuffix(rule.Advice, ".") || strings.Count(rule.Advice, ". ") > 0 {
			t.Errorf("rule %s: the advice is %q", rule.ID, rule.Advice)
		}
	}
}
