// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// victimVariable makes the test binary a program that starts a cluster and never stops it.
const victimVariable = "LOCALCLUSTER_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		os.Exit(beVictim())
	}
	os.Exit(m.Run())
}

// beVictim starts a cluster, prints its folder, and waits to be killed.
func beVictim() int {
	ctx, cancel := signal.NotifyContext(context.TODO(), syscall.SIGHUP) //nolint:forbidigo // a program, not a test
	defer cancel()
	cluster, err := Start(ctx, Config{Without: []Component{ControllerManager, Scheduler}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(cluster.Dir())
	<-ctx.Done()
	return 0
}

// TestWholeControlPlane shares one cluster among its steps, which build on one another.
func TestWholeControlPlane(t *testing.T) {
	t.Parallel()
	cluster, err := Start(t.Context(), Config{TaintEviction: BuiltInOn, Audit: auditlog.Calls, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	whole := wholeControlPlane{cluster, clientFor(t, cluster.AdminConfig())}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the API server answers as the pinned release, with RBAC", whole.answersAsThePinnedRelease},
		{"a user may do only what RBAC allows, through a private kubeconfig", whole.allowsWhatRBACAllows},
		{"nodes become ready, with a lease, a zone and no taint", whole.addsNodes},
		{"a bound pod runs, and is gone after its delete whatever its grace period", whole.runsPods},
		{"a Job is scheduled and completes", whole.completesJobs},
		{"the built-in controller evicts under its own service account", whole.evicts},
		{"the API server comes back at the same address with the same data", whole.restartsTheAPIServer},
		{"etcd comes back with the same data", whole.restartsEtcd},
		{"kube-controller-manager restarts as another process", whole.restartsTheControllerManager},
		{"Stop leaves neither process nor folder, and may be repeated", whole.stops},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
}

// wholeControlPlane is what the steps of TestWholeControlPlane share.
type wholeControlPlane struct {
	cluster *Cluster
	client  kubernetes.Interface
}

func (w wholeControlPlane) answersAsThePinnedRelease(t *testing.T) {
	version, err := w.client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.37.") {
		t.Errorf("version %s, want v1.37", version.GitVersion)
	}
	const role = "system:controller:node-controller"
	if _, err := w.client.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{}); err != nil {
		t.Errorf("bootstrap role: %v", err)
	}
}

func (w wholeControlPlane) allowsWhatRBACAllows(t *testing.T) {
	cfg, err := w.cluster.ConfigFor("jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	reader := clientFor(t, fromKubeconfig(t, w.cluster, "jane", cfg))
	_, err = reader.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"jane"`) {
		t.Errorf("list nodes: %v, want forbidden to jane", err)
	}
}

func (w wholeControlPlane) addsNodes(t *testing.T) {
	if err := w.cluster.AddNodes(t.Context(), NodeSpec{Name: "a", Zone: "west"}, NodeSpec{Name: "b", Labels: map[string]string{"pool": "spare"}}); err != nil {
		t.Fatal(err)
	}
	a, b := getNode(t, w.client, "a"), getNode(t, w.client, "b")
	if a.Labels[corev1.LabelTopologyZone] != "west" || a.Labels[corev1.LabelTopologyRegion] != Region || b.Labels["pool"] != "spare" {
		t.Errorf("labels: a %v, b %v", a.Labels, b.Labels)
	}
	if len(a.Spec.Taints)+len(b.Spec.Taints) > 0 {
		t.Errorf("taints: a %v, b %v, want none", a.Spec.Taints, b.Spec.Taints)
	}
	if pods := a.Status.Allocatable.Pods().Value(); pods < 5000 {
		t.Errorf("room for %d pods, want 5000 or more", pods)
	}
	if _, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func (w wholeControlPlane) runsPods(t *testing.T) {
	createPod(t, w.client, NewPod("bound", "a"))
	waitRunning(t, w.client, "bound")
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "bound", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, w.client, "bound")
}

func (w wholeControlPlane) completesJobs(t *testing.T) {
	pod := NewPod("", "").Spec
	pod.RestartPolicy = corev1.RestartPolicyNever
	once := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	if _, err := w.client.BatchV1().Jobs("default").Create(t.Context(), once, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		job, err := w.client.BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("job: %+v", job.Status)
		}
		return err
	})
}

func (w wholeControlPlane) evicts(t *testing.T) {
	createPod(t, w.client, NewPod("evicted", "a"))
	waitRunning(t, w.client, "evicted")
	patch := []byte(`{"spec":{"taints":[{"key":"test","effect":"NoExecute"}]}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, w.client, "evicted")
}

func (w wholeControlPlane) restartsTheAPIServer(t *testing.T) {
	if err := w.cluster.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("the API server answers after it was stopped")
	}
	if err := w.cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := getNode(t, w.client, "a").Spec.Taints; len(got) == 0 {
		t.Error("the taint is lost")
	}
	createPod(t, w.client, NewPod("after", "b"))
	waitRunning(t, w.client, "after")
}

func (w wholeControlPlane) restartsEtcd(t *testing.T) {
	if err := w.cluster.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := w.client.CoreV1().Pods("default").Get(ctx, "after", metav1.GetOptions{})
		return err
	})
	if _, err := w.cluster.AskEtcd(t.Context(), "nothing", struct{}{}); err == nil {
		t.Error("etcd has no such method, but there is no error")
	}
	if err := w.cluster.StartEtcd(t.Context()); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("starting etcd while it runs: %v", err)
	}
}

