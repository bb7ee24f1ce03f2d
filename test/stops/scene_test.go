// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/wallclock"
)

const (
	// tainted of the nodes get a taint. The pods are spread evenly, so two thirds of them are due.
	tainted, nodes = 8, 12
	// podsAtOnce is how many pods the built-in tries a second when it is refused: 10 calls each, 20 calls a second.
	podsAtOnce = 2
	key        = "test/stops"
)

// setting is what a scene is played with.
type setting struct {
	due         int  // pods at least
	deployment  bool // instead of a StatefulSet
	credentials bool // --use-service-account-credentials
	// alone leaves Taintkeeper out.
	alone bool
	// tolerate is what lets the pods tolerate taints. slow pods take 20 s to end. bare pods have no controller.
	tolerate   []func(*corev1.Pod)
	slow, bare bool
	// oneReplica leaves the standby out.
	oneReplica bool
	// ahead is the time by which the wall clocks of the replicas are ahead, and managerAhead the same for
	// kube-controller-manager. Their programs must have a wall clock that can be set.
	ahead, managerAhead time.Duration
}

func (s setting) workload() string {
	switch {
	case s.bare:
		return "bare pods"
	case s.deployment:
		return "Deployment"
	}
	return "StatefulSet"
}

func (s setting) identity() string {
	if s.credentials {
		return "node-controller"
	}
	return "kube-controller-manager"
}

// scene is a storm in a cluster.
type scene struct {
	rig.Scene
	setting

	t        *testing.T
	nodes    []string
	replicas []*localcluster.Taintkeeper
	log      int64 // where kube-controller-manager's begins
	storm    time.Time
}

// newScene has a workload that runs, and two replicas of Taintkeeper.
func newScene(t *testing.T, setting setting) *scene {
	t.Helper()
	name := fmt.Sprintf("stops-%d", time.Now().UnixNano())
	made, err := rig.New(t.Context(), admin, name)
	await.Must(t, err)
	s := &scene{Scene: made, setting: setting, t: t}
	t.Cleanup(s.clear)
	var specs []localcluster.NodeSpec
	for i := range nodes {
		spec := localcluster.NodeSpec{Name: fmt.Sprintf("%s-%d", name, i), Labels: s.Labels()}
		s.nodes, specs = append(s.nodes, spec.Name), append(specs, spec)
	}
	await.Must(t, cluster.AddNodes(t.Context(), specs...))
	set := s.restartBuiltIn()
	s.deploy()
	set()
	if !s.alone {
		s.start("first")
	}
	if !s.alone && !s.oneReplica {
		s.start("second")
	}
	return s
}

// restartBuiltIn starts kube-controller-manager without a backlog of earlier scenes, and with a log that shows it. It
// returns what sets its clock.
func (s *scene) restartBuiltIn() (setClock func()) {
	s.t.Helper()
	if info, err := os.Stat(cluster.LogPath(localcluster.ControllerManager)); err == nil {
		s.log = info.Size()
	}
	config := localcluster.ControllerManagerConfig{Args: []string{"--vmodule=timed_workers=4"}, AsItself: !s.credentials}
	if s.managerAhead == 0 {
		await.Must(s.t, cluster.RestartControllerManager(s.t.Context(), config))
		return func() {}
	}
	clock := s.clockOf(*manager)
	config.Binary, config.Env = *manager, []string{clock.Env()}
	await.Must(s.t, cluster.RestartControllerManager(s.t.Context(), config))
	return func() { clock.Set(s.managerAhead) }
}

// clockOf returns a wall clock for a program. It is set once the program is connected: according to a clock that is
// behind, the certificates of this cluster are not valid yet.
func (s *scene) clockOf(program string) *wallclock.Clock {
	s.t.Helper()
	await.Must(s.t, wallclock.Check(program))
	clock, err := wallclock.New(filepath.Join(s.t.TempDir(), "clock"))
	await.Must(s.t, err)
	s.t.Cleanup(func() { await.Must(s.t, clock.Close()) })
	return clock
}

func (s *scene) start(name string) {
	s.t.Helper()
	s.startAs(localcluster.TaintkeeperConfig{Binary: binary, Name: name, Coexist: true, Args: []string{"--leader-elect=true"}})
}

// startShadow starts what `helm upgrade --set mode=shadow` leaves: the policy stays, and no client may renew the clock.
func (s *scene) startShadow() {
	s.t.Helper()
	s.startAs(localcluster.TaintkeeperConfig{Binary: binary, Name: "shadow", Args: []string{"--shadow"}})
}

