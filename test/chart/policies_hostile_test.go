// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// seesWhatOthersAdd has foreign policies add a container with resources: one that is evaluated before ours, and one
// that is evaluated after them, as webhooks are, too.
func (p *plane) seesWhatOthersAdd(t *testing.T) {
	for _, name := range []string{"zz-sidecar", "aa-sidecar"} {
		p.addSidecars(t, name)
		e := example{pod: podIn("impatient"), want: impatient(memoryPressure, gpuTaint)}
		await.Eventually(t, name+": the pod has what its sidecar needs, once", func(ctx context.Context) error { return e.play(ctx, p) })
		await.Must(t, p.admission(t, mutatingPolicy).Delete(t.Context(), name, metav1.DeleteOptions{}))
		e.want = impatient()
		await.Eventually(t, name+" is gone", func(ctx context.Context) error { return e.play(ctx, p) })
	}
}

// addSidecars makes a policy that gives each pod a container with requests.
func (p *plane) addSidecars(t *testing.T, name string) {
	t.Helper()
	const expression = `[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{
		name: "sidecar", image: "none", resources: Object.spec.containers.resources{
			requests: {"cpu": "1m", "example.com/gpu": "1"}, limits: {"example.com/gpu": "1"}}}}]`
	for kind, spec := range map[string]values{
		mutatingPolicy: {
			"failurePolicy": "Fail", "reinvocationPolicy": "Never",
			"matchConstraints": values{"resourceRules": list(values{
				"apiGroups": list(""), "apiVersions": list("v1"), "resources": list("pods"), "operations": list("CREATE"),
			}.plain())},
			"mutations": list(values{"patchType": "JSONPatch", "jsonPatch": values{"expression": expression}}.plain()),
		},
		mutatingPolicy + "Binding": {"policyName": name},
	} {
		object := values{
			"apiVersion": "admissionregistration.k8s.io/" + p.mutatingVersion(t), "kind": kind, "metadata": values{"name": name}, "spec": spec,
		}
		_, err := p.admission(t, kind).Create(t.Context(), &unstructured.Unstructured{Object: object.plain()}, metav1.CreateOptions{})
		await.Must(t, err)
	}
}