func (w wholeControlPlane) restartsTheControllerManager(t *testing.T) {
	before := w.cluster.components.get(ControllerManager).PID()
	if err := w.cluster.RestartControllerManager(t.Context(), ControllerManagerConfig{Args: []string{"--kube-api-qps=500"}}); err != nil {
		t.Fatal(err)
	}
	if after := w.cluster.components.get(ControllerManager).PID(); before == 0 || after == 0 || before == after {
		t.Errorf("process %d before, %d after", before, after)
	}
	if !healthy(t.Context(), loopbackClient(), w.cluster.ControllerManagerURL()+"/healthz") {
		t.Errorf("it does not answer at %q", w.cluster.ControllerManagerURL())
	}
}

func (w wholeControlPlane) stops(t *testing.T) {
	if got := len(processesOf(t.Context(), t, w.cluster.Dir())); got < 5 {
		t.Fatalf("%d processes before Stop: the test looks for the wrong thing", got)
	}
	lines, err := auditlog.Read(w.cluster.AuditLog(), 0)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := lines.Events()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.cluster.Stop(), w.cluster.Stop()); err != nil {
		t.Fatal(err)
	}
	if left := processesOf(t.Context(), t, w.cluster.Dir()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(w.cluster.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	checkAudit(t, audit)
}

func TestSmallClusterEndsWithItsContextAndTellsOfACrash(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := filepath.Join(t.TempDir(), "it's a state folder")
	cluster, err := Start(ctx, Config{
		Dir:           dir,
		Without:       []Component{ControllerManager, Scheduler, Kwok},
		APIServerArgs: []string{"--max-requests-inflight=123"},
		Log:           t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AddNodes(t.Context(), NodeSpec{Name: "a"}); err == nil || !strings.Contains(err.Error(), "Config.Without") {
		t.Errorf("AddNodes without kwok: %v", err)
	}
	if got := strings.Join(processesOf(t.Context(), t, dir), "\n"); !strings.Contains(got, "--max-requests-inflight=123") {
		t.Errorf("the argument is not passed on:\n%s", got)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second cluster in the same folder: %v", err)
	}
	cluster.components.get(APIServer).Kill()
	cancel()
	waitForNoProcess(t, dir)
	const want = "kube-apiserver failed (signal: killed): it exited on its own"
	if err := cluster.Stop(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := os.Stat(cluster.LogPath(APIServer)); err != nil {
		t.Errorf("a folder of the user's is kept: %v", err)
	}
}

func waitForNoProcess(t *testing.T, dir string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if left := processesOf(ctx, t, dir); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

func TestTaintkeeperRunsAsItsServiceAccountAndEndsWithTheCluster(t *testing.T) {
	t.Parallel()
	cluster, err := Start(t.Context(), Config{Without: []Component{ControllerManager, Scheduler, Kwok}, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	first := startTaintkeeper(t, cluster, TaintkeeperConfig{})
	startTaintkeeper(t, cluster, TaintkeeperConfig{Name: "second", Args: []string{"--v=1"}})
	if err := errors.Join(first.Kill(), first.Kill()); err != nil {
		t.Errorf("killing it twice: %v", err)
	}
	if err := first.Stop(); err == nil || !strings.Contains(err.Error(), "exited on its own") || !strings.Contains(err.Error(), first.LogPath()) {
		t.Errorf("stopping what has ended: %v", err)
	}
	again := startTaintkeeper(t, cluster, TaintkeeperConfig{})
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
	wantRefused(t, cluster, TaintkeeperConfig{Args: []string{"--concurrent-evictions=0"}}, "choose 1 to 100")
	wantRefused(t, cluster, TaintkeeperConfig{Binary: "no-such-file"}, "run `make build`")
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
	if left := processesOf(t.Context(), t, cluster.Dir()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := cluster.StartTaintkeeper(t.Context(), TaintkeeperConfig{}); !errors.Is(err, errStopped) {
		t.Errorf("after the end of the cluster: %v", err)
	}
}

// wantRefused checks that no Taintkeeper starts, and that the error says why, with Taintkeeper's own words if it logged
// any.
func wantRefused(t *testing.T, cluster *Cluster, config TaintkeeperConfig, want string) {
	t.Helper()
	if _, err := cluster.StartTaintkeeper(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with %+v: %v, want %q", config, err, want)
	}
}

// startTaintkeeper starts a Taintkeeper that serves its metrics and its readiness.
func startTaintkeeper(t *testing.T, cluster *Cluster, config TaintkeeperConfig) *Taintkeeper {
	t.Helper()
	keeper, err := cluster.StartTaintkeeper(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{keeper.MetricsURL(), keeper.ReadyURL()} {
		if !healthy(t.Context(), http.DefaultClient, url) {
			t.Errorf("process %d does not serve %s", keeper.PID(), url)
		}
	}
	return keeper
}

func TestABrokenComponentIsNamedAndNothingRuns(t *testing.T) {
	t.Parallel()
	for _, component := range []Component{Etcd, APIServer, Kwok} {
		t.Run(string(component), func(t *testing.T) {
			dir := t.TempDir()
			_, err := Start(t.Context(), Config{
				Binaries: brokenBinaries(t, component),
				Dir:      dir,
				Without:  []Component{ControllerManager, Scheduler},
				Log:      t.Output(),
			})
			if err == nil {
				t.Fatal("it starts")
			}
			log := filepath.Join(dir, string(component)+".log")
			for _, want := range []string{string(component) + " failed", "exit status 3", "no good today", log, "kept in " + dir} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%v", want, err)
				}
			}
			if _, err := os.Stat(log); err != nil {
				t.Error(err)
			}
			if left := processesOf(t.Context(), t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestStartEndsEarlyWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	// The first line says that etcd is up, so that the API server is what is interrupted.
	_, err := Start(ctx, Config{Dir: dir, Log: writerFunc(func(line []byte) (int, error) {
		cancel(errors.New("changed my mind"))
		return len(line), nil
	})})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if left := processesOf(t.Context(), t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAKilledProgramLeavesNeitherProcessNorFolder(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), program)
	victim.Env = append(os.Environ(), victimVariable+"=1")
	output, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(line)
	if got := len(processesOf(t.Context(), t, dir)); got < 3 {
		t.Fatalf("the victim says %q; %d processes run", dir, got)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	eventually(t, func(ctx context.Context) error {
		if left := processesOf(ctx, t, dir); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the folder is left: %w", err)
		}
		return nil
	})
}

func TestConfigThatCannotWorkIsRefusedWithAdvice(t *testing.T) {
	tests := map[string]struct {
		cfg         Config
		environment string
		want        string
	}{
		"a missing binary": {
			want: "bin/controlplane/etcd is missing: run `make controlplane` (the first build takes minutes)",
		},
		"a missing binary of the version that the environment chooses": {
			environment: "bin/controlplane-1.35",
			want:        "bin/controlplane-1.35/etcd is missing: run `make controlplane KUBE=1.35` (the first build takes minutes)",
		},
		"a missing binary in a folder that the environment names from the root": {
			environment: "/elsewhere",
			want:        "/elsewhere/etcd is missing: run `make controlplane` (the first build takes minutes)",
		},
		"a missing binary in a folder of the user's": {
			cfg:         Config{Binaries: "/nowhere"},
			environment: "bin/controlplane-1.35",
			want:        "/nowhere/etcd is missing: run `make controlplane` (the first build takes minutes)",
		},
		"a cluster without an API server": {
			cfg:  Config{Without: []Component{APIServer}},
			want: "etcd and kube-apiserver cannot be left out: remove them from Config.Without",
		},
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module empty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(binariesVariable, test.environment)
			if _, err := Start(t.Context(), test.cfg); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestTaintEvictionIsSwitchedByTheListOfControllers(t *testing.T) {
	tests := map[TaintEviction]string{
		BuiltInOff: "--controllers=*,-taint-eviction-controller",
		BuiltInOn:  "--controllers=*",
	}
	for choice, want := range tests {
		cluster := &Cluster{cfg: Config{TaintEviction: choice}}
		if args := cluster.controllerManagerArgs("f"); !slices.Contains(args, want) {
			t.Errorf("choice %d: %v, want %s", choice, args, want)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// eventually waits for check to succeed.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	await.Eventually(t, "this is as wanted", check)
}

// processesOf returns the command lines of all processes that name dir in theirs, which every process of a cluster
// does.
func processesOf(ctx context.Context, t *testing.T, dir string) []string {
	t.Helper()
	output, err := exec.CommandContext(ctx, "ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// brokenBinaries returns a folder like the default one, in which one component ends with exit status 3.
func brokenBinaries(t *testing.T, broken Component) string {
	t.Helper()
	good, err := binariesFolder("")
	if err != nil {
		t.Fatal(err)
	}
	if err := requireBinaries(Config{Binaries: good}); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, component := range allComponents {
		if err := os.Symlink(filepath.Join(good, string(component)), filepath.Join(folder, string(component))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(folder, string(broken))
	script := []byte("#!/bin/sh\necho no good today >&2\nexit 3\n")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, script, 0o700)); err != nil {
		t.Fatal(err)
	}
	return folder
}

func clientFor(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func fromKubeconfig(t *testing.T, cluster *Cluster, name string, cfg *rest.Config) *rest.Config {
	t.Helper()
	path, err := cluster.Kubeconfig(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func getNode(t *testing.T, client kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func createPod(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitRunning(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && (pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || !pod.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("pod %s: %+v", name, pod.Status)
		}
		return err
	})
}

func waitGone(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("pod %s is still there: %+v", name, pod))
	})
}

// checkAudit looks for what the steps of TestWholeControlPlane did.
func checkAudit(t *testing.T, events []auditlog.Event) {
	t.Helper()
	const builtIn = "system:serviceaccount:kube-system:node-controller"
	has := func(user, verb, resource, name string) bool {
		return slices.ContainsFunc(events, func(e auditlog.Event) bool {
			return e.User == user && e.Verb == verb && e.Resource == resource && e.Name == name
		})
	}
	if !has(builtIn, "patch", "pods/status", "evicted") || !has(builtIn, "delete", "pods", "evicted") {
		t.Errorf("the eviction by %s is not in the audit log", builtIn)
	}
	if !has(KwokUser, "delete", "pods", "bound") {
		t.Error("kwok's delete is not in the audit log")
	}
	for _, event := range events {
		if event.Stage == "RequestReceived" {
			t.Fatalf("%+v: only finished requests belong in the audit log", event)
		}
	}
}
