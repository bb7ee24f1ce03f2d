// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var (
	seed   = flag.Uint64("seed", 1, "the seed of the generated pods")
	number = flag.Int("pods", 2000, "how many pods are generated")
)

// atOnce is how many pods the API servers are asked about at the same time.
const atOnce = 16

// upstreamPlugins switches upstream's plugins on, with the seconds that labels of the namespaces set for our policies.
var upstreamPlugins = []string{
	"--enable-admission-plugins=PodTolerationRestriction,ExtendedResourceToleration",
	"--default-not-ready-toleration-seconds=30", "--default-unreachable-toleration-seconds=60",
}

// likeUpstream switches on what upstream has plugins for.
var likeUpstream = values{"policies": values{"tolerationSeconds": on, "memoryPressure": on, "extendedResources": on, "namespaceTolerations": on}}

// parityPlaces are namespaces with all that both read.
func parityPlaces() map[string]place {
	const (
		defaults = `[{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"b","operator":"Equal","value":"x"},` +
			`{"key":"c","operator":"Exists","effect":"NoExecute","tolerationSeconds":60},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":600}]`
		allowed = `[{"key":"a","operator":"Exists"},{"key":"b","operator":"Equal","value":"x"},{"key":"c","operator":"Exists","effect":"NoExecute","tolerationSeconds":60},` +
			`{"key":"node.kubernetes.io/not-ready","operator":"Exists"},{"key":"node.kubernetes.io/unreachable","operator":"Exists"},` +
			`{"key":"node.kubernetes.io/memory-pressure","operator":"Exists"},{"key":"example.com/gpu","operator":"Exists"}]`
	)
	all := map[string]place{
		"none": {}, "defaults": {annotations: map[string]string{defaultTolerations: defaults}},
		"strict":     {annotations: map[string]string{allowedTolerations: allowed}},
		"both":       {annotations: map[string]string{defaultTolerations: defaults, allowedTolerations: allowed}},
		"everything": {annotations: map[string]string{defaultTolerations: `[{"operator":"Exists","effect":"NoSchedule"}]`, allowedTolerations: `[{"operator":"Exists"}]`}},
		"nothing":    {annotations: map[string]string{defaultTolerations: "", allowedTolerations: "[]"}},
	}
	for i, d := range differences {
		d.pod.Namespace = fmt.Sprintf("difference-%d", i)
		all[d.pod.Namespace] = d.in
	}
	for name, as := range all {
		as.labels = map[string]string{notReadySeconds: "30", unreachableSeconds: "60"}
		all[name] = as
	}
	return all
}

// generator makes pods from a seed.
type generator struct{ *rand.Rand }

func pick[T any](g generator, all ...T) T { return all[g.IntN(len(all))] }

// pod makes a pod with random tolerations and resources. Left out is what the chart's README lists as a difference: a
// toleration without an operator, and the API server's default as the pod's own.
func (g generator) pod(i int) *corev1.Pod {
	pod := podIn(pick(g, "none", "defaults", "strict", "both", "everything", "nothing"))
	pod.GenerateName, pod.Name = "", fmt.Sprintf("pod-%d", i)
	for range g.IntN(5) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
	for range g.IntN(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprintf("init-%d", len(pod.Spec.InitContainers)), Image: "none"})
		if g.IntN(2) == 0 {
			pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
	}
	for range g.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "other", Image: "none"})
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			g.resources(&containers[i])
		}
	}
	return pod
}

func (g generator) resources(container *corev1.Container) {
	if g.IntN(2) == 0 {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, gpu, fpga} {
		if g.IntN(4) == 0 {
			request(container, name, pick(g, "0", "1", "2"))
		}
	}
}

