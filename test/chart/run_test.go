// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

const (
	// us is the user that Taintkeeper runs as in these tests, and builtIn that of the built-in
	// taint-eviction-controller.
	us      = "system:serviceaccount:" + elsewhere + ":taintkeeper"
	builtIn = "system:serviceaccount:" + metav1.NamespaceSystem + ":node-controller"

	workloads = "default"
)

// TestWhatIsInstalledEvictsInsteadOfTheBuiltIn runs the program as the Deployment of a release would, with a token
// of its service account, next to a kube-controller-manager that runs with its defaults.
func TestWhatIsInstalledEvictsInsteadOfTheBuiltIn(t *testing.T) {
	p := newPlane(t)
	p.makeNamespace(t, elsewhere)
	await.Must(t, p.AddNodes(t.Context(), localcluster.NodeSpec{Name: "first"}, localcluster.NodeSpec{Name: "second"}))
	r := p.release(t, elsewhere, helm4)
	await.Must(t, r.install(t, enforce))
	access := p.access(t, "taintkeeper")
	metrics := scene.GuardedAddress(t)
	keeper := p.start(t, access, metrics)

	p.checkPriority(t, access)
	p.waitHeldOff(t)
	p.makePods(t, "first", 10)
	p.taint(t, "first")
	p.waitGone(t, "first")
	p.checkEvictedBy(t, "first", us)
	p.checkMetrics(t, metrics)

	await.Must(t, keeper.Stop())
	p.checkRights(t)
	p.checkClock(t)
	r.uninstall(t)
	// What Helm keeps holds the built-in off until the end of its backlog, two minutes after the stop. This test ends
	// it now.
	p.annotateClock(t, r, backlogUntilAnnotation, time.Now().Add(-time.Second))
	await.Eventually(t, "the built-in is free again", p.markAsBuiltIn)
	p.makePods(t, "second", 1)
	p.taint(t, "second")
	p.waitGone(t, "second")
	p.checkEvictedBy(t, "second", builtIn)
}

// TestWhatIsInstalledFirstChangesNothing runs the program as the default values have it, and sees the built-in evict.
// Only the report is written.
func TestWhatIsInstalledFirstChangesNothing(t *testing.T) {
	p := newPlane(t)
	p.makeNamespace(t, elsewhere)
	await.Must(t, p.AddNodes(t.Context(), localcluster.NodeSpec{Name: "first"}))
	r := p.release(t, elsewhere, helm4)
	await.Must(t, r.install(t, nil))
	metrics := scene.GuardedAddress(t)
	keeper := p.start(t, p.access(t, "taintkeeper"), metrics)
	p.checkMetrics(t, metrics)

	p.makePods(t, "first", 1)
	p.taint(t, "first")
	p.waitGone(t, "first")
	p.checkEvictedBy(t, "first", builtIn)
	await.Must(t, keeper.Stop())

	objects, err := config.Objects([]byte(r.manifest(t)))
	await.Must(t, err)
	calls := p.audit.All(t, auditlog.By(us))
	p.checkRights(t)
	for _, right := range auditlog.UnusedRights(rolesOf(objects, us), calls) {
		// A quiet minute brings no event, this API server, unlike older ones, streams lists by a watch, and the audit log
		// does not say that the patch that creates the report needs the right to create it.
		created := right.Resource == "configmaps" && right.Verb == "create"
		if right.Resource != "events" && right.Verb != "list" && !created {
			t.Errorf("in shadow mode nothing used the right to %v", right)
		}
	}
	for _, c := range calls {
		report := c.Resource == "configmaps" && c.Name == v1alpha1.ShadowConfigMap
		if !slices.Contains([]string{"get", "list", "watch"}, c.Verb) && !slices.Contains(questions, c.Resource) && !report {
			t.Errorf("in shadow mode it did %v", c)
		}
	}
}

// rolesOf returns the roles among some objects that bindings among them give to a service account. The chart has others,
// for people.
func rolesOf(objects []config.Object, user string) []config.Object {
	given := map[string]bool{} // by kind and name
	give := func(role rbacv1.RoleRef, to []rbacv1.Subject) {
		given[role.Kind+role.Name] = given[role.Kind+role.Name] || slices.ContainsFunc(to, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && serviceaccount.MakeUsername(s.Namespace, s.Name) == user
		})
	}
	for _, object := range objects {
		switch binding := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			give(binding.RoleRef, binding.Subjects)
		case *rbacv1.RoleBinding:
			give(binding.RoleRef, binding.Subjects)
		}
	}
	return slices.DeleteFunc(slices.Clone(objects), func(object config.Object) bool {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			return !given["ClusterRole"+role.Name]
		case *rbacv1.Role:
			return !given["Role"+role.Name]
		}
		return true
	})
}