// leavesMalformedPods sends malformed pods, which policies need not handle. None of them may fail on it, or say
// something that hides what is wrong.
func (p *plane) leavesMalformedPods(t *testing.T) {
	const whole = `{"containers":[{"name":"a","image":"a"}]%s}`
	for name, tt := range map[string]struct{ metadata, spec string }{
		"no containers":                   {``, `{}`},
		"an empty list of containers":     {``, `{"containers":[]}`},
		"containers that are null":        {``, `{"containers":null}`},
		"a container without a name":      {``, `{"containers":[{}]}`},
		"an empty toleration":             {``, fmt.Sprintf(whole, `,"tolerations":[{}]`)},
		"an operator that does not exist": {``, fmt.Sprintf(whole, `,"tolerations":[{"key":"a","operator":"exists"}]`)},
		"seconds without NoExecute":       {``, fmt.Sprintf(whole, `,"tolerations":[{"key":"a","operator":"Exists","tolerationSeconds":5}]`)},
		"Exists with a value":             {``, fmt.Sprintf(whole, `,"tolerations":[{"key":"a","operator":"Exists","value":"b"}]`)},
		"an invalid key":                  {``, fmt.Sprintf(whole, `,"tolerations":[{"key":"a b","operator":"Exists"}]`)},
		"a negative request":              {``, `{"containers":[{"name":"a","image":"a","resources":{"requests":{"cpu":"-1"}}}]}`},
		"a resource without a name":       {``, `{"containers":[{"name":"a","image":"a","resources":{"requests":{"":"1"}}}]}`},
		"a resource with a slash only":    {``, `{"containers":[{"name":"a","image":"a","resources":{"requests":{"/":"1"}}}]}`},
		"an owner without a kind":         {`,"ownerReferences":[{"apiVersion":"","kind":"","name":"a","uid":"a","controller":true}]`, fmt.Sprintf(whole, ``)},
		"an invalid selector":             {``, fmt.Sprintf(whole, `,"nodeSelector":{"a b":"c d"}`)},
		"an invalid label":                {`,"labels":{"taintkeeper.dev/daemon":"true true"}`, fmt.Sprintf(whole, ``)},
	} {
		for _, namespace := range []string{"plain", "impatient", "gpu-team", "defaults"} {
			t.Run(name+" in "+namespace, func(t *testing.T) {
				err := p.send(t.Context(), namespace, tt.metadata, tt.spec)
				if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "AdmissionPolicy") {
					t.Errorf("the answer is %v", err)
				}
			})
		}
	}
	for name, tt := range map[string]struct{ metadata, spec string }{
		"tolerations that are null":    {``, fmt.Sprintf(whole, `,"tolerations":null`)},
		"an empty list of tolerations": {``, fmt.Sprintf(whole, `,"tolerations":[]`)},
		"a selector that is null":      {``, fmt.Sprintf(whole, `,"nodeSelector":null`)},
		"an empty selector":            {``, fmt.Sprintf(whole, `,"nodeSelector":{}`)},
		"empty resources":              {``, fmt.Sprintf(whole, `,"resources":{}`)},
		"labels that are null":         {`,"labels":null,"annotations":null,"ownerReferences":null`, fmt.Sprintf(whole, ``)},
		"a thousand tolerations":       {``, fmt.Sprintf(whole, `,"tolerations":[`+repeated(1000, `{"key":"spot","operator":"Exists","effect":"NoSchedule"}`)+`]`)},
		"two hundred containers":       {``, `{"containers":[` + repeatedNamed(200) + `]}`},
	} {
		for _, namespace := range []string{"plain", "impatient", "gpu-team", "defaults", "strict"} {
			t.Run(name+" in "+namespace, func(t *testing.T) {
				if err := p.send(t.Context(), namespace, tt.metadata, tt.spec); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func repeated(number int, text string) string {
	return strings.Join(slices.Repeat([]string{text}, number), ",")
}

func repeatedNamed(number int) string {
	var all []string
	for i := range number {
		all = append(all, fmt.Sprintf(`{"name":"c-%d","image":"a"}`, i))
	}
	return strings.Join(all, ",")
}

// send creates a pod from text, as a dry run.
func (p *plane) send(ctx context.Context, namespace, metadata, spec string) error {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod"%s},"spec":%s}`, metadata, spec)
	return p.admin.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Param("dryRun", "All").Body([]byte(text)).Do(ctx).Error()
}

// refusesParameters is about labels and annotations of namespaces.
func (p *plane) refusesParameters(t *testing.T) {
	namespaces := p.admin.CoreV1().Namespaces()
	dryRun := []string{metav1.DryRunAll}
	create := func(ctx context.Context, as place) error {
		_, err := namespaces.Create(ctx, namespace("new", as), metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	labels := func(name, value string) place { return place{labels: map[string]string{name: value}} }
	annotation := func(name, value string) place { return place{annotations: map[string]string{name: value}} }
	await.Eventually(t, "the policy is in force", func(ctx context.Context) error {
		if err := create(ctx, labels(notReadySeconds, "soon")); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", errors.Join(err, errNotRefused))
		}
		return nil
	})
	for name, tt := range map[string]struct {
		as   place
		says string
	}{
		"seconds with a unit":         {labels(notReadySeconds, "30s"), `label taintkeeper.dev/not-ready-seconds of the namespace is "30s": write whole seconds`},
		"half a second":               {labels(unreachableSeconds, "1.5"), "write whole seconds"},
		"no seconds":                  {labels(unreachableSeconds, ""), "write whole seconds"},
		"an empty group":              {labels(dedicatedLabel, ""), "label taintkeeper.dev/dedicated of the namespace is empty: name the group of nodes, or remove it"},
		"an object":                   {annotation(defaultTolerations, `{"key":"a"}`), "is not a list of tolerations in JSON with up to 4000 characters: write it as"},
		"a field that does not exist": {annotation(defaultTolerations, `[{"keys":"a","operator":"Exists"}]`), defaultTolerations},
		"an invalid operator":         {annotation(allowedTolerations, `[{"key":"a","operator":"exists"}]`), allowedTolerations},
		"an invalid effect":           {annotation(allowedTolerations, `[{"key":"a","effect":"Never"}]`), allowedTolerations},
		"nothing at all":              {annotation(allowedTolerations, `[{}]`), allowedTolerations},
		"seconds in quotes":           {annotation(allowedTolerations, `[{"key":"a","effect":"NoExecute","tolerationSeconds":"5"}]`), allowedTolerations},
		"a comma too many":            {annotation(allowedTolerations, `[{"key":"a","operator":"Exists"},]`), allowedTolerations},
		"a comma too few":             {annotation(allowedTolerations, `[{"key":"a" "operator":"Exists"}]`), allowedTolerations},
		"text after the list":         {annotation(allowedTolerations, `[] and more`), allowedTolerations},
		"4,100 characters":            {annotation(allowedTolerations, longList(4100)), allowedTolerations},
		"YAML":                        {annotation(allowedTolerations, "- key: a\n  operator: Exists\n"), allowedTolerations},
	} {
		t.Run(name, func(t *testing.T) {
			if err := create(t.Context(), tt.as); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the answer is %v, want %q", err, tt.says)
			}
		})
	}
	for name, as := range map[string]place{
		"nothing": {}, "no time": labels(notReadySeconds, "0"), "a group": labels(dedicatedLabel, "gpu"), "an empty annotation": annotation(allowedTolerations, ""),
		"3,990 characters": annotation(allowedTolerations, longList(3990)),
		"every field":      annotation(defaultTolerations, `[ {"key" : "example.com/a_b-c.d", "operator":"Equal","value":"x","effect":"NoExecute","tolerationSeconds":-5} ]`),
		"empty fields":     annotation(defaultTolerations, `[{"key":"a","operator":"Exists","value":null,"effect":"","tolerationSeconds":null}]`),
	} {
		t.Run(name, func(t *testing.T) {
			await.Must(t, create(t.Context(), as))
		})
	}

	t.Run("annotations without the label", func(t *testing.T) {
		missing := namespace(unlabeled, annotation(allowedTolerations, "[]"))
		missing.Name = "new"
		if _, err := namespaces.Create(t.Context(), missing, metav1.CreateOptions{DryRun: dryRun}); err == nil || !strings.Contains(err.Error(), "have no effect in a namespace without the label taintkeeper.dev/tolerations: set it") {
			t.Errorf("the answer is %v", err)
		}
		whole, err := namespaces.Get(t.Context(), "strict", metav1.GetOptions{})
		await.Must(t, err)
		delete(whole.Labels, tolerationsLabel)
		if _, err := namespaces.Update(t.Context(), whole, metav1.UpdateOptions{DryRun: dryRun}); err == nil || !strings.Contains(err.Error(), "have no effect") {
			t.Errorf("the label is taken away: %v", err)
		}
	})

	t.Run("what was there before stays until it is fixed", func(t *testing.T) {
		for _, name := range []string{"slip", "no-team", "bad-default", "bad-list", unlabeled} {
			old, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
			await.Must(t, err)
			metav1.SetMetaDataLabel(&old.ObjectMeta, "team", "web")
			_, err = namespaces.Update(t.Context(), old, metav1.UpdateOptions{DryRun: dryRun})
			await.Must(t, err)
		}
	})
}

// letsNothingPass creates pods from the first answer of an API server on. None of the policies has a parameter object
// that would have to be found first.
func (p *plane) letsNothingPass(t *testing.T) {
	early := int64(0)
	for _, stop := range []func(context.Context) error{p.StopAPIServer, p.KillAPIServer} {
		await.Must(t, stop(t.Context()))
		early += p.whileStarting(t)
	}
	if early == 0 {
		t.Error("no request was answered before the API server was ready, so this proves little")
	}
	t.Logf("%d answers before the API server was ready", early)
	p.awaitPolicies(t)
}

// whileStarting starts the API server and, until well after it is ready, sends it pods that must be refused or changed.
// A wrong answer is an error. It returns how many answers came before it was ready.
func (p *plane) whileStarting(t *testing.T) int64 {
	t.Helper()
	var answers atomic.Int64
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var group errgroup.Group
	for _, e := range firsts() {
		group.Go(func() error {
			for ctx.Err() == nil {
				if answered, err := e.stillHolds(ctx, p); err != nil {
					return err
				} else if answered {
					answers.Add(1)
				}
			}
			return nil
		})
	}
	await.Must(t, p.StartAPIServer(t.Context()))
	early := answers.Load()
	await.Eventually(t, "it answers", func(context.Context) error {
		if answers.Load() < early+300 {
			return errors.New("not often")
		}
		return nil
	})
	done()
	await.Must(t, group.Wait())
	return early
}

// stillHolds asks once, and says whether there was an answer. While an API server starts, it may refuse everything.
func (e example) stillHolds(ctx context.Context, p *plane) (answered bool, err error) {
	got, err := p.admit(ctx, e.pod)
	switch {
	case err != nil:
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	case e.refused != "":
		return true, fmt.Errorf("%s: it is not refused", e.name)
	case !slices.Equal(sorted(got.Spec.Tolerations), slices.Sorted(slices.Values(e.want))):
		return true, fmt.Errorf("%s: tolerations %q", e.name, sorted(got.Spec.Tolerations))
	}
	return true, nil
}

// neverStopsTheCluster breaks the policies that have failurePolicy Fail, so that they refuse whatever they match, and
// looks at what a cluster needs to come up.
func (p *plane) neverStopsTheCluster(t *testing.T) {
	p.breakPolicies(t)
	for _, matches := range []*corev1.Pod{podIn("gpu-team"), podIn("plain", tolerating("op=Exists")), podIn("defaults"), podIn("strict")} {
		await.Eventually(t, "a broken policy refuses what it matches", func(ctx context.Context) error {
			if _, err := p.admit(ctx, matches); err == nil || !strings.Contains(err.Error(), "index out of bounds") {
				return fmt.Errorf("the answer is %w", errors.Join(err, errNotRefused))
			}
			return nil
		})
	}

	await.Must(t, (example{pod: podIn(metav1.NamespaceSystem, tolerating("op=Exists"), labeled("k8s-app", "kube-proxy")), want: []string{"op=Exists"}}).play(t.Context(), p))
	config, err := p.ConfigFor("system:node:first", "system:nodes")
	await.Must(t, err)
	kubelet, err := kubernetes.NewForConfig(config)
	await.Must(t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "first"}}
	node, err = kubelet.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = kubelet.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	await.Must(t, err)
	await.Eventually(t, "the kubelet renews its Lease", func(ctx context.Context) error {
		_, err := kubelet.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "first"}}, metav1.CreateOptions{})
		return err
	})
	mirror := podIn("strict", tolerating(":NoExecute op=Exists", "spot=other"), func(pod *corev1.Pod) {
		pod.GenerateName, pod.Name, pod.Spec.NodeName = "", "static-first", "first"
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "a"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "first", UID: node.UID, Controller: new(true)}}
		pod.Spec.ServiceAccountName = ""
	})
	_, err = kubelet.CoreV1().Pods("strict").Create(t.Context(), mirror, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = p.admin.CoreV1().Namespaces().Create(t.Context(), namespace("another", place{}), metav1.CreateOptions{})
	await.Must(t, err)
}