func (g generator) toleration() corev1.Toleration {
	toleration := corev1.Toleration{
		Key: pick(g, "", "a", "a", "b", "b", "c", "c", "d", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
			"node.kubernetes.io/memory-pressure", string(gpu)),
		Operator: pick(g, corev1.TolerationOpExists, corev1.TolerationOpEqual),
		Effect:   pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
	if toleration.Key == "" {
		toleration.Operator = corev1.TolerationOpExists
	}
	if toleration.Operator == corev1.TolerationOpEqual {
		toleration.Value = pick(g, "", "x", "y")
	}
	if toleration.Effect == corev1.TaintEffectNoExecute && g.IntN(2) == 0 {
		toleration.TolerationSeconds = new(pick(g, int64(-1), 0, 10, 60, 3600))
	}
	return toleration
}

// TestThePoliciesDoWhatUpstreamsPluginsDo creates the same pods, as dry runs, at an API server with the policies and at
// one with upstream's plugins DefaultTolerationSeconds, PodTolerationRestriction and ExtendedResourceToleration.
func TestThePoliciesDoWhatUpstreamsPluginsDo(t *testing.T) {
	ours, theirs := newAPIServer(t), newAPIServer(t, upstreamPlugins...)
	ours.makePlaces(t, parityPlaces())
	theirs.makePlaces(t, parityPlaces())
	ours.installPolicies(t, likeUpstream)
	ours.awaitParity(t)
	t.Run("with generated pods", func(t *testing.T) { compareGenerated(t, ours, theirs) })
	t.Run("but for the differences that the chart's README lists", func(t *testing.T) { compareDifferences(t, ours, theirs) })
}

func compareGenerated(t *testing.T, ours, theirs *plane) {
	t.Helper()
	t.Logf("-seed=%d", *seed)
	g := generator{rand.New(rand.NewPCG(*seed, 0))}
	var group errgroup.Group
	group.SetLimit(atOnce)
	results := make([]string, *number)
	for i := range *number {
		pod := g.pod(i)
		group.Go(func() error {
			var err error
			results[i], err = compareAnswers(t.Context(), ours, theirs, pod)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Errorf("-seed=%d: %v", *seed, err)
	}
	counts := map[string]int{}
	for _, result := range results {
		counts[result]++
	}
	t.Logf("of %d pods: %v", *number, counts)
	if counts[answerRefused] < *number/20 || counts[answerChanged] < *number/20 {
		t.Errorf("-seed=%d: of %d pods: %v: the generated pods prove little", *seed, *number, counts)
	}
}

// What both API servers answer.
const (
	answerRefused = "refused"
	answerChanged = "given tolerations"
	answerSame    = "left as they are"
)

// awaitParity waits until the policies are in force.
func (p *plane) awaitParity(t *testing.T) {
	t.Helper()
	for _, e := range []example{
		{
			pod:  podIn("none", requesting(gpu, "1"), requesting(corev1.ResourceCPU, "1")),
			want: impatient(gpuTaint, memoryPressure),
		},
		{pod: podIn("strict", tolerating("d op=Exists")), refused: "is not in the list"},
	} {
		await.Eventually(t, "the policies are in force", func(ctx context.Context) error { return e.play(ctx, p) })
	}
}

// compareAnswers returns what both answer, and an error if they differ.
func compareAnswers(ctx context.Context, ours, theirs *plane, pod *corev1.Pod) (string, error) {
	got, gotErr := ours.admit(ctx, pod)
	want, wantErr := theirs.admit(ctx, pod)
	describe := func() string {
		return fmt.Sprintf("pod in %s with tolerations\n\t%s\nresources %v", pod.Namespace, strings.Join(sorted(pod.Spec.Tolerations), "\n\t"), pod.Spec.Containers)
	}
	switch {
	case gotErr != nil && wantErr != nil:
		// Theirs is not an API error with a reason of its own, only a text.
		if !apierrors.IsForbidden(gotErr) || !strings.Contains(wantErr.Error(), "conflict with its namespace whitelist") {
			return "", fmt.Errorf("%s:\nours: %w\ntheirs: %w", describe(), gotErr, wantErr)
		}
		return answerRefused, nil
	case gotErr != nil:
		return "", fmt.Errorf("%s: ours alone refuse it: %w", describe(), gotErr)
	case wantErr != nil:
		return "", fmt.Errorf("%s: theirs alone refuse it: %w", describe(), wantErr)
	}
	// PodTolerationRestriction merges what the pod has itself, too.
	have, expected := merged(got.Spec.Tolerations), merged(want.Spec.Tolerations)
	if !slices.Equal(sorted(have), sorted(expected)) || !leaveAlike(have, expected) {
		return "", fmt.Errorf("%s:\nours\n\t%s\ntheirs\n\t%s", describe(), strings.Join(sorted(have), "\n\t"), strings.Join(sorted(expected), "\n\t"))
	}
	return theSecondTime(ctx, ours, pod, got)
}

// leaveAlike says whether pods with these tolerations leave a node with a taint at the same instant: of several that
// match, the first counts.
func leaveAlike(some, others []corev1.Toleration) bool {
	for _, key := range []string{"a", "b", "c", "d", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		for _, value := range []string{"", "x", "y"} {
			all := []verdict.Taint{{Taint: corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}, Since: time.Unix(0, 0)}}
			one, other := verdict.Rule{}.Decide(verdict.Pod{Tolerations: some}, all), verdict.Rule{}.Decide(verdict.Pod{Tolerations: others}, all)
			if one.Leaves != other.Leaves || !one.Due.Equal(other.Due) {
				return false
			}
		}
	}
	return true
}

// theSecondTime creates a pod as it was after its admission, which must not change it again.
func theSecondTime(ctx context.Context, ours *plane, pod, got *corev1.Pod) (string, error) {
	again := pod.DeepCopy()
	again.Spec.Tolerations = got.Spec.Tolerations
	twice, err := ours.admit(ctx, again)
	if err != nil {
		return "", fmt.Errorf("the mutated pod is refused: %w", err)
	}
	if have, want := sorted(twice.Spec.Tolerations), sorted(got.Spec.Tolerations); !slices.Equal(have, want) {
		return "", fmt.Errorf("the second time\n\t%s\nthe first\n\t%s", strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
	if slices.Equal(sorted(got.Spec.Tolerations), sorted(pod.Spec.Tolerations)) {
		return answerSame, nil
	}
	return answerChanged, nil
}

// difference is a pod that the two sides treat differently, as the chart's README says.
type difference struct {
	name   string
	in     place
	pod    *corev1.Pod
	ours   []string // tolerations; none if the pod is refused
	theirs []string
}

var differences = []difference{
	{
		name: "a toleration without an operator is one with Equal, also for the list",
		in:   place{annotations: map[string]string{allowedTolerations: `[{"key":"pool","operator":"Equal","value":"batch"},{"key":"node.kubernetes.io/not-ready","operator":"Exists"},{"key":"node.kubernetes.io/unreachable","operator":"Exists"}]`}},
		pod: podIn("", func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Value: "batch"}}
		}),
		ours: impatient("pool=batch"),
	},
	{
		name:   "only defaults take the place of others",
		pod:    podIn("", requesting(corev1.ResourceCPU, "1"), tolerating("a:NoExecute op=Exists for 10s", "a:NoExecute op=Exists for 60s")),
		ours:   impatient("a:NoExecute op=Exists for 10s", "a:NoExecute op=Exists for 60s", memoryPressure),
		theirs: impatient("a:NoExecute op=Exists for 60s", memoryPressure),
	},
	{
		name:   "QoS follows from the resources, whatever status the request has",
		pod:    podIn("", requesting(corev1.ResourceCPU, "1"), func(pod *corev1.Pod) { pod.Status.QOSClass = corev1.PodQOSBestEffort }),
		ours:   impatient(memoryPressure),
		theirs: impatient(),
	},
	{
		name:   "an extended resource whose taint is tolerated along with others adds nothing",
		pod:    podIn("", requesting(gpu, "1"), tolerating(":NoSchedule op=Exists")),
		ours:   impatient(":NoSchedule op=Exists"),
		theirs: impatient(":NoSchedule op=Exists", gpuTaint),
	},
	{
		name:   "seconds that equal the cluster's default count as the default",
		pod:    podIn("", tolerating(notReady300)),
		ours:   impatient(),
		theirs: []string{notReady300, unreachable60},
	},
	{
		name: "an effect or operator that does not exist makes a list malformed",
		in:   place{annotations: map[string]string{allowedTolerations: `[{"operator":"Exists"},{"operator":"exists","key":"a"}]`}},
		pod:  podIn(""), theirs: impatient(),
	},
}

// compareDifferences keeps the list in the chart's README true.
func compareDifferences(t *testing.T, ours, theirs *plane) {
	t.Helper()
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			checkTolerations(t, "ours", ours, d.pod, d.ours)
			checkTolerations(t, "theirs", theirs, d.pod, d.theirs)
		})
	}
	t.Run("a list that came later does not refuse changes of an existing pod", func(t *testing.T) {
		if err := ours.relabelUnderAList(t); err != nil {
			t.Errorf("ours: %v", err)
		}
		if err := theirs.relabelUnderAList(t); !isByList(err) {
			t.Errorf("theirs: the answer is %v", err)
		}
	})
}

