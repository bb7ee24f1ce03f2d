// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// Labels and annotations that the policies read.
const (
	notReadySeconds    = "taintkeeper.dev/not-ready-seconds"
	unreachableSeconds = "taintkeeper.dev/unreachable-seconds"
	daemonLabel        = "taintkeeper.dev/daemon"
	dedicatedLabel     = "taintkeeper.dev/dedicated"
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	tolerationsLabel   = "taintkeeper.dev/tolerations"
	allowedTolerations = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// What the API server's own DefaultTolerationSeconds adds.
const (
	notReady300    = "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s"
	unreachable300 = "node.kubernetes.io/unreachable:NoExecute op=Exists for 300s"
)

const memoryPressure = "node.kubernetes.io/memory-pressure:NoSchedule op=Exists"

// defaulted are tolerations and those that the API server itself adds.
func defaulted(all ...string) []string { return append(all, notReady300, unreachable300) }

// What a namespace with other seconds has instead.
const (
	notReady30    = "node.kubernetes.io/not-ready:NoExecute op=Exists for 30s"
	unreachable60 = "node.kubernetes.io/unreachable:NoExecute op=Exists for 60s"
)

// impatient returns tolerations and those that a namespace with other seconds adds.
func impatient(all ...string) []string { return append(all, notReady30, unreachable60) }

// place is a namespace with what the policies read of it.
type place struct {
	labels, annotations map[string]string
}

var places = map[string]place{
	"plain":     {},
	"impatient": {labels: map[string]string{notReadySeconds: "30", unreachableSeconds: "60"}},
	"half":      {labels: map[string]string{unreachableSeconds: "0"}},
	"slip":      {labels: map[string]string{notReadySeconds: "30s", unreachableSeconds: "1.5"}},
	"gpu-team":  {labels: map[string]string{dedicatedLabel: "gpu"}},
	"no-team":   {labels: map[string]string{dedicatedLabel: ""}},
	"defaults": {annotations: map[string]string{defaultTolerations: `[
		{"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
		{"operator": "Equal", "value": "batch", "key": "pool"},
		{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600}
	]`}},
	"forever": {annotations: map[string]string{defaultTolerations: `[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"},
		{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":10}]`}},
	"needless": {annotations: map[string]string{defaultTolerations: `[{"key":"a","operator":"Exists"},{"key":"a","value":"b","effect":"NoSchedule"},{"key":"a","operator":"Exists"}]`}},
	"strict": {annotations: map[string]string{allowedTolerations: `[
		{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
		{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600},
		{"key": "spot", "operator": "Exists"}, {"key": "pool", "operator": "Equal", "value": "batch"}
	]`}},
	"empty-list":  {annotations: map[string]string{allowedTolerations: "", defaultTolerations: ""}},
	"empty-json":  {annotations: map[string]string{allowedTolerations: " [ ] ", defaultTolerations: "[]"}},
	"bad-default": {annotations: map[string]string{defaultTolerations: `[{"key": "spot", "operator": "exists"}]`}},
	"bad-list":    {annotations: map[string]string{allowedTolerations: `{"key": "spot"}`}},
	unlabeled:     {annotations: map[string]string{allowedTolerations: `[{"key":"a"}]`, defaultTolerations: `[{"key":"a"}]`}},
	"long":        {annotations: map[string]string{allowedTolerations: longList(3990), defaultTolerations: longList(3990)}},
	"too-long":    {annotations: map[string]string{allowedTolerations: longList(4100)}},
}

// longList is a list of as many short tolerations as fit into the given number of characters. The last one covers all
// the others.
func longList(length int) string {
	const last = `{"operator":"Exists","effect":"NoExecute"}]`
	var list strings.Builder
	for i := 0; list.Len() < length-len(last)-32; i++ {
		fmt.Fprintf(&list, `{"key":"%d","effect":"NoExecute"},`, i)
	}
	return "[" + list.String() + last
}

// numbered returns the given number of tolerations, all different.
func numbered(number int) []string {
	var all []string
	for i := range number {
		all = append(all, fmt.Sprintf("key-%d:NoExecute", i))
	}
	return all
}

// makePlaces makes the namespaces, before there are policies: afterwards some would be refused.
func (p *plane) makePlaces(t *testing.T, all map[string]place) {
	t.Helper()
	for name, place := range all {
		_, err := p.admin.CoreV1().Namespaces().Create(t.Context(), namespace(name, place), metav1.CreateOptions{})
		await.Must(t, err)
	}
}

// namespace makes a namespace. If it has annotations, it gets the label that they need.
func namespace(name string, as place) *corev1.Namespace {
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(as.labels), Annotations: as.annotations}}
	if as.annotations != nil && name != unlabeled {
		metav1.SetMetaDataLabel(&made.ObjectMeta, tolerationsLabel, "")
	}
	return made
}

