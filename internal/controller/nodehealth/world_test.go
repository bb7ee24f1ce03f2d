// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

// excludeDisruption is upstream's label of nodes that do not count in their zone.
const excludeDisruption = "node.kubernetes.io/exclude-disruption"

// defaultGrace is the default of the flag.
var defaultGrace = readiness.Grace{Monitor: readiness.DefaultMonitorGrace, Startup: readiness.DefaultStartupGrace}

// world is a cluster with our whole Controller at work in it, and kubelets that renew their leases.
type world struct {
	*bubble.World

	// renewing is called before our own lease is renewed, and returns why the renewal fails, or nil.
	renewing func(ctx context.Context) error
	// wrote is told of a patch of a node that was done, and returns the error that its caller gets, or nil.
	wrote func(ctx context.Context) error
}

func TestMain(m *testing.M) { bubble.Main(m) }

// playStories plays each story in a world of its own.
func playStories(t *testing.T, stories map[string]func(w *world)) {
	t.Helper()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) { play(t, func(_ *testing.T, w *world) { story(w) }) })
	}
}

func play(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Play(t, bubble.DescribeWrites, func(w *bubble.World) {
		w.Must(w.Client.CoreV1().Namespaces().Create(w.T.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease, UID: "uid-of-the-namespace"},
		}, metav1.CreateOptions{}))
		test(w.T, &world{World: w})
	})
}

// run starts a Controller.
func (w *world) run(change ...func(*Config)) {
	w.T.Helper()
	health, caches := w.health(change...)
	w.Run("the Controller", caches.With(health.Run))
}

// health returns a Controller, and the caches that it uses.
func (w *world) health(change ...func(*Config)) (*Controller, caches.Caches) {
	w.T.Helper()
	config := w.config(change...)
	health, err := New(config)
	w.Must(nil, err)
	return health, caches.Caches{Nodes: config.Nodes, Pods: config.Pods}
}

// config returns the defaults of the flags, changed as wanted, with metrics of its own.
func (w *world) config(change ...func(*Config)) Config {
	w.Registry = prometheus.NewRegistry()
	config := Config{
		Client: w.Client, Registerer: w.Registry, Clock: &timeline.Clock{},
		Grace: defaultGrace,
		Policy: readiness.Policy{
			Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
			LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
		},
	}
	if w.renewing != nil || w.wrote != nil {
		slow := &bubble.Slow{Clientset: w.Client, Before: onRequest("apply", "leases", w.renewing), After: onRequest("patch", "nodes", w.wrote)}
		config.Client, config.LeaseClient = slow, w.Client
	}
	for _, apply := range change {
		apply(&config)
	}
	caches := caches.New(config.Client, config.Clock, false)
	config.Nodes, config.Pods = caches.Nodes, caches.Pods
	return config
}

// onRequest calls happens, if it is not nil, for requests with a verb and a resource.
func onRequest(verb, resource string, happens func(context.Context) error) bubble.Hook {
	return func(ctx context.Context, r bubble.Request) error {
		if happens == nil || r.Verb != verb || r.Resource != resource {
			return nil
		}
		return happens(ctx)
	}
}

// addNode creates a ready node in a zone, with a kubelet.
func (w *world) addNode(name, zone string, change ...func(*corev1.Node)) {
	w.T.Helper()
	w.AddNode(name, zone, change...)
	w.StartKubelet(name)
}

// addZone creates the given number of ready nodes in a zone, named after it.
func (w *world) addZone(zone string, nodes int) []string {
	w.T.Helper()
	return w.AddZone(zone, nodes, func(name, zone string) { w.addNode(name, zone) })
}

// falls makes kubelets silent, resumes lets them report again.
func (w *world) falls(names ...string) {
	for _, name := range names {
		w.Silent[name] = true
	}
}

func (w *world) resumes(names ...string) {
	w.T.Helper()
	for _, name := range names {
		delete(w.Silent, name)
		w.Renew(name)
		w.Report(name, corev1.NodeReady, corev1.ConditionTrue)
	}
}

// executing returns the NoExecute taints for readiness that a node has.
func executing(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoExecute || !forReadiness(t)
	})
}

// tainted returns which of the nodes have a NoExecute taint.
func (w *world) tainted(names ...string) []string {
	w.T.Helper()
	var found []string
	for _, name := range names {
		if len(executing(w.Node(name))) > 0 {
			found = append(found, name)
		}
	}
	return found
}

func (w *world) wantTainted(count int, names ...string) {
	w.T.Helper()
	if got := w.tainted(names...); len(got) != count {
		w.T.Errorf("after %s the nodes %q are tainted NoExecute, want %d", time.Since(w.Start), got, count)
	}
}

// addPod creates a pod on a node whose kubelet says that it is ready.
func (w *world) addPod(name, node string) {
	w.T.Helper()
	w.AddPod(name, node, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Told", Message: "by its kubelet"},
		}
	})
}

func (w *world) podReady(name string) corev1.PodCondition { return w.Pod(name).Status.Conditions[0] }

// reconnects breaks the watch of leases if it hangs. What it kept back comes with a list.
func (w *world) reconnects() {
	if leases := w.API.Watches("leases"); leases.IsHeld() {
		leases.Break()
		time.AfterFunc(time.Second, leases.Repair)
	}
}

// renewals returns how often our own lease was renewed.
func (w *world) renewals() (count int) {
	for _, action := range w.Client.Actions() {
		if action.Matches("patch", "leases") {
			count++
		}
	}
	return count
}

// standsBy starts a Controller in a replica that is not the leader. The returned function makes it the leader.
func (w *world) standsBy() (leads func()) {
	w.T.Helper()
	health, caches := w.health()
	standby := &bubble.Replica{}
	w.Must(nil, caches.AddTo(standby))
	w.Must(nil, health.AddTo(standby))
	return standby.StandsBy(w.T)
}
