// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// facts is the input of rules: the cluster, with its pods by owner, and what its controllers do.
type facts struct {
	*state.Cluster

	// workloads are sorted by namespace, kind and name. Pods that have finished or are terminating do not count.
	workloads []*workload
	policies  []*selection
	budgets   []*covering
	budgetsOf map[*corev1.Pod][]*covering
	nodes     map[string]*corev1.Node
	keys      []string // of the taints of all nodes

	who   *who.Answer
	tasks [2]task // eviction and node health
}

// workload is an owner and its pods. A pod without a controller is a workload of kind Pod.
type workload struct {
	object

	// replicas is the number of pods. For a template, it is the number that it should create.
	replicas int
	// pod is one of them, or a pod from the template.
	pod *corev1.Pod
	// lists are the distinct lists of tolerations of its pods. There is only one, except during a rollout.
	lists []*list
}

// list is a list of tolerations, and the pods that have it. A template has no pods.
type list struct {
	// written is the list in the pod or the template. effective is the list that pods have: Kubernetes adds tolerations to
	// those of a template.
	written, effective []corev1.Toleration
	pods               []*corev1.Pod
}

func newFacts(cluster *state.Cluster) *facts {
	f := &facts{Cluster: cluster, who: who.Ask(cluster, cluster.Signs.At), nodes: map[string]*corev1.Node{}}
	workloads := map[cliv1alpha1.CheckedObject]*workload{}
	for _, pod := range cluster.Pods {
		if state.IsOver(pod) {
			continue
		}
		object := objectOf("Pod", pod.Namespace, pod.Name)
		if owner := cluster.Owner(pod); owner != nil {
			object.Owner = *owner
		}
		if workloads[object.CheckedObject] == nil {
			workloads[object.CheckedObject] = &workload{object: object, pod: pod}
		}
		workloads[object.CheckedObject].add(pod)
	}
	f.workloads = slices.Collect(maps.Values(workloads))
	for _, template := range cluster.Workloads { // several manifests may have one name
		if workloads[template.CheckedObject] == nil {
			f.workloads = append(f.workloads, fromTemplate(template))
		}
	}
	slices.SortFunc(f.workloads, func(a, b *workload) int { return byName(a.object, b.object) })
	for _, node := range cluster.Nodes {
		f.nodes[node.Name] = node
		for _, taint := range node.Spec.Taints {
			f.keys = append(f.keys, taint.Key)
		}
	}
	f.tasks = [2]task{taskOf(who.Eviction, f.who), taskOf(who.NodeHealth, f.who)}
	f.budgets, f.budgetsOf = coveringOf(cluster)
	f.policies = selectionsOf(cluster)
	return f
}

func (w *workload) add(pod *corev1.Pod) {
	w.replicas++
	i := slices.IndexFunc(w.lists, func(l *list) bool { return slices.EqualFunc(l.written, pod.Spec.Tolerations, equal) })
	if i < 0 {
		i = len(w.lists)
		w.lists = append(w.lists, &list{written: pod.Spec.Tolerations, effective: pod.Spec.Tolerations})
	}
	w.lists[i].pods = append(w.lists[i].pods, pod)
}

// fromTemplate creates a workload from a template. Its pods get more tolerations from the admission plugin
// DefaultTolerationSeconds, or from the DaemonSet controller, which drops the seconds of an equal toleration.
func fromTemplate(template state.WorkloadTemplate) *workload {
	w := &workload{object: object{template.CheckedObject, template.Source}, replicas: template.Replicas, pod: template.Pod}
	written := template.Pod.Spec.Tolerations
	effective := slices.Clone(written)
	for _, taint := range []corev1.Taint{notReady, unreachable} {
		added := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if w.isDaemonSet() {
			same := func(t corev1.Toleration) bool { return t.MatchToleration(&added) }
			effective = append(slices.DeleteFunc(effective, same), added)
		} else if first(written, taint) == nil {
			added.TolerationSeconds = new(defaultSeconds)
			effective = append(effective, added)
		}
	}
	w.lists = []*list{{written: written, effective: effective}}
	return w
}

func (w *workload) isDaemonSet() bool { return w.Kind == "DaemonSet" }