// unlabeled is a namespace without it.
const unlabeled = "unlabeled"

// edit changes a pod.
type edit func(*corev1.Pod)

func podIn(namespace string, edits ...edit) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "pod-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func tolerating(texts ...string) edit {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerations(texts...)...) }
}

func labeled(name, value string) edit {
	return func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, name, value) }
}

func selecting(name, value string) edit {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{name: value} }
}

// onNode has a pod bypass the scheduler.
func onNode(name string) edit { return func(pod *corev1.Pod) { pod.Spec.NodeName = name } }

// ownedBy gives a pod a controller.
func ownedBy(apiVersion, kind string) edit {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "1", Controller: new(true)}}
	}
}

func resources(list corev1.ResourceList, name corev1.ResourceName, quantity string) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = resource.MustParse(quantity)
	return list
}

// requesting adds a request, and for what cannot be overcommitted its limit, to the container of a pod.
func requesting(name corev1.ResourceName, quantity string) edit {
	return func(pod *corev1.Pod) { request(&pod.Spec.Containers[0], name, quantity) }
}

func request(container *corev1.Container, name corev1.ResourceName, quantity string) {
	container.Resources.Requests = resources(container.Resources.Requests, name, quantity)
	if strings.Contains(string(name), "/") {
		container.Resources.Limits = resources(container.Resources.Limits, name, quantity)
	}
}

func limiting(name corev1.ResourceName, quantity string) edit {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = resources(pod.Spec.Containers[0].Resources.Limits, name, quantity)
	}
}

// ofPod gives the pod itself a request; an empty one leaves resources without any.
func ofPod(name corev1.ResourceName, quantity string) edit {
	return func(pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{}
		if name != "" {
			pod.Spec.Resources.Requests = resources(nil, name, quantity)
		}
	}
}