func (s *scene) startAs(config localcluster.TaintkeeperConfig) {
	s.t.Helper()
	var clock *wallclock.Clock
	if s.ahead != 0 {
		clock = s.clockOf(binary)
		config.Env = []string{clock.Env()}
	}
	replica, err := cluster.StartTaintkeeper(s.t.Context(), config)
	await.Must(s.t, err)
	if clock != nil {
		clock.Set(s.ahead)
	}
	s.t.Cleanup(func() { await.Must(s.t, replica.Kill()) })
	s.replicas = append(s.replicas, replica)
}

// clear leaves nothing for the next scene, nor in the record of the built-in's backlog.
func (s *scene) clear() {
	ctx := context.WithoutCancel(s.t.Context())
	for _, replica := range s.replicas {
		await.Must(s.t, replica.Kill())
	}
	await.Must(s.t, client.IgnoreNotFound(admin.CoreV1().Namespaces().Delete(ctx, s.Namespace, metav1.DeleteOptions{})))
	for _, node := range s.nodes {
		await.Must(s.t, client.IgnoreNotFound(admin.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})))
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null,%q:null,%q:null}}}`,
		coexist.Annotation, coexist.BacklogSince, coexist.BacklogUntil, coexist.BacklogSpared)
	_, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).
		Patch(ctx, coexist.ServiceAccount, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	await.Must(s.t, client.IgnoreNotFound(err))
}

// deploy makes the workload and waits until all of it runs.
func (s *scene) deploy() {
	s.t.Helper()
	count := int32((s.due*nodes + tainted - 1) / tainted)
	labels := s.Labels()
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		NodeSelector:                  labels,
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(bool),
		Containers:                    []corev1.Container{{Name: "main", Image: "none"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector,
		}},
	}}
	var pod corev1.Pod
	for _, tolerates := range s.tolerate {
		tolerates(&pod)
	}
	template.Spec.Tolerations = pod.Spec.Tolerations
	if s.slow {
		template.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": "20s"}
		template.Spec.TerminationGracePeriodSeconds = new(int64(30))
	}
	var err error
	switch {
	case s.bare:
		err = s.createBare(template, int(count))
	case s.deployment:
		_, err = admin.AppsV1().Deployments(s.Namespace).Create(s.t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: &count, Selector: selector, Template: template},
		}, metav1.CreateOptions{})
	default:
		_, err = admin.AppsV1().StatefulSets(s.Namespace).Create(s.t.Context(), &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &count, Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement,
			},
		}, metav1.CreateOptions{})
	}
	await.Must(s.t, err)
	await.Eventually(s.t, "the workload runs", func(ctx context.Context) error {
		running, _, err := s.pods(ctx)
		if err == nil && running < int(count) {
			err = fmt.Errorf("%d of %d pods run", running, count)
		}
		return err
	})
}

// pods returns how many pods run, and how many are on the nodes that get the taint.
func (s *scene) pods(ctx context.Context) (running, onTainted int, err error) {
	pods, err := admin.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running++
		}
		for _, node := range s.nodes[:tainted] {
			if pod.Spec.NodeName == node {
				onTainted++
			}
		}
	}
	return running, onTainted, nil
}

// taint begins a storm: it taints two thirds of the nodes at once.
func (s *scene) taint() {
	s.t.Helper()
	s.storm = time.Now()
	s.taintAlso(key)
}

// taintAlso sets one more taint on each of these nodes.
func (s *scene) taintAlso(key string) {
	s.t.Helper()
	s.onTainted(func(node string) error {
		_, err := rig.Taint(s.t.Context(), admin, node, rig.NoExecute(key))
		return err
	})
}

func (s *scene) untaint() { s.t.Helper(); s.untaintFrom(key) }

func (s *scene) untaintFrom(key string) {
	s.t.Helper()
	s.onTainted(func(node string) error {
		_, err := rig.Untaint(s.t.Context(), admin, node, key)
		return err
	})
}

func (s *scene) onTainted(do func(node string) error) {
	s.t.Helper()
	var group errgroup.Group
	for _, node := range s.nodes[:tainted] {
		group.Go(func() error { return do(node) })
	}
	await.Must(s.t, group.Wait())
}

// evicted waits until no pod is left on the tainted nodes.
func (s *scene) evicted() {
	s.t.Helper()
	await.Eventually(s.t, "no pod is left on the tainted nodes", func(ctx context.Context) error {
		_, left, err := s.pods(ctx)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d are left", left)
		}
		return err
	})
}

func (s *scene) stop() {
	s.t.Helper()
	var group errgroup.Group
	for _, replica := range s.replicas {
		group.Go(replica.Stop)
	}
	await.Must(s.t, group.Wait())
}

func (s *scene) kill() {
	s.t.Helper()
	for _, replica := range s.replicas {
		await.Must(s.t, replica.Kill())
	}
}

// editPolicy changes the words and the labels of the coexistence policy, as an upgrade of the chart does.
func (s *scene) editPolicy() {
	s.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/edited","value":"at-%d"},
		{"op":"add","path":"/spec/validations/0/message","value":"edited"},
		{"op":"replace","path":"/spec/matchConditions/0/name","value":"edited-%[1]d"}]`, time.Now().Unix())
	_, err := policies().Patch(s.t.Context(), policyName, types.JSONPatchType, patch, metav1.PatchOptions{})
	await.Must(s.t, err)
}