// breakPolicies makes the policies that have failurePolicy Fail always fail.
func (p *plane) breakPolicies(t *testing.T) {
	t.Helper()
	const broken = `[{"op":"add","path":"/spec/variables/0","value":{"name":"broken","expression":"[0][size(object.spec.containers)]"}},
		{"op":"replace","path":"/spec/%s","value":%q}]`
	for _, name := range []string{"taintkeeper-dedicated-nodes", "taintkeeper-default-tolerations"} {
		patch := fmt.Sprintf(broken, "mutations/0/jsonPatch/expression", `[JSONPatch{op: "remove", path: string(variables.broken)}]`)
		_, err := p.admission(t, mutatingPolicy).Patch(t.Context(), clusterName(elsewhere, name), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		await.Must(t, err)
	}
	for _, name := range []string{"taintkeeper-dedicated-nodes", "taintkeeper-allowed-tolerations"} {
		patch := fmt.Sprintf(broken, "validations/0/expression", "variables.broken == 0")
		_, err := p.admission(t, "ValidatingAdmissionPolicy").Patch(t.Context(), clusterName(elsewhere, name), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		await.Must(t, err)
	}
}

// TestADaemonGetsWhatADaemonSetsPodGets compares with the tolerations that kube-controller-manager gives a DaemonSet's
// pod.
func TestADaemonGetsWhatADaemonSetsPodGets(t *testing.T) {
	p := newPlane(t)
	p.needPolicies(t)
	p.makeNamespace(t, "plain")
	await.Must(t, p.AddNodes(t.Context(), localcluster.NodeSpec{Name: "first"}))
	p.installPolicies(t, values{"policies": values{"daemonTolerations": on}})
	for name, hostNetwork := range map[string]bool{"own-network": false, "host-network": true} {
		want := p.daemonSetsPod(t, name, hostNetwork)
		like := podIn("plain", labeled(daemonLabel, "true"), tolerating("node.kubernetes.io/not-ready:NoExecute op=Exists for 5s"), func(pod *corev1.Pod) {
			pod.Spec.HostNetwork = hostNetwork
		})
		e := example{pod: like, want: sorted(want.Spec.Tolerations)}
		await.Eventually(t, name, func(ctx context.Context) error { return e.play(ctx, p) })
	}
}

// daemonSetsPod makes a DaemonSet and returns its pod.
func (p *plane) daemonSetsPod(t *testing.T, name string, hostNetwork bool) *corev1.Pod {
	t.Helper()
	labels := map[string]string{"of": name}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "main", Image: "none"}}, HostNetwork: hostNetwork,
					Tolerations: tolerations("node.kubernetes.io/not-ready:NoExecute op=Exists for 5s"),
				},
			},
		},
	}
	_, err := p.admin.AppsV1().DaemonSets("plain").Create(t.Context(), set, metav1.CreateOptions{})
	await.Must(t, err)
	var pod *corev1.Pod
	await.Eventually(t, "the DaemonSet has a pod", func(ctx context.Context) error {
		list, err := p.admin.CoreV1().Pods("plain").List(ctx, metav1.ListOptions{LabelSelector: "of=" + name})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("not yet")
		}
		if err == nil {
			pod = &list.Items[0]
		}
		return err
	})
	return pod
}