// admit asks the API server how it would change a pod.
func (p *plane) admit(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return p.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// example is a pod and how its admission ends.
type example struct {
	name string
	pod  *corev1.Pod
	// want are its tolerations afterwards, in any order.
	want []string
	// selects is the node selector that it has afterwards.
	selects map[string]string
	// refused is part of the sentence with which it is refused.
	refused string
	// first marks those that show that a policy is in force.
	first bool
}

func (e example) play(ctx context.Context, p *plane) error {
	got, err := p.admit(ctx, e.pod)
	if e.refused != "" {
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), e.refused) {
			return fmt.Errorf("the answer is %w, want one with %q", errors.Join(err, errNotRefused), e.refused)
		}
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(e.want)
	if have := sorted(got.Spec.Tolerations); !slices.Equal(have, e.want) {
		return fmt.Errorf("tolerations\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(e.want, "\n\t"))
	}
	if e.selects != nil && fmt.Sprint(got.Spec.NodeSelector) != fmt.Sprint(e.selects) {
		return fmt.Errorf("node selector %v, want %v", got.Spec.NodeSelector, e.selects)
	}
	return nil
}

const (
	gpu      = "example.com/gpu"
	fpga     = "example.com/fpga"
	gpuTaint = gpu + ":NoSchedule op=Exists"
)

// examples are about each policy in turn, with every one on. What upstream's plugins do, too, is in
// TestThePoliciesDoWhatUpstreamsPluginsDo, and what DaemonSets do in TestADaemonGetsWhatADaemonSetsPodGets.
var examples = map[string][]example{
	"tolerationSeconds": {
		{name: "a namespace without labels has the API server's default", pod: podIn("plain"), want: defaulted()},
		{
			first: true, name: "the labels of the namespace count", pod: podIn("impatient"),
			want: impatient(),
		},
		{
			name: "one label without the other, and no time at all", pod: podIn("half"),
			want: []string{notReady300, "node.kubernetes.io/unreachable:NoExecute op=Exists for 0s"},
		},
		{
			name: "the pod's own label wins", pod: podIn("impatient", labeled(notReadySeconds, "5")),
			want: []string{"node.kubernetes.io/not-ready:NoExecute op=Exists for 5s", unreachable60},
		},
		{
			first: true, name: "a label of a pod in a namespace without labels", pod: podIn("plain", labeled(unreachableSeconds, "900")),
			want: []string{notReady300, "node.kubernetes.io/unreachable:NoExecute op=Exists for 900s"},
		},
		{
			name: "300 s of a pod's own cannot be told from the default", pod: podIn("impatient", tolerating(notReady300)),
			want: impatient(),
		},
		{
			name: "unless its label says the same", pod: podIn("impatient", tolerating(notReady300), labeled(notReadySeconds, "300")),
			want: []string{notReady300, unreachable60},
		},
		{name: "labels of a namespace that are no seconds change nothing", pod: podIn("slip"), want: defaulted()},
		{first: true, name: "a label of a pod that is not a number of seconds is refused", pod: podIn("plain", labeled(notReadySeconds, "soon")), refused: `label taintkeeper.dev/not-ready-seconds of the pod is "soon": write whole seconds`},
		{name: "so is one that is empty", pod: podIn("plain", labeled(unreachableSeconds, "")), refused: `of the pod is ""`},
		{name: "and one that does not fit a toleration", pod: podIn("plain", labeled(notReadySeconds, "9999999999")), refused: "up to nine digits"},
	},
	"memoryPressure": {
		{name: "a pod without resources is BestEffort", pod: podIn("plain"), want: defaulted()},
		{first: true, name: "a request of memory", pod: podIn("plain", requesting(corev1.ResourceMemory, "1Mi")), want: defaulted(memoryPressure)},
		{name: "a limit alone", pod: podIn("plain", limiting(corev1.ResourceCPU, "2")), want: defaulted(memoryPressure)},
		{name: "the pod's own", pod: podIn("plain", ofPod(corev1.ResourceMemory, "64Mi")), want: defaulted(memoryPressure)},
		{
			name: "a pod that tolerates all", pod: podIn("plain", requesting(corev1.ResourceCPU, "1"), tolerating("op=Exists")),
			refused: "lets the pod run on nodes dedicated to others",
		},
	},
	"daemonTolerations": {
		{first: true, name: "a pod with the label", pod: podIn("plain", labeled(daemonLabel, "true")), want: daemon()},
		{name: "a pod with another value of the label is no daemon", pod: podIn("plain", labeled(daemonLabel, "false")), want: defaulted()},
		{name: "by the kind of its controller", pod: podIn("plain", ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")), want: daemon()},
		{name: "another kind with that name", pod: podIn("plain", ownedBy("apps/v1", "DaemonSet")), want: defaulted()},
		{
			name: "its own seconds go, as in a DaemonSet", pod: podIn("plain", labeled(daemonLabel, "true"), tolerating("node.kubernetes.io/not-ready:NoExecute op=Exists for 5s")),
			want: daemon(),
		},
		{
			name: "what it tolerates besides stays", pod: podIn("plain", labeled(daemonLabel, "true"), tolerating("spot op=Exists", ":NoExecute op=Exists")),
			want: daemonBut([]string{"node.kubernetes.io/not-ready:NoExecute op=Exists", "node.kubernetes.io/unreachable:NoExecute op=Exists"}, "spot op=Exists", ":NoExecute op=Exists"),
		},
		{name: "in a namespace with other seconds", pod: podIn("impatient", labeled(daemonLabel, "true")), want: daemon()},
	},
	"extendedResources": {
		{first: true, name: "a container's request", pod: podIn("plain", requesting(gpu, "1")), want: defaulted(gpuTaint)},
		{name: "native resources are none", pod: podIn("plain", requesting("hugepages-2Mi", "2Mi"), limiting("hugepages-2Mi", "2Mi"), requesting(corev1.ResourceCPU, "1")), want: defaulted(memoryPressure)},
		{name: "nor are resources of kubernetes.io", pod: podIn("plain", requesting("attachable.kubernetes.io/volume", "1")), want: defaulted()},
	},
	"dedicatedNodes": {
		{
			first: true, name: "a pod of the group gets both", pod: podIn("gpu-team"),
			want: defaulted("taintkeeper.dev/dedicated=gpu"), selects: map[string]string{dedicatedLabel: "gpu"},
		},
		{
			name: "next to what it has", pod: podIn("gpu-team", selecting("disk", "ssd"), tolerating("spot op=Exists")),
			want: defaulted("taintkeeper.dev/dedicated=gpu", "spot op=Exists"), selects: map[string]string{dedicatedLabel: "gpu", "disk": "ssd"},
		},
		{
			name: "if it has the selector, the toleration", pod: podIn("gpu-team", selecting(dedicatedLabel, "gpu")),
			want: defaulted("taintkeeper.dev/dedicated=gpu"), selects: map[string]string{dedicatedLabel: "gpu"},
		},
		{
			name: "if it has the toleration, the selector", pod: podIn("gpu-team", tolerating("taintkeeper.dev/dedicated=gpu:NoSchedule")),
			want: defaulted("taintkeeper.dev/dedicated=gpu:NoSchedule"), selects: map[string]string{dedicatedLabel: "gpu"},
		},
		{name: "nobody else gets anything", pod: podIn("plain"), want: defaulted(), selects: map[string]string{}},
		{
			first: true, name: "another namespace's pod that tolerates the group is refused", pod: podIn("plain", tolerating("taintkeeper.dev/dedicated=gpu:NoSchedule")),
			refused: `toleration "taintkeeper.dev/dedicated=gpu:NoSchedule" lets the pod run on nodes dedicated to others (taint taintkeeper.dev/dedicated), and namespace plain belongs to no group: remove the toleration`,
		},
		{name: "so is one that tolerates every group", pod: podIn("plain", tolerating("taintkeeper.dev/dedicated op=Exists")), refused: `"taintkeeper.dev/dedicated op=Exists"`},
		{name: "one that tolerates everything", pod: podIn("plain", tolerating("op=Exists")), refused: `toleration "op=Exists"`},
		{name: "and one that tolerates every NoSchedule", pod: podIn("plain", tolerating(":NoSchedule op=Exists")), refused: `toleration ":NoSchedule op=Exists"`},
		{name: "every NoExecute does no harm", pod: podIn("plain", tolerating(":NoExecute op=Exists")), want: []string{":NoExecute op=Exists"}},
		{
			name: "but for a pod that bypasses the scheduler", pod: podIn("plain", tolerating(":NoExecute op=Exists"), onNode("gpu-1")),
			refused: `toleration ":NoExecute op=Exists" lets the pod run on nodes dedicated to others`,
		},
		{name: "which may tolerate what is not about groups", pod: podIn("plain", tolerating("spot op=Exists"), onNode("gpu-1")), want: defaulted("spot op=Exists")},
		{name: "a pod of the group stays away from the others", pod: podIn("gpu-team", tolerating("taintkeeper.dev/dedicated=fast:NoSchedule")), refused: "namespace gpu-team belongs to group gpu"},
		{name: "it cannot select another group", pod: podIn("gpu-team", selecting(dedicatedLabel, "fast")), refused: "the node selector of the pod has taintkeeper.dev/dedicated=fast, and namespace gpu-team belongs to group gpu"},
		{
			name: "nor can a pod of another namespace select a group", pod: podIn("plain", selecting(dedicatedLabel, "gpu")),
			refused: "the node selector of the pod has taintkeeper.dev/dedicated=gpu, and namespace plain belongs to no group: remove it",
		},
		{name: "nor a pod of an empty group", pod: podIn("no-team", selecting(dedicatedLabel, "gpu")), refused: "namespace no-team belongs to no group"},
		{name: "in kube-system it can", pod: podIn(metav1.NamespaceSystem, selecting(dedicatedLabel, "gpu")), want: defaulted(), selects: map[string]string{dedicatedLabel: "gpu"}},
		{
			name: "nor leave its toleration without an effect on scheduling", pod: podIn("gpu-team", tolerating("taintkeeper.dev/dedicated=gpu:NoExecute")),
			refused: "does not tolerate taintkeeper.dev/dedicated=gpu:NoSchedule",
		},
		{name: "an empty group is none", pod: podIn("no-team"), want: defaulted(), selects: map[string]string{}},
		{name: "no user is in that group", pod: podIn("no-team", tolerating("taintkeeper.dev/dedicated:NoSchedule")), refused: "belongs to no group"},
		{name: "kube-system is left alone", pod: podIn(metav1.NamespaceSystem, tolerating("op=Exists")), want: []string{"op=Exists"}},
	},
	"namespaceTolerations": {
		{
			first: true, name: "a pod gets the defaults of its namespace", pod: podIn("defaults"),
			want: []string{notReady300, "node.kubernetes.io/unreachable:NoExecute op=Exists for 600s", "spot:NoSchedule op=Exists", "pool=batch"},
		},
		{
			name: "a default takes the place of what it covers", pod: podIn("defaults", tolerating("spot=cheap:NoSchedule", "pool=batch:NoExecute for 5s", "pool=web")),
			want: []string{"pool=web", notReady300, "node.kubernetes.io/unreachable:NoExecute op=Exists for 600s", "spot:NoSchedule op=Exists", "pool=batch"},
		},
		{
			name: "what covers a default stays in its place", pod: podIn("defaults", tolerating("spot op=Exists", "node.kubernetes.io/unreachable op=Exists")),
			want: []string{"spot op=Exists", "node.kubernetes.io/unreachable op=Exists", notReady300, "pool=batch"},
		},
		{
			name: "the API server's 300 s cover less, and give way to more", pod: podIn("forever"),
			want: []string{"node.kubernetes.io/not-ready:NoExecute op=Exists", unreachable300},
		},
		{name: "a default that another covers is left out", pod: podIn("needless"), want: defaulted("a op=Exists")},
		{
			first: true, name: "one that tolerates something else is refused", pod: podIn("strict", tolerating("pool=web:NoSchedule")),
			refused: `toleration "pool=web:NoSchedule" is not in the list of namespace strict, which allows "node.kubernetes.io/not-ready:NoExecute op=Exists", ` +
				`"node.kubernetes.io/unreachable:NoExecute op=Exists for 600s", "spot op=Exists", "pool=batch": remove it from the pod, or have it added to the annotation ` + allowedTolerations,
		},
		{name: "what another policy adds is asked about, too", pod: podIn("strict", requesting(corev1.ResourceCPU, "1")), refused: `toleration "` + memoryPressure + `" is not in the list`},
		{name: "an empty annotation allows all", pod: podIn("empty-list", tolerating("pool=web:NoSchedule")), want: defaulted("pool=web:NoSchedule")},
		{name: "and so does an empty list", pod: podIn("empty-json", tolerating("pool=web:NoSchedule")), want: defaulted("pool=web:NoSchedule")},
		{name: "defaults that are not tolerations", pod: podIn("bad-default"), refused: "annotation " + defaultTolerations + " of namespace bad-default is not a list of tolerations in JSON with up to 4000 characters: write it as"},
		{name: "defaults and a list of 4,000 characters", pod: podIn("long", tolerating("pool=web:NoExecute")), want: []string{":NoExecute op=Exists"}},
		{name: "a hundred tolerations and lists of 4,000 characters", pod: podIn("long", tolerating(numbered(100)...)), want: []string{":NoExecute op=Exists"}},
		{name: "what is not in a list of 4,000 characters", pod: podIn("long", tolerating("pool=web:NoSchedule")), refused: `toleration "pool=web:NoSchedule" is not in the list of namespace long, which allows "0:NoExecute"`},
		{name: "without the label a namespace is left alone", pod: podIn(unlabeled, tolerating("pool=web:NoSchedule")), want: defaulted("pool=web:NoSchedule")},
		{name: "a list that is longer", pod: podIn("too-long"), refused: "annotation " + allowedTolerations + " of namespace too-long is not a list of tolerations in JSON with up to 4000 characters"},
		{name: "an invalid list", pod: podIn("bad-list"), refused: "annotation " + allowedTolerations + " of namespace bad-list is not a list of tolerations in JSON"},
	},
}

// daemon are the tolerations of a DaemonSet's pod.
func daemon() []string { return daemonBut(nil) }

// daemonBut are those but some, and others.
func daemonBut(without []string, others ...string) []string {
	return slices.DeleteFunc(append(others,
		"node.kubernetes.io/not-ready:NoExecute op=Exists", "node.kubernetes.io/unreachable:NoExecute op=Exists",
		"node.kubernetes.io/disk-pressure:NoSchedule op=Exists", memoryPressure,
		"node.kubernetes.io/pid-pressure:NoSchedule op=Exists", "node.kubernetes.io/unschedulable:NoSchedule op=Exists",
	), func(text string) bool { return slices.Contains(without, text) })
}

// installPolicies installs a release in a namespace of its own.
func (p *plane) installPolicies(t *testing.T, v values) {
	t.Helper()
	p.makePlaces(t, map[string]place{elsewhere: {}})
	await.Must(t, p.release(t, elsewhere, helm4).install(t, v))
}

// withEveryPolicy makes the namespaces of the examples, and waits until every policy is in force.
func (p *plane) withEveryPolicy(t *testing.T) {
	t.Helper()
	p.makePlaces(t, places)
	p.installPolicies(t, everyPolicy)
	p.awaitPolicies(t)
}

// awaitPolicies waits until every policy is in force.
func (p *plane) awaitPolicies(t *testing.T) {
	t.Helper()
	for _, e := range firsts() {
		await.Eventually(t, e.name, func(ctx context.Context) error { return e.play(ctx, p) })
	}
}

// firsts are the examples by which the policies are seen to be in force.
func firsts() []example {
	var all []example
	for _, of := range examples {
		for _, e := range of {
			if e.first {
				all = append(all, e)
			}
		}
	}
	return all
}

// TestEveryPolicy looks at one API server with every policy. The last subtests restart it and break the policies. Its
// flags give a kubelet the rights that it has in real clusters, and no more.
func TestEveryPolicy(t *testing.T) {
	p := newAPIServer(t, "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
	p.withEveryPolicy(t)
	t.Run("does what it says", p.doesWhatItSays)
	t.Run("sees what others add, too", p.seesWhatOthersAdd)
	t.Run("leaves malformed pods to the API server", p.leavesMalformedPods)
	t.Run("has parameters that make no sense refused when they are written", p.refusesParameters)
	t.Run("lets nothing pass when the API server restarts", p.letsNothingPass)
	t.Run("never stops the cluster itself", p.neverStopsTheCluster)
}

func (p *plane) doesWhatItSays(t *testing.T) {
	for policy, all := range examples {
		for _, e := range all {
			t.Run(policy+"/"+e.name, func(t *testing.T) {
				if err := e.play(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// notServed is how the chart's message begins where no policy can be installed.
const notServed = "the API server does not serve MutatingAdmissionPolicy. Kubernetes 1.36 does"

// TestListsForAllNamespacesNeedNoLabel is about the lists in the values, which count where a namespace has none.
func TestListsForAllNamespacesNeedNoLabel(t *testing.T) {
	p := newAPIServer(t)
	p.makePlaces(t, places)
	p.installPolicies(t, values{"policies": values{"namespaceTolerations": on.with(values{
		"namespaceSelector": values{"matchExpressions": list(
			values{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list("impatient")}.plain(),
		)},
		"default": list(values{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}.plain()),
		"allowed": list(
			values{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}.plain(), values{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}.plain(),
			values{"key": "spot", "operator": "Exists"}.plain(), values{"key": "pool", "value": "batch"}.plain(),
		),
	})}})
	const spot = "spot:NoExecute op=Exists for 60s"
	for _, e := range []example{
		{name: "a default", pod: podIn("plain", tolerating("pool=batch")), want: defaulted("pool=batch", spot)},
		{
			name: "what is not allowed", pod: podIn("plain", tolerating("pool=web")),
			refused: `toleration "pool=web" is not in the list of namespace plain, which allows "node.kubernetes.io/not-ready op=Exists", ` +
				`"node.kubernetes.io/unreachable op=Exists", "spot op=Exists", "pool=batch": remove it from the pod, or have it added to the chart value policies.namespaceTolerations.allowed`,
		},
		{name: "a namespace's own list of defaults", pod: podIn("defaults"), want: []string{
			notReady300, "node.kubernetes.io/unreachable:NoExecute op=Exists for 600s", "spot:NoSchedule op=Exists", "pool=batch",
		}},
		{name: "a namespace's own list of allowed ones", pod: podIn("strict", tolerating("pool=web")), refused: "have it added to the annotation"},
		{name: "an empty list of its own", pod: podIn("empty-list", tolerating("pool=web")), want: defaulted("pool=web")},
		{name: "a namespace that is not selected", pod: podIn("impatient", tolerating("pool=web")), want: defaulted("pool=web")},
		{name: "a list without the label", pod: podIn(unlabeled, tolerating("pool=web")), refused: `which allows "a"`},
	} {
		await.Eventually(t, e.name, func(ctx context.Context) error { return e.play(ctx, p) })
	}
}
