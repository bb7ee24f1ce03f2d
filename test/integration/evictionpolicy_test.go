// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// evictionPolicy is a policy as a user writes it.
func evictionPolicy(name string, edits ...func(spec map[string]any)) *unstructured.Unstructured {
	spec := map[string]any{"action": "Hold"}
	for _, edit := range edits {
		edit(spec)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EvictionPolicy"))
	object.SetName(name)
	return object
}

// and makes several edits one.
func and(edits ...func(map[string]any)) func(map[string]any) {
	return func(spec map[string]any) {
		for _, edit := range edits {
			edit(spec)
		}
	}
}

var (
	actionDelete = with("Delete", "action")
	actionEvict  = with("Evict", "action")
)

func without(field string) func(map[string]any) {
	return func(spec map[string]any) { delete(spec, field) }
}

func named(taints ...any) func(map[string]any) { return with(taints, "taints") }

func withKey(key string) map[string]any { return map[string]any{"key": key} }

// manyTaints returns the given number of taints.
func manyTaints(count int) (all []any) {
	for i := range count {
		all = append(all, withKey(fmt.Sprint("taint-", i)))
	}
	return all
}

func pace(pods any, per string) func(map[string]any) {
	return with(map[string]any{"pods": pods, "per": per}, "pace")
}

func breaker(maxDue any) func(map[string]any) {
	return with(map[string]any{"maxDue": maxDue}, "breaker")
}

const (
	sayDeadline = "more than 0s and at most 168h, a week, for example 15m or 1h30m"
	saySettle   = "it must be from 0s to 10m, for example 30s"
	sayPer      = "a window must be 1s to 1h long, for example 30s or 5m"
	sayPods     = "a number of pods from 1 to 10000: to let none leave, use paused or the action Hold"
	sayMaxDue   = "a number of pods, 1 or more, or a percentage from 1% to 99%: to let none leave, use paused or the action Hold"
	sayNothing  = "the policy does nothing: set the action to Evict or Hold, or add a pace, a breaker, paused, finished: Keep, or ifDown: Hold"
	sayKey      = "the key of a taint: a name of at most 63 characters, after a DNS prefix of at most 253 and a slash if there is one"
	sayValue    = "the value of a taint: letters, digits, dashes, underscores and dots"
	sayPaused   = "an empty reason does not pause: say why pods must stay, or remove the field"
	saySelector = "In and NotIn need values; Exists and DoesNotExist take none"
)

var refusedPolicies = map[string]struct {
	edit func(map[string]any)
	says string
}{
	"no action":                                       {without("action"), "spec.action: Required value"},
	"an invalid action":                               {with("Keep", "action"), `supported values: "Delete", "Evict", "Hold"`},
	"out-of-service":                                  {named(withKey("x"), withKey("node.kubernetes.io/out-of-service")), "Remove the taint from the list"},
	"too many taints":                                 {named(manyTaints(33)...), "at most 32"},
	"a taint without a key":                           {named(withKey("")), sayKey},
	"a key with a space":                              {named(withKey("a b")), sayKey},
	"a key with a prefix in capitals":                 {named(withKey("Example.com/x")), sayKey},
	"a key with too long a name":                      {named(withKey("example.com/" + strings.Repeat("x", 64))), sayKey},
	"an invalid value":                                {named(map[string]any{"key": "x", "value": "a b"}), sayValue},
	"too long a value":                                {named(map[string]any{"key": "x", "value": strings.Repeat("x", 64)}), "63"},
	"In without values":                               {with([]any{map[string]any{"key": "a", "operator": "In"}}, "podSelector", "matchExpressions"), saySelector},
	"Exists with values":                              {with([]any{map[string]any{"key": "a", "operator": "Exists", "values": []any{"x"}}}, "nodeSelector", "matchExpressions"), saySelector},
	"an invalid operator":                             {with([]any{map[string]any{"key": "a", "operator": "in", "values": []any{"x"}}}, "namespaceSelector", "matchExpressions"), `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
	"an invalid label":                                {with(map[string]any{"a b": "x"}, "podSelector", "matchLabels"), "a key is not a valid label key"},
	"a deadline with Delete":                          {and(actionDelete, pace(int64(5), "1m"), with("15m", "deadline")), "remove the deadline, or choose another action"},
	"a deadline of 0s":                                {with("0s", "deadline"), sayDeadline},
	"a negative deadline":                             {with("-5m", "deadline"), sayDeadline},
	"a deadline without a unit":                       {with("15", "deadline"), sayDeadline},
	"too late a deadline":                             {with("168h1s", "deadline"), sayDeadline},
	"unready with Hold":                               {with("Ask", "unready"), "remove it, or set the action to Evict"},
	"unready with Delete":                             {and(actionDelete, pace(int64(5), "1m"), with("Delete", "unready")), "remove it, or set the action to Evict"},
	"an invalid unready":                              {and(actionEvict, with("Hold", "unready")), `supported values: "Delete", "Ask"`},
	"an invalid finished":                             {with("Hold", "finished"), `supported values: "Delete", "Keep"`},
	"an invalid ifDown":                               {with("Delete", "ifDown"), `supported values: "Evict", "Hold"`},
	"a policy that does nothing":                      {actionDelete, sayNothing},
	"one that still does nothing":                     {and(actionDelete, with(true, "dryRun"), with("Delete", "finished"), with("Evict", "ifDown")), sayNothing},
	"a pace without pods":                             {with(map[string]any{"per": "1m"}, "pace"), "spec.pace.pods: Required value"},
	"a pace without a window":                         {with(map[string]any{"pods": int64(5)}, "pace"), "spec.pace.per: Required value"},
	"a pace of no pods":                               {pace(int64(0), "1m"), sayPods},
	"a pace of a negative number of pods":             {pace(int64(-5), "1m"), sayPods},
	"a pace of more than 10000":                       {pace(int64(10001), "1m"), sayPods},
	"a window of less than 1s":                        {pace(int64(5), "999ms"), sayPer},
	"a window of 0s":                                  {pace(int64(5), "0s"), sayPer},
	"a window that is negative":                       {pace(int64(5), "-1m"), sayPer},
	"a window of more than 1h":                        {pace(int64(5), "1h1s"), sayPer},
	"a window that is not a duration":                 {pace(int64(5), "minute"), sayPer},
	"an invalid scope":                                {and(pace(int64(5), "1m"), with("Rack", "pace", "scope")), `supported values: "Node", "Zone", "Cluster"`},
	"a breaker without maxDue":                        {with(map[string]any{"settle": "10s"}, "breaker"), "spec.breaker.maxDue: Required value"},
	"a breaker at no pods":                            {breaker(int64(0)), sayMaxDue},
	"a breaker at a negative number of pods":          {breaker(int64(-1)), sayMaxDue},
	"a breaker at no percent":                         {breaker("0%"), sayMaxDue},
	"a breaker above all":                             {breaker("101%"), sayMaxDue},
	"a breaker that never opens":                      {breaker("100%"), sayMaxDue},
	"a dry run that is paused":                        {and(with(true, "dryRun"), with("x", "paused")), "so it pauses nothing"},
	"a dry run that holds if down":                    {and(with(true, "dryRun"), with("Hold", "ifDown")), "so it does not hold back the built-in"},
	"a breaker at a number as text":                   {breaker("5"), sayMaxDue},
	"a breaker at a number that does not fit 32 bits": {breaker(int64(1) << 40), sayMaxDue},
	"a settle of more than 10m":                       {and(breaker("10%"), with("10m1s", "breaker", "settle")), saySettle},
	"a settle that is negative":                       {and(breaker("10%"), with("-10s", "breaker", "settle")), saySettle},
	"a settle without a unit":                         {and(breaker("10%"), with("10", "breaker", "settle")), saySettle},
	"a resumedAt that is not a time":                  {and(breaker("10%"), with("now", "breaker", "resumedAt")), "spec.breaker.resumedAt"},
	"an empty pause":                                  {with("", "paused"), sayPaused},
	"a pause of spaces":                               {with(" \t", "paused"), sayPaused},
	"a pause of 257 characters":                       {with(strings.Repeat("x", 257), "paused"), "256"},
	"a dry run that is not a boolean":                 {with("yes", "dryRun"), "spec.dryRun"},
}

// acceptedPolicies are policies, each with the spec that is stored if that differs.
var acceptedPolicies = map[string]struct{ spec, want string }{
	"respect budgets for 15 minutes, then go": {
		`{action: Evict, deadline: 15m}`, `{action: Evict, deadline: 15m, finished: Delete, ifDown: Evict}`,
	},
	"at most 5 pods a minute per zone": {
		`{action: Delete, pace: {pods: 5, per: 1m, scope: Zone}}`,
		`{action: Delete, pace: {pods: 5, per: 1m, scope: Zone}, finished: Delete, ifDown: Evict}`,
	},
	"the emergency stop": {
		`{action: Hold, paused: a storm}`, `{action: Hold, paused: a storm, finished: Delete, ifDown: Evict}`,
	},
	"the defaults of pace and breaker": {
		`{action: Delete, pace: {pods: 1, per: 1s}, breaker: {maxDue: 1}}`,
		`{action: Delete, pace: {pods: 1, per: 1s, scope: Cluster}, breaker: {maxDue: 1, settle: 1m}, finished: Delete, ifDown: Evict}`,
	},
	"everything, at its least": {
		`{action: Evict, taints: [{key: x, value: ""}], namespaceSelector: {}, podSelector: {}, nodeSelector: {}, deadline: 1ms, unready: Delete, ` +
			`finished: Delete, pace: {pods: 1, per: 1s, scope: Node}, breaker: {maxDue: 1%, settle: 0s, resumedAt: "2026-11-25T12:00:00Z"}, paused: x, ifDown: Evict, dryRun: false}`, "",
	},
	"everything, at its most": {
		`{action: Evict, taints: [{key: node.kubernetes.io/unreachable}, {key: example.com/drain, value: a.b_c-1}], namespaceSelector: {matchLabels: {team: red}}, ` +
			`podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}, nodeSelector: {matchLabels: {topology.kubernetes.io/zone: a}}, deadline: 167h60m, unready: Ask, ` +
			`finished: Keep, pace: {pods: 10000, per: 1h, scope: Cluster}, breaker: {maxDue: 99%, settle: 10m, resumedAt: "2026-11-25T12:00:00Z"}, paused: maintenance until noon, ifDown: Hold}`, "",
	},
	"a dry run": {
		`{action: Hold, breaker: {maxDue: 99%}, dryRun: true}`,
		`{action: Hold, breaker: {maxDue: 99%, settle: 1m}, finished: Delete, ifDown: Evict, dryRun: true}`,
	},
	"Delete with a breaker":          {`{action: Delete, breaker: {maxDue: 2147483647, settle: 10s}, finished: Delete, ifDown: Evict}`, ""},
	"Delete with a pause":            {`{action: Delete, paused: x, finished: Delete, ifDown: Evict}`, ""},
	"Delete that keeps finished":     {`{action: Delete, finished: Keep, ifDown: Evict}`, ""},
	"Delete, and nobody if down":     {`{action: Delete, finished: Delete, ifDown: Hold}`, ""},
	"Hold with a week as a deadline": {`{action: Hold, deadline: 168h, finished: Delete, ifDown: Evict}`, ""},
}

// TestEvictionPoliciesOnARealAPIServer creates policies as dry runs only: others would hold the pods of other tests.
func TestEvictionPoliciesOnARealAPIServer(t *testing.T) {
	t.Parallel()
	await.Must(t, cluster.InstallResources(t.Context()))
	c, err := cluster.Client()
	await.Must(t, err)
	for _, name := range slices.Sorted(maps.Keys(refusedPolicies)) {
		refusal := refusedPolicies[name]
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), evictionPolicy("refused", refusal.edit), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), refusal.says) {
				t.Errorf("it is answered with %v, want a refusal that says %q", err, refusal.says)
			}
			if err != nil && strings.Contains(err.Error(), "evaluation error") {
				t.Errorf("the refusal says what no user understands: %v", err)
			}
		})
	}
	for name, accepted := range acceptedPolicies {
		t.Run(name, func(t *testing.T) { testAccepted(t, c, accepted.spec, accepted.want) })
	}
	t.Run("a name as long as a label's value", func(t *testing.T) {
		await.Must(t, c.Create(t.Context(), evictionPolicy(strings.Repeat("x", 63)), client.DryRunAll))
	})
	t.Run("a longer name", func(t *testing.T) {
		err := c.Create(t.Context(), evictionPolicy(strings.Repeat("x", 64)), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "create the policy under a shorter name") {
			t.Errorf("it is answered with %v", err)
		}
	})
}

// testAccepted wants a spec to be stored as want (unchanged if want is empty), and to be valid for our own types.
func testAccepted(t *testing.T, c client.Client, spec, want string) {
	t.Helper()
	object := evictionPolicy("accepted")
	object.Object["spec"] = fromYAML(t, spec)
	await.Must(t, c.Create(t.Context(), object, client.DryRunAll))
	stored, err := json.Marshal(object.Object["spec"])
	await.Must(t, err)
	wanted, err := json.Marshal(fromYAML(t, cmp.Or(want, spec)))
	await.Must(t, err)
	if string(stored) != string(wanted) {
		t.Errorf("stored as %s, want %s", stored, wanted)
	}
	var typed v1alpha1.EvictionPolicySpec
	await.Must(t, json.Unmarshal(stored, &typed))
}

func fromYAML(t *testing.T, text string) (spec map[string]any) {
	t.Helper()
	await.Must(t, yaml.Unmarshal([]byte(text), &spec))
	return spec
}

// TestAPolicyIsFollowedWithTheRightsOfTheChart plays one with coexistence, in a cluster of its own that has no built-in.
func TestAPolicyIsFollowedWithTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	c := newRuleCluster(t)
	await.Must(t, c.InstallResources(t.Context()))
	path, err := binary()
	await.Must(t, err)
	_, err = c.StartTaintkeeper(context.WithoutCancel(t.Context()), localcluster.TaintkeeperConfig{Binary: path, Coexist: true})
	await.Must(t, err)
	policy := evictionPolicy("ask", actionEvict, with("Ask", "unready"), with("Hold", "ifDown"),
		with(map[string]any{corev1.LabelMetadataName: metav1.NamespaceDefault}, "namespaceSelector", "matchLabels"))
	await.Must(t, c.admin.Create(t.Context(), policy))
	await.Eventually(t, "the policy holds while Taintkeeper is down", func(ctx context.Context) error {
		var is v1alpha1.EvictionPolicy
		await.Must(t, c.admin.Get(ctx, client.ObjectKey{Name: "ask"}, &is))
		if !meta.IsStatusConditionTrue(is.Status.Conditions, v1alpha1.ConditionHeldWhenDown) {
			return fmt.Errorf("its status is %+v", is.Status)
		}
		return nil
	})
	s := rig.Scene{Admin: c.clients, Namespace: metav1.NamespaceDefault}
	node, err := s.Node(t.Context(), "node")
	await.Must(t, err)
	pod, err := s.Pod(t.Context(), "pod", node)
	await.Must(t, err)
	_, err = rig.Taint(t.Context(), c.clients, node, rig.NoExecute("gone"))
	await.Must(t, err)
	await.Eventually(t, "the Eviction API is called", func(context.Context) error {
		asked := auditlog.New(c.AuditLog(), auditlog.By(user)).All(t, auditlog.Accepted, auditlog.Named(pod.Name), func(c call) bool {
			return c.Verb == "create" && c.Resource == "pods/eviction"
		})
		if len(asked) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// TestOfAPodItMayChangeNothingButTolerationsThatExpireAtOnce acts as Taintkeeper's service account.
func TestOfAPodItMayChangeNothingButTolerationsThatExpireAtOnce(t *testing.T) {
	t.Parallel()
	await.Must(t, cluster.GrantTaintkeeper(t.Context()))
	s, err := rig.New(t.Context(), admin, "narrow")
	await.Must(t, err)
	node, err := s.Node(t.Context(), "narrow")
	await.Must(t, err)
	pod, err := s.Pod(t.Context(), "pod", node, rig.Tolerating("kept", 300))
	await.Must(t, err)
	config, err := cluster.TaintkeeperAccess()
	await.Must(t, err)
	ours, err := kubernetes.NewForConfig(config)
	await.Must(t, err)
	forNoTime := taints.ForNoTime(rig.NoExecute("gone"))
	change := func(change func(*corev1.Pod)) error {
		is, err := admin.CoreV1().Pods(s.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		await.Must(t, err)
		changed := is.DeepCopy()
		change(changed)
		patch, err := client.MergeFrom(is).Data(changed)
		await.Must(t, err)
		_, err = ours.CoreV1().Pods(s.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	tolerate := func(more ...corev1.Toleration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, more...) }
	}
	forever, forASecond := forNoTime, forNoTime
	forever.TolerationSeconds, forASecond.TolerationSeconds = nil, new(int64(1))
	await.Eventually(t, "the admission policy is in force", func(context.Context) error {
		if err := cmp.Or(change(tolerate(forever)), errors.New("it is accepted")); !apierrors.IsInvalid(err) {
			return fmt.Errorf("a toleration without an end is not refused: %w", err)
		}
		return nil
	})
	for name, edit := range map[string]func(*corev1.Pod){
		"an image":      func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" },
		"a label":       func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} },
		"an annotation": func(pod *corev1.Pod) { pod.Annotations = map[string]string{"a": "b"} },
		"a finalizer":   func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/stay"} },
		"an owner": func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: "x"}}
		},
		"a deadline":                 func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(1)) },
		"a toleration for a second":  tolerate(forASecond),
		"the seconds of another one": func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = new(int64(1)) },
	} {
		if err := change(edit); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Taintkeeper may") {
			t.Errorf("%s is answered with %v, want a refusal by taintkeeper-tolerations", name, err)
		}
	}
	await.Must(t, change(tolerate(forNoTime)))
}