// questions are the resources that are created only to ask the API server something, and events. Creating them changes
// nothing else.
var questions = []string{"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "events"}

// access returns the configuration of a client with the rights of a service account.
func (p *plane) access(t *testing.T, account string) *rest.Config {
	t.Helper()
	config, err := p.ConfigOf(t.Context(), elsewhere, account)
	await.Must(t, err)
	return config
}

// start runs the program of these sources with the arguments of the Deployment, except for the addresses, which are
// those of a pod.
func (p *plane) start(t *testing.T, access *rest.Config, metrics string) *localcluster.Taintkeeper {
	t.Helper()
	d, err := p.admin.AppsV1().Deployments(elsewhere).Get(t.Context(), "taintkeeper", metav1.GetOptions{})
	await.Must(t, err)
	binary, err := suite.Build(t.Context(), t.TempDir(), "taintkeeper")
	await.Must(t, err)
	keeper, err := p.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Access: access, Granted: true,
		Args: append(localcluster.ArgsOf(d.Spec.Template.Spec), "--metrics-bind-address="+metrics),
	})
	await.Must(t, err)
	return keeper
}

// checkMetrics checks that only those who have the chart's role get what is served.
func (p *plane) checkMetrics(t *testing.T, address string) {
	t.Helper()
	const reader = "reader"
	_, err := p.admin.CoreV1().ServiceAccounts(elsewhere).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: reader}}, metav1.CreateOptions{})
	await.Must(t, err)
	_, err = p.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterName(elsewhere, "taintkeeper-metrics-reader")},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: elsewhere, Name: reader}},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	for account, want := range map[string]int{reader: http.StatusOK, "default": http.StatusForbidden} {
		token := p.access(t, account).BearerToken
		await.Eventually(t, account+" is answered according to its rights", func(ctx context.Context) error {
			if got, err := scrape(ctx, address+"/metrics", token); err != nil || got != want {
				return fmt.Errorf("status %d, want %d: %w", got, want, err)
			}
			return nil
		})
	}
}

// scrape returns the status of an answer.
func scrape(ctx context.Context, url, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+url, http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is self-signed
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// checkPriority checks, by the API server's answers, that calls have kube-controller-manager's priority level.
func (p *plane) checkPriority(t *testing.T, config *rest.Config) {
	t.Helper()
	flow, err := p.admin.FlowcontrolV1().FlowSchemas().Get(t.Context(), clusterName(elsewhere, "taintkeeper"), metav1.GetOptions{})
	await.Must(t, err)
	level, err := p.admin.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "workload-high", metav1.GetOptions{})
	await.Must(t, err)
	client, err := rest.HTTPClientFor(config)
	await.Must(t, err)
	await.Eventually(t, "calls have the priority level workload-high", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/nodes/first", http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if got := response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"); got != string(flow.UID) {
			return fmt.Errorf("status %d by the FlowSchema %q, want %s", response.StatusCode, got, flow.UID)
		}
		if got := response.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"); got != string(level.UID) {
			return fmt.Errorf("the priority level is %q, want %s", got, level.UID)
		}
		return nil
	})
}

// waitHeldOff waits until the API server refuses what the built-in does.
func (p *plane) waitHeldOff(t *testing.T) {
	t.Helper()
	await.Must(t, p.makePod(t.Context(), "probe", "first"))
	await.Eventually(t, "the policy holds the built-in off", func(ctx context.Context) error {
		if err := p.markAsBuiltIn(ctx); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a mark is answered with %w", errors.Join(err, errNotRefused))
		}
		return nil
	})
}

var errNotRefused = errors.New("it is not refused")

// markAsBuiltIn sends what the built-in sends, as a dry run.
func (p *plane) markAsBuiltIn(ctx context.Context) error {
	return p.mark(ctx, "probe", builtInMessage, metav1.DryRunAll)
}

// builtInMessage is how the built-in marks pods.
const builtInMessage = "Taint manager: deleting due to NoExecute taint"