// relabelUnderAList makes a pod, then a list that does not allow what the pod tolerates, and returns the answer to a
// change of the pod's labels.
func (p *plane) relabelUnderAList(t *testing.T) error {
	t.Helper()
	const where = "later"
	p.makePlaces(t, map[string]place{where: {}})
	pods := p.admin.CoreV1().Pods(where)
	older, err := pods.Create(t.Context(), podIn(where, tolerating("pool=web:NoSchedule")), metav1.CreateOptions{})
	await.Must(t, err)
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:""},"annotations":{%q:"[{\"key\":\"spot\",\"operator\":\"Exists\"}]"}}}`, tolerationsLabel, allowedTolerations)
	_, err = p.admin.CoreV1().Namespaces().Patch(t.Context(), where, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	await.Must(t, err)
	await.Eventually(t, "the list is known", func(ctx context.Context) error {
		if _, err := p.admit(ctx, podIn(where, tolerating("pool=web:NoSchedule"))); !isByList(err) {
			return fmt.Errorf("the answer is %w", errors.Join(err, errNotRefused))
		}
		return nil
	})
	metav1.SetMetaDataLabel(&older.ObjectMeta, "team", "web")
	_, err = pods.Update(t.Context(), older, metav1.UpdateOptions{})
	return err
}

// isByList says whether an error, ours or upstream's, is a refusal because of the list of allowed tolerations.
func isByList(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "whitelist")
}

// checkTolerations checks the tolerations of a pod after its admission; if none are wanted, the pod must be refused.
func checkTolerations(t *testing.T, who string, p *plane, pod *corev1.Pod, want []string) {
	t.Helper()
	got, err := p.admit(t.Context(), pod)
	if want == nil {
		if !isByList(err) {
			t.Errorf("%s: the answer is %v", who, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", who, err)
		return
	}
	slices.Sort(want)
	if have := sorted(got.Spec.Tolerations); !slices.Equal(have, want) {
		t.Errorf("%s:\n\t%s\nwant\n\t%s", who, strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestPodsOlderThanThePoliciesCanBeChanged is about updates. Upstream's plugins change and refuse whole pods even then.
func TestPodsOlderThanThePoliciesCanBeChanged(t *testing.T) {
	p := newAPIServer(t)
	p.makePlaces(t, places)
	older := map[string]*corev1.Pod{}
	for _, namespace := range []string{"strict", "gpu-team"} {
		pod := podIn(namespace, tolerating("pool=web:NoSchedule", "taintkeeper.dev/dedicated=fast:NoSchedule"), requesting(corev1.ResourceCPU, "1"), requesting(gpu, "1"))
		made, err := p.admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		await.Must(t, err)
		older[namespace] = made
	}
	there, err := p.admin.CoreV1().Pods("plain").Create(t.Context(), podIn("plain", onNode("gpu-1")), metav1.CreateOptions{})
	await.Must(t, err)
	older["plain"] = there
	p.makePlaces(t, map[string]place{"groupless": {}})
	for _, name := range []string{"selects", "gated"} {
		pod := podIn("groupless", func(pod *corev1.Pod) {
			pod.GenerateName, pod.Name = "", name
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
		})
		if name == "selects" {
			selecting(dedicatedLabel, "gpu")(pod)
		}
		_, err := p.admin.CoreV1().Pods("groupless").Create(t.Context(), pod, metav1.CreateOptions{})
		await.Must(t, err)
	}
	p.installPolicies(t, everyPolicy)
	p.awaitPolicies(t)

	p.checkSelector(t)
	for namespace, pod := range older {
		older[namespace] = p.checkUpdate(t, pod)
	}
	for _, tt := range []struct{ namespace, adds, refused string }{
		{"strict", "spot=cheap:NoSchedule", ""},
		{"strict", "pool=other:NoSchedule", `toleration "pool=other:NoSchedule" is not in the list`},
		{"gpu-team", "taintkeeper.dev/dedicated=gpu:NoSchedule", ""},
		{"gpu-team", "taintkeeper.dev/dedicated=other:NoSchedule", `toleration "taintkeeper.dev/dedicated=other:NoSchedule" lets the pod run on nodes dedicated to others`},
		{"gpu-team", "op=Exists", `toleration "op=Exists" lets the pod run on nodes dedicated to others`},
		{"gpu-team", ":NoExecute op=Exists", ""},
		{"plain", ":NoExecute op=Exists", `toleration ":NoExecute op=Exists" lets the pod run on nodes dedicated to others`},
	} {
		more := older[tt.namespace].DeepCopy()
		more.Spec.Tolerations = append(more.Spec.Tolerations, tolerations(tt.adds)...)
		_, err := p.admin.CoreV1().Pods(tt.namespace).Update(t.Context(), more, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if tt.refused == "" && err != nil || tt.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.refused)) {
			t.Errorf("toleration %s is added in %s: %v, want %q", tt.adds, tt.namespace, err, tt.refused)
		}
	}
}

// checkSelector changes pods of a namespace without a group: one that has selected a group for longer than there have
// been policies, and one that has not been scheduled yet, so that its selector can still be changed.
func (p *plane) checkSelector(t *testing.T) {
	t.Helper()
	pods := p.admin.CoreV1().Pods("groupless")
	older, err := pods.Get(t.Context(), "selects", metav1.GetOptions{})
	await.Must(t, err)
	older.Spec.Tolerations = append(older.Spec.Tolerations, tolerations("spot op=Exists")...)
	if _, err = pods.Update(t.Context(), older, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a pod that selected a group before gets a toleration: %v", err)
	}
	gated, err := pods.Get(t.Context(), "gated", metav1.GetOptions{})
	await.Must(t, err)
	gated.Spec.NodeSelector = map[string]string{dedicatedLabel: "gpu"}
	const refused = "taintkeeper.dev/dedicated=gpu, and namespace groupless belongs to no group: remove it"
	if _, err = pods.Update(t.Context(), gated, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refused) {
		t.Errorf("a pod that waits to be scheduled selects a group: %v", err)
	}
}

// checkUpdate changes a label of a pod, and checks that nothing else changes with it, and that an update that says
// nothing new changes nothing.
func (p *plane) checkUpdate(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pods, before := p.admin.CoreV1().Pods(pod.Namespace), sorted(pod.Spec.Tolerations)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "team", "web")
	updated, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	await.Must(t, err)
	if after := sorted(updated.Spec.Tolerations); !slices.Equal(before, after) || updated.Spec.NodeSelector != nil {
		t.Errorf("an update made %v of %v, and selects %v", after, before, updated.Spec.NodeSelector)
	}
	same, err := pods.Update(t.Context(), updated.DeepCopy(), metav1.UpdateOptions{})
	await.Must(t, err)
	if same.ResourceVersion != updated.ResourceVersion {
		t.Error("an update that says nothing new changed the pod")
	}
	return updated
}