// deletePolicy deletes the coexistence policy, and creates it again after a while.
func (s *scene) deletePolicy(after time.Duration) {
	s.t.Helper()
	policy, err := policies().Get(s.t.Context(), policyName, metav1.GetOptions{})
	await.Must(s.t, err)
	await.Must(s.t, policies().Delete(s.t.Context(), policyName, metav1.DeleteOptions{}))
	await.Until(s.t, time.Now().Add(after))
	policy.ResourceVersion = ""
	_, err = policies().Create(s.t.Context(), policy, metav1.CreateOptions{})
	await.Must(s.t, err)
}

const policyName = "taintkeeper-coexistence"

func policies() admissionregistrationclient.ValidatingAdmissionPolicyInterface {
	return admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
}

// loseTheClock takes away the right to write the eviction clock until the scene ends.
func (s *scene) loseTheClock() {
	s.t.Helper()
	bindings := admin.RbacV1().RoleBindings(metav1.NamespaceSystem)
	binding, err := bindings.Get(s.t.Context(), coexist.ServiceAccount, metav1.GetOptions{})
	await.Must(s.t, err)
	await.Must(s.t, bindings.Delete(s.t.Context(), binding.Name, metav1.DeleteOptions{}))
	s.t.Cleanup(func() {
		binding.ResourceVersion = ""
		_, err := bindings.Create(context.WithoutCancel(s.t.Context()), binding, metav1.CreateOptions{})
		await.Must(s.t, err)
	})
}

// after waits until the given time has passed since the taints were set.
func (s *scene) after(d time.Duration) { await.Until(s.t, s.storm.Add(d)) }

// backlog returns how many evictions the built-in has begun, and how many of them it has ended. Only those of the newest
// process count: when kube-controller-manager restarts, the one before may still begin some.
func (s *scene) backlog() (begun, ended int, err error) {
	file, err := os.Open(cluster.LogPath(localcluster.ControllerManager))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	if _, err := file.Seek(s.log, 0); err != nil {
		return 0, 0, err
	}
	var log strings.Builder
	if _, err := io.Copy(&log, file); err != nil {
		return 0, 0, err
	}
	var process string
	for line := range strings.Lines(log.String()) {
		fires, finishes := strings.Contains(line, `"Firing worker"`), strings.Contains(line, `"Worker finished`)
		if !fires && !finishes {
			continue
		}
		if fields := strings.Fields(line); fields[2] != process { // klog's header: level and date, time, process
			process, begun, ended = fields[2], 0, 0
		}
		if fires {
			begun++
		} else {
			ended++
		}
	}
	return begun, ended, nil
}

// begun waits until the built-in has begun the given number of evictions.
func (s *scene) begun(evictions int) {
	s.t.Helper()
	await.Eventually(s.t, "the built-in has begun to evict", func(context.Context) error {
		begun, _, err := s.backlog()
		if err == nil && begun < evictions {
			err = fmt.Errorf("%d evictions", begun)
		}
		return err
	})
}

// leaves checks that the built-in has at least the given number of evictions left: otherwise the scene proves nothing.
func (s *scene) leaves(evictions int) {
	s.t.Helper()
	begun, ended, err := s.backlog()
	await.Must(s.t, err)
	if begun-ended < evictions {
		s.t.Errorf("the built-in has ended %d of %d evictions when Taintkeeper stops, so this proves nothing", ended, begun)
	}
}

// outcome is how a scene ended.
type outcome struct {
	due   int           // evictions that the built-in began
	took  time.Duration // until its backlog was over
	wrong []auditlog.WrongDelete
}

// end waits until the built-in's backlog is over, and judges.
func (s *scene) end() outcome {
	s.t.Helper()
	var is outcome
	limit := time.Duration(8*s.due/podsAtOnce+120) * time.Second
	ended := 0
	err := wait.PollUntilContextTimeout(s.t.Context(), time.Second, limit, true, func(context.Context) (_ bool, err error) {
		is.due, ended, err = s.backlog()
		return is.due > 0 && ended >= is.due, err
	})
	if err != nil {
		s.t.Fatalf("the built-in has ended %d of %d evictions after %v: %v", ended, is.due, limit, err)
	}
	is.took = time.Since(s.storm).Round(time.Second)
	is.wrong, err = auditlog.WrongDeletes(audit.All(s.t), func(e auditlog.Event) bool { return e.ByBuiltIn() && e.Namespace == s.Namespace })
	await.Must(s.t, err)
	return is
}