// mark announces in the status of a pod that it will be deleted.
func (p *plane) mark(ctx context.Context, pod, message string, dryRun ...string) error {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":%q,
		"reason":"DeletionByTaintManager","message":%q}]}}`, time.Now().UTC().Format(time.RFC3339), message)
	_, err := p.admin.CoreV1().Pods(workloads).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: dryRun}, "status")
	return err
}

// makePod makes a pod on a node. It tolerates every taint if it is the probe.
func (p *plane) makePod(ctx context.Context, name, node string) error {
	pod := localcluster.NewPod(name, node, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"on": node}
		if name == "probe" {
			pod.Labels = nil
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
	})
	_, err := p.admin.CoreV1().Pods(workloads).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (p *plane) makePods(t *testing.T, node string, number int) {
	t.Helper()
	for i := range number {
		await.Must(t, p.makePod(t.Context(), fmt.Sprintf("%s-%d", node, i), node))
	}
}

func (p *plane) taint(t *testing.T, name string) {
	t.Helper()
	_, err := scene.Taint(t.Context(), p.admin, name, scene.NoExecute("maintenance"))
	await.Must(t, err)
}

func (p *plane) waitGone(t *testing.T, node string) {
	t.Helper()
	await.Eventually(t, "all pods have left node "+node, func(ctx context.Context) error {
		left, err := p.admin.CoreV1().Pods(workloads).List(ctx, metav1.ListOptions{LabelSelector: "on=" + node})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are there", len(left.Items))
		}
		return err
	})
}

// checkEvictedBy checks who deleted the pods of a node.
func (p *plane) checkEvictedBy(t *testing.T, node, want string) {
	t.Helper()
	deletes := p.audit.All(t, auditlog.Deletes, auditlog.Accepted, localcluster.NotByKwok, func(c auditlog.Event) bool {
		return strings.HasPrefix(c.Name, node+"-")
	})
	if len(deletes) == 0 {
		t.Errorf("the pods of node %s were not evicted", node)
	}
	for _, c := range deletes {
		if c.User != want {
			t.Errorf("%s deleted pod %s, want %s", c.User, c.Name, want)
		}
	}
}

// checkRights checks that Taintkeeper was refused nothing.
func (p *plane) checkRights(t *testing.T) {
	t.Helper()
	for _, c := range p.audit.All(t, auditlog.By(us)) {
		if c.Code == http.StatusForbidden {
			t.Errorf("the rights of the chart do not suffice: %v", c)
		}
	}
}

// checkClock checks that the right to renew the eviction clock is used. No other test sees that.
func (p *plane) checkClock(t *testing.T) {
	t.Helper()
	renewals := p.audit.All(t, auditlog.By(us), auditlog.Named(clock), auditlog.Accepted, func(c auditlog.Event) bool {
		return c.Verb == "patch" && c.Resource == "serviceaccounts"
	})
	if len(renewals) == 0 {
		t.Error("the eviction clock was never renewed")
	}
}

// TestWithDeletesNeedMarkTheBuiltInDeletesNoPodThatTookTheNameOfAMarkedOne is about coexist.deletesNeedMark: the built-in
// deletes by name, long after it has marked a pod.
func TestWithDeletesNeedMarkTheBuiltInDeletesNoPodThatTookTheNameOfAMarkedOne(t *testing.T) {
	p := newAPIServer(t)
	p.installPolicies(t, values{"coexist": values{"deletesNeedMark": true}})
	theirs, others := p.podsAs(t, builtIn), p.admin.CoreV1().Pods(workloads)

	await.Must(t, p.makePod(t.Context(), "unmarked", ""))
	await.Eventually(t, "the built-in may not delete a pod without its mark", func(ctx context.Context) error {
		if err := theirs.Delete(ctx, "unmarked", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	for name, message := range map[string]string{"ours": "Taintkeeper: deletes it", "marked": builtInMessage} {
		await.Must(t, p.makePod(t.Context(), name, ""))
		await.Must(t, p.mark(t.Context(), name, message))
	}
	if err := theirs.Delete(t.Context(), "ours", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that Taintkeeper marked: %v", err)
	}
	if err := theirs.Delete(t.Context(), "marked", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a pod that the built-in marked: %v", err)
	}
	if err := others.Delete(t.Context(), "unmarked", metav1.DeleteOptions{}); err != nil {
		t.Errorf("somebody else deletes a pod without a mark: %v", err)
	}
}

// podsAs returns a client for pods that acts as a user.
func (p *plane) podsAs(t *testing.T, user string) corev1client.PodInterface {
	t.Helper()
	config, err := p.ConfigFor(user)
	await.Must(t, err)
	client, err := kubernetes.NewForConfig(config)
	await.Must(t, err)
	return client.CoreV1().Pods(workloads)
}