// isTemplate reports whether the workload was read from a file, without its pods.
func (w *workload) isTemplate() bool { return len(w.lists[0].pods) == 0 }

// isReplaced reports whether a controller creates a successor of the workload's pods on another node.
func (w *workload) isReplaced() bool {
	return !slices.Contains([]string{"DaemonSet", "Pod", "Node"}, w.Kind)
}

// systemPriority is the priority, or less than that, of pods that Kubernetes itself considers critical.
const systemPriority = 2_000_000_000

// isCritical reports whether the workload is part of the system, according to its priority.
func (w *workload) isCritical() bool {
	spec := w.pod.Spec
	return strings.HasPrefix(spec.PriorityClassName, "system-") || spec.Priority != nil && *spec.Priority >= systemPriority
}

// parts are the programs of a control plane, as named in labels.
var parts = []string{
	"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "cloud-controller-manager", "taintkeeper",
}

// isControlPlane reports whether the pods of the workload belong to the control plane, and are neither static, as only
// a kubelet can end those, nor of a DaemonSet, which has a rule of its own.
func (w *workload) isControlPlane() bool {
	labels := w.pod.Labels
	return !w.isDaemonSet() && !state.IsStatic(w.pod) && (labels["tier"] == "control-plane" || slices.ContainsFunc(
		[]string{"component", "k8s-app", "app.kubernetes.io/name", "app.kubernetes.io/component"},
		func(label string) bool { return slices.Contains(parts, labels[label]) },
	))
}

// lists returns the lists of tolerations of all workloads.
func (f *facts) lists() iter.Seq2[*workload, *list] {
	return func(yield func(*workload, *list) bool) {
		for _, w := range f.workloads {
			for _, l := range w.lists {
				if !yield(w, l) {
					return
				}
			}
		}
	}
}

// finding is about the pods of a workload that have a list of tolerations.
func (w *workload) finding(l *list, message string, args ...any) finding {
	is := finding{object: w.object, message: fmt.Sprintf(message, args...)}
	for _, pod := range l.pods {
		is.pods = append(is.pods, pod.Name)
	}
	return is
}

// defaultSeconds is how long pods tolerate a failed node by default.
const defaultSeconds int64 = 300

// Taints that nodes commonly get.
var (
	notReady    = noExecute(corev1.TaintNodeNotReady, "")
	unreachable = noExecute(corev1.TaintNodeUnreachable, "")
	// outOfService is set manually to release the pods and volumes of a node that is shut down.
	outOfService = noExecute(corev1.TaintNodeOutOfService, "nodeshutdown")
	// unforeseen stands for all taints that no toleration names, such as one for maintenance.
	unforeseen = noExecute("taintkeeper.dev/unforeseen", "unforeseen")
)

func noExecute(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}
}

// first returns the toleration that counts for a taint, or nil.
func first(tolerations []corev1.Toleration, taint corev1.Taint) *corev1.Toleration {
	i, tolerated := state.Rule.Matcher.First(tolerations, &taint)
	if !tolerated {
		return nil
	}
	return &tolerations[i]
}

// leaves reports whether a NoExecute taint makes pods with these tolerations leave, now or later.
func leaves(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	toleration := first(tolerations, taint)
	return toleration == nil || toleration.TolerationSeconds != nil
}

// equal reports whether two tolerations are the same, literally.
func equal(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect && sameSeconds(a, b)
}

func sameSeconds(a, b corev1.Toleration) bool {
	return ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
}

// literal formats a toleration as in a manifest, so that users can find it there.
func literal(t corev1.Toleration) string {
	var parts []string
	for _, field := range []struct{ name, value string }{
		{"key", t.Key}, {"operator", string(t.Operator)}, {"value", t.Value}, {"effect", string(t.Effect)},
	} {
		if field.value != "" {
			parts = append(parts, field.name+": "+plainly(field.value))
		}
	}
	if t.TolerationSeconds != nil {
		parts = append(parts, fmt.Sprintf("tolerationSeconds: %d", *t.TolerationSeconds))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// plainly formats a word, with quotes only if YAML would otherwise misread it.
func plainly(word string) string {
	if strings.ContainsAny(word, " ,:{}[]\"'\n") {
		quoted, _ := json.Marshal(word)
		return string(quoted)
	}
	return word
}
