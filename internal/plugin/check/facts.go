// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// Facts is the input of rules: the cluster, with its pods by owner, and what its controllers do.
type Facts struct {
	*state.Cluster

	// Workloads are sorted by namespace, kind and name. Pods that have finished or are terminating do not count.
	Workloads []*Workload

	policies             []selection
	who                  *who.Answer
	eviction, nodeHealth task
}

// Workload is an owner and its pods. A pod without a controller is a workload of kind Pod.
type Workload struct {
	Object

	// Replicas is the number of pods. For a template, it is the number that it should create.
	Replicas int
	// Pod is one of them, or a pod from the template.
	Pod *corev1.Pod
	// Lists are the distinct lists of tolerations of its pods. There is only one, except during a rollout.
	Lists []*List
}

// List is a list of tolerations, and the pods that have it. A template has no pods.
type List struct {
	// Written is the list in the pod or the template. Effective is the list that pods have: Kubernetes adds tolerations to
	// those of a template.
	Written, Effective []corev1.Toleration
	Pods               []*corev1.Pod
}

func newFacts(cluster *state.Cluster) *Facts {
	facts := &Facts{Cluster: cluster}
	workloads := map[cliv1alpha1.CheckedObject]*Workload{}
	for _, pod := range cluster.Pods {
		if state.IsOver(pod) {
			continue
		}
		object := cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "Pod", Name: pod.Name}, Namespace: pod.Namespace}
		if owner := cluster.Owner(pod); owner != nil {
			object.Owner = *owner
		}
		if workloads[object] == nil {
			workloads[object] = &Workload{Object: Object{CheckedObject: object}, Pod: pod}
		}
		workloads[object].add(pod)
	}
	facts.Workloads = slices.Collect(maps.Values(workloads))
	for _, template := range cluster.Workloads { // several manifests may have one name
		object := Object{template.CheckedObject, template.Source}
		if workloads[object.CheckedObject] == nil {
			facts.Workloads = append(facts.Workloads, fromTemplate(object, template))
		}
	}
	slices.SortFunc(facts.Workloads, func(a, b *Workload) int { return byName(a.Object, b.Object) })
	facts.who = who.Ask(cluster, cluster.Signs.At)
	facts.eviction = taskOf(who.Eviction, &facts.who.Eviction, facts.who.At)
	facts.nodeHealth = taskOf(who.NodeHealth, &facts.who.NodeHealth, facts.who.At)
	facts.policies = selectionsOf(cluster)
	return facts
}

func (w *Workload) add(pod *corev1.Pod) {
	w.Replicas++
	i := slices.IndexFunc(w.Lists, func(list *List) bool {
		return slices.EqualFunc(list.Written, pod.Spec.Tolerations, equal)
	})
	if i < 0 {
		i = len(w.Lists)
		w.Lists = append(w.Lists, &List{Written: pod.Spec.Tolerations, Effective: pod.Spec.Tolerations})
	}
	w.Lists[i].Pods = append(w.Lists[i].Pods, pod)
}

// fromTemplate creates a workload from a template. Its pods get more tolerations from the admission plugin
// DefaultTolerationSeconds, or from the DaemonSet controller, which drops the seconds of an equal toleration.
func fromTemplate(object Object, template state.WorkloadTemplate) *Workload {
	written := template.Pod.Spec.Tolerations
	effective := slices.Clone(written)
	for _, taint := range []corev1.Taint{notReady, unreachable} {
		added := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if object.Kind == "DaemonSet" {
			same := func(t corev1.Toleration) bool { return t.MatchToleration(&added) }
			effective = append(slices.DeleteFunc(effective, same), added)
			continue
		}
		if added.TolerationSeconds = new(defaultSeconds); !isTolerated(written, taint) {
			effective = append(effective, added)
		}
	}
	return &Workload{
		Object: object, Replicas: template.Replicas, Pod: template.Pod,
		Lists: []*List{{Written: written, Effective: effective}},
	}
}

// names returns the names of pods.
func names(pods []*corev1.Pod) []string {
	all := make([]string, 0, len(pods))
	for _, pod := range pods {
		all = append(all, pod.Name)
	}
	return all
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
func first(tolerations []corev1.Toleration, taint corev1.Taint) (*corev1.Toleration, bool) {
	i, tolerated := state.Rule.Matcher.First(tolerations, &taint)
	if !tolerated {
		return nil, false
	}
	return &tolerations[i], true
}

func isTolerated(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	_, tolerated := first(tolerations, taint)
	return tolerated
}

// leaves reports whether a NoExecute taint makes pods with these tolerations leave, now or later.
func leaves(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	toleration, tolerated := first(tolerations, taint)
	return !tolerated || toleration.TolerationSeconds != nil
}

// equal reports whether two tolerations are the same, literally.
func equal(a, b corev1.Toleration) bool {
	return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect && sameSeconds(a, b)
}

func sameSeconds(a, b corev1.Toleration) bool {
	if a.TolerationSeconds == nil || b.TolerationSeconds == nil {
		return a.TolerationSeconds == b.TolerationSeconds
	}
	return *a.TolerationSeconds == *b.TolerationSeconds
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

// perToleration examines each toleration of each workload, and reports one finding for each workload and toleration.
func (f *Facts) perToleration(look func(list []corev1.Toleration, i int) Finding) []Finding {
	var all []Finding
	for _, workload := range f.Workloads {
		said := map[string]int{}
		for _, list := range workload.Lists {
			for i := range list.Written {
				finding := look(list.Written, i)
				if finding.Message == "" {
					continue
				}
				at, ok := said[finding.Message]
				if !ok {
					at = len(all)
					said[finding.Message] = at
					finding.Object = workload.Object
					all = append(all, finding)
				}
				all[at].Names = append(all[at].Names, names(list.Pods)...)
			}
		}
	}
	return all
}

// source returns the file that contains an object, or else one of its pods or nodes.
func (f *Facts) source(object Object, names []string) string {
	if object.source != "" {
		return object.source
	}
	if source, ok := f.Sources[object.CheckedObject]; ok || len(names) == 0 {
		return source
	}
	part := cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "Pod", Name: names[0]}, Namespace: object.Namespace}
	if object.Kind == "Taint" {
		part.Kind = "Node"
	}
	return f.Sources[part]
}
