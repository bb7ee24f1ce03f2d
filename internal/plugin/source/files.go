// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// stdin replaces "-" in messages.
const stdin = "stdin"

// ReadFiles returns the objects in files. It ignores kinds that it does not need.
func ReadFiles(in io.Reader, files resource.FilenameOptions, wanted Wants) (*state.Cluster, error) {
	builder := resource.NewLocalBuilder().Unstructured().ContinueOnError()
	if i := slices.Index(files.Filenames, "-"); i >= 0 {
		builder = builder.Stream(in, stdin)
		files.Filenames = slices.Delete(slices.Clone(files.Filenames), i, i+1)
	}
	if len(files.Filenames) > 0 {
		builder = builder.FilenameParam(false, &files)
	}
	collected := collector{wants: wanted, cluster: &state.Cluster{
		Controllers: map[types.UID]metav1.OwnerReference{},
		Templates:   map[types.UID]*state.Template{},
		Selectors:   map[types.UID]*metav1.LabelSelector{},
	}, seen: map[types.UID]objectName{}, named: map[objectName]types.UID{}, snapshots: map[string]int{}}
	if err := collected.takeAll(builder.Do()); err != nil {
		return nil, inFiles(err)
	}
	collected.hear()
	return collected.result()
}

// collector sorts objects by kind.
type collector struct {
	wants   Wants
	cluster *state.Cluster
	seen    map[types.UID]objectName
	named   map[objectName]types.UID // nodes and pods
	leases  []*coordinationv1.Lease  // the pods show which of them belong to controllers
	// snapshots are the files with a snapshot whose last line has not been read, with the number of objects so far.
	snapshots map[string]int
	// For check: the files that are no objects, and the objects with tolerations in places that are not known.
	skipped []string
	foreign []string
	read    map[string]bool // the files that were read again for fields that they have twice
}

// decoded is an object from a file, as far as it could be read.
type decoded struct {
	source string
	object runtime.Object
}

// takeAll takes all objects. Reading and sorting take about the same time, so it does both in parallel, in the order of
// the files.
func (c *collector) takeAll(files *resource.Result) error {
	objects := make(chan decoded, 64)
	var group errgroup.Group
	group.Go(func() error {
		defer close(objects)
		return files.Visit(func(info *resource.Info, err error) error {
			if err == nil {
				objects <- decoded{info.Source, info.Object}
			}
			return err
		})
	})
	var failed []error
	for next := range objects {
		if err := errors.Join(c.follow(next), c.take(next)); err != nil {
			failed = append(failed, err)
		}
	}
	unread := group.Wait()
	if c.wants.Templates {
		unread = c.skip(unread)
	}
	failed = append(failed, c.unended()...)
	return utilerrors.Flatten(utilerrors.NewAggregate(append([]error{unread}, failed...)))
}

// take takes an object, or all objects in a list. A list can contain lists.
func (c *collector) take(next decoded) error {
	if list, ok := next.object.(runtime.Unstructured); ok && list.IsList() {
		var failed []error
		err := list.EachListItem(func(item runtime.Object) error {
			if err := c.take(decoded{next.source, item}); err != nil {
				failed = append(failed, err)
			}
			return nil
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: contains a list without items: %w", next.source, err))
		}
		return utilerrors.NewAggregate(failed)
	}
	object, ok := next.object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%s: contains %T, which is not an object", next.source, next.object)
	}
	c.trace(next.source, object)
	if err := c.add(next.source, object); err != nil {
		return fmt.Errorf("%s: %s %s: %w", next.source, object.GetKind(), object.GetName(), err)
	}
	return nil
}

// add takes one object. An object that is in two files counts once.
func (c *collector) add(source string, object *unstructured.Unstructured) error {
	if known, err := c.knows(object); known || err != nil {
		return err
	}
	if err := c.addTemplate(object); err != nil {
		return err
	}
	if err := c.addKept(object); err != nil {
		return err
	}
	switch object.GroupVersionKind().GroupKind() {
	case reportKind:
		return c.addReport(object)
	case leaseKind, evictionClockKind, eventKind, holderKind:
		return c.addSign(object)
	case state.Jobs.GroupKind(), schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		if c.addOwner(object) {
			return nil
		}
	}
	if c.wants.Templates {
		c.addManifest(source, object)
	}
	return nil
}

// addOwner records the controller of a pod's owner, and reports whether there is one.
func (c *collector) addOwner(object *unstructured.Unstructured) (controlled bool) {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller != nil {
		c.cluster.Controllers[object.GetUID()] = *controller
	}
	return controller != nil
}

// addTemplate records the pod template of a workload, which explains where tolerations come from. Snapshots contain
// none.
func (c *collector) addTemplate(object *unstructured.Unstructured) error {
	kind, ok := Workloads[object.GroupVersionKind().GroupKind()]
	if !ok || c.wants.Templates {
		return nil
	}
	if _, ok, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template"); !ok {
		return nil
	}
	if err := checkSeconds(object, kind.In("spec")...); err != nil {
		return fmt.Errorf("its pod template cannot be read: %w", err)
	}
	template, err := state.TemplateOf(object)
	if err != nil {
		return err
	}
	c.cluster.Templates[object.GetUID()] = template
	return c.addSelector(object)
}

// addSelector records the selector of a workload, for the scheduler. A ReplicationController has only labels.
func (c *collector) addSelector(object *unstructured.Unstructured) error {
	held, found, err := unstructured.NestedMap(object.Object, "spec", "selector")
	if err != nil {
		return fmt.Errorf("its selector cannot be read: %w", err)
	}
	if !found || object.GetUID() == "" {
		return nil
	}
	if object.GetKind() == "ReplicationController" {
		held = map[string]any{"matchLabels": held}
	}
	selector := &metav1.LabelSelector{}
	if err := convert(held, selector); err != nil {
		return fmt.Errorf("its selector cannot be read: %w", err)
	}
	c.cluster.Selectors[object.GetUID()] = selector
	return nil
}

// addKept checks and converts an object of a kind that is kept, and adds it to the cluster.
func (c *collector) addKept(object *unstructured.Unstructured) error {
	kind := state.KindOf(object.GroupVersionKind().GroupKind())
	if kind == nil || kind == state.StatefulSets && c.wants.Templates { // check reads only its template
		return nil
	}
	if check := checks[kind]; check != nil {
		if err := check(object); err != nil {
			return err
		}
	}
	typed := kind.New()
	if err := convert(object.Object, typed); err != nil {
		return err
	}
	if node, ok := typed.(*corev1.Node); ok {
		c.cluster.Nodes = append(c.cluster.Nodes, c.wants.slimNode(node))
		return checkTaints(node.Spec.Taints)
	}
	kind.Add(c.cluster, typed)
	return nil
}

func (c *collector) result() (*state.Cluster, error) {
	switch {
	case len(c.cluster.Nodes) > 0:
	case c.wants.Templates && len(c.cluster.Pods)+len(c.cluster.Workloads)+
		len(c.cluster.Flaws)+len(c.cluster.Policies) == 0:
		return nil, errors.New(strings.Join(append([]string{"the files contain no nodes and no workloads: name manifests, or the output of 'kubectl taintkeeper snapshot'"}, c.unchecked()...), "\n"))
	case !c.wants.Templates:
		return nil, errors.New("the files contain no nodes: write them with 'kubectl get nodes,pods,pdb,replicasets -A -o yaml', or with 'kubectl taintkeeper snapshot'")
	}
	if len(c.cluster.Nodes)+len(c.cluster.Pods) == 0 {
		c.note(true, "The files are manifests, without nodes and pods, so it was not checked who evicts.")
	} else {
		c.note(len(c.cluster.Nodes) == 0, "The files contain no nodes.")
		c.note(len(c.cluster.Pods) == 0, "The files contain no pods.")
		c.note(c.wants.Budgets && len(c.cluster.Budgets) == 0, "The files contain no PodDisruptionBudgets.")
	}
	c.notePolicies()
	c.noteStrangers()
	for _, sentence := range c.unchecked() {
		c.note(true, sentence)
	}
	c.cluster.KeepUsedImages()
	return c.cluster, nil
}

func (c *collector) note(is bool, sentence string) {
	if is {
		c.cluster.Unknown = append(c.cluster.Unknown, state.Unknown{Says: sentence})
	}
}

// notePolicies notes what files do not show about EvictionPolicies.
func (c *collector) notePolicies() {
	if !c.wants.Policies || len(c.cluster.Policies) == 0 {
		return
	}
	c.note(selectNamespaces(c.cluster.Policies) && len(c.cluster.Namespaces) == 0,
		"The files contain no Namespaces, so "+unknownNamespaces+".")
	c.note(!c.wants.Budgets && len(c.cluster.Budgets) == 0, "The files contain no PodDisruptionBudgets.")
	c.note(c.wants.Signs && !c.cluster.Signs.HoldersKnown && holdWhenDown(c.cluster.Policies),
		"The files contain no ValidatingAdmissionPolicies, so it is not known whether ifDown: Hold has an effect.")
}

// noteStrangers notes how many pods have nodes that are not in the files.
func (c *collector) noteStrangers() {
	known := map[string]bool{"": true}
	for _, node := range c.cluster.Nodes {
		known[node.Name] = true
	}
	strangers := 0
	for _, pod := range c.cluster.Pods {
		if !known[pod.Spec.NodeName] {
			strangers++
		}
	}
	c.note(strangers > 0, fmt.Sprintf("Pods whose nodes are not in the files: %d.", strangers))
}

// The first line of a snapshot, and the last.
var (
	snapshotKind    = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "Snapshot"}
	snapshotEndKind = schema.GroupKind{Group: cliv1alpha1.GroupVersion.Group, Kind: "SnapshotEnd"}
)

// follow counts the lines of a snapshot, and rejects an incomplete one.
func (c *collector) follow(next decoded) error {
	objects, begun := c.snapshots[next.source]
	object, _ := next.object.(*unstructured.Unstructured)
	switch next.object.GetObjectKind().GroupVersionKind().GroupKind() {
	case snapshotKind:
		if begun {
			return cutOff(next.source, objects)
		}
		line := &cliv1alpha1.Snapshot{}
		if err := convert(object.Object, line); err != nil {
			return fmt.Errorf("%s: %w", next.source, err)
		}
		if line.At.After(c.cluster.At) {
			c.cluster.At = line.At.Time
		}
		c.snapshots[next.source] = 0
		c.learn(line)
	case snapshotEndKind:
		line := &cliv1alpha1.SnapshotEnd{}
		if err := convert(object.Object, line); err != nil {
			return fmt.Errorf("%s: %w", next.source, err)
		}
		delete(c.snapshots, next.source)
		switch {
		case !begun:
			return fmt.Errorf("%s: the snapshot has no first line: it is incomplete; take it again", next.source)
		case objects != line.Objects:
			return fmt.Errorf("%s: the snapshot contains %d of %d objects: it is damaged; take it again",
				next.source, objects, line.Objects)
		}
	default:
		if begun {
			c.snapshots[next.source]++
		}
	}
	return nil
}

// learn finds out from the first line of a snapshot which kinds it contains.
func (c *collector) learn(line *cliv1alpha1.Snapshot) {
	read := func(kind string) bool { return !slices.Contains(line.Unread, kind) }
	signs := &c.cluster.Signs
	signs.LeasesKnown = signs.LeasesKnown || read("leases")
	signs.EvictionClocksKnown = signs.EvictionClocksKnown || read("serviceaccounts")
	for _, resource := range []string{state.Budgets.Resource, state.Policies.Resource} {
		if read(resource) {
			continue
		}
		unknown := state.Unknown{Resource: resource}
		if resource == state.Policies.Resource && c.wants.Policies {
			unknown.Says = "EvictionPolicies could not be read when the snapshot was taken, so they are not taken into account."
		}
		c.cluster.Unknown = append(c.cluster.Unknown, unknown)
	}
}

// UnreadOf returns the kinds that are missing from a snapshot of a cluster because they could not be read.
func UnreadOf(cluster *state.Cluster) (unread []string) {
	for _, kind := range []struct {
		name  string
		known bool
	}{
		{"leases", cluster.Signs.LeasesKnown},
		{"serviceaccounts", cluster.Signs.EvictionClocksKnown},
		{state.Budgets.Resource, cluster.Knows(state.Budgets.Resource)},
		{state.Policies.Resource, cluster.Knows(state.Policies.Resource)},
	} {
		if !kind.known {
			unread = append(unread, kind.name)
		}
	}
	return unread
}

// unended returns an error for each snapshot without a last line.
func (c *collector) unended() (all []error) {
	for _, source := range slices.Sorted(maps.Keys(c.snapshots)) {
		all = append(all, cutOff(source, c.snapshots[source]))
	}
	return all
}

func cutOff(source string, objects int) error {
	return fmt.Errorf("%s: the snapshot has no last line (objects read: %d): it is incomplete; take it again",
		source, objects)
}

// Kinds that show something about controllers.
var (
	leaseKind         = schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}
	evictionClockKind = schema.GroupKind{Kind: "ServiceAccount"}
	reportKind        = schema.GroupKind{Kind: "ConfigMap"}
	eventKind         = schema.GroupKind{Kind: "Event"}
	// holderKind is the admission policy that an EvictionPolicy with ifDown: Hold needs.
	holderKind = schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingAdmissionPolicy"}
)

// addSign takes an object that shows something about controllers. The newest renewal shows when the files were written.
func (c *collector) addSign(object *unstructured.Unstructured) error {
	signs := &c.cluster.Signs
	switch object.GroupVersionKind().GroupKind() {
	case leaseKind:
		lease := &coordinationv1.Lease{}
		if err := convert(object.Object, lease); err != nil {
			return err
		}
		if lease.Spec.RenewTime != nil {
			signs.Heard(lease.Spec.RenewTime.Time)
		}
		c.leases = append(c.leases, lease)
		c.cluster.AddRenewal(lease)
	case evictionClockKind:
		account := &corev1.ServiceAccount{}
		if err := convert(object.Object, account); err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.EvictionClockAnnotation])
		if err == nil && account.Name == v1alpha1.EvictionClock {
			signs.Heard(at)
		}
		signs.AddEvictionClock(account)
		signs.EvictionClocksKnown = true
	case eventKind:
		event := &corev1.Event{}
		if err := convert(object.Object, event); err != nil {
			return err
		}
		signs.AddEvent(event)
		signs.AddFailure(event)
		signs.FailuresKnown = true
	case holderKind:
		holder := &admissionv1.ValidatingAdmissionPolicy{}
		if err := convert(object.Object, holder); err != nil {
			return err
		}
		signs.AddHolder(holder)
		signs.HoldersKnown = true
	}
	return nil
}

// addReport takes the report of shadow mode. Other ConfigMaps are not read.
func (c *collector) addReport(object *unstructured.Unstructured) error {
	configMap := &corev1.ConfigMap{}
	if err := convert(object.Object, configMap); err != nil {
		return err
	}
	err := c.cluster.Signs.AddShadow(configMap)
	if report := c.cluster.Signs.Shadow; report != nil {
		c.cluster.Signs.Heard(report.Time.Time)
	}
	return err
}

// hear finds out from nodes and events when the files were written at the earliest.
func (c *collector) hear() {
	signs := &c.cluster.Signs
	reads := who.Reads(c.cluster)
	for _, lease := range c.leases {
		signs.LeasesKnown = signs.LeasesKnown || lease.Namespace != corev1.NamespaceNodeLease // others are about nodes
		if reads(lease) {
			signs.AddLease(lease)
		}
	}
	for i := range signs.Past {
		signs.Heard(signs.Past[i].At.Time)
	}
	for _, node := range c.cluster.Nodes {
		for i := range node.Status.Conditions {
			signs.Heard(node.Status.Conditions[i].LastHeartbeatTime.Time)
		}
		for _, entry := range node.ManagedFields {
			if entry.Time != nil {
				signs.Heard(entry.Time.Time)
			}
		}
	}
	signs.Heard(c.cluster.At)
	if !c.wants.Templates || len(c.cluster.Nodes) == 0 {
		return
	}
	c.note(!signs.LeasesKnown, "The files contain no Leases: add the output of 'kubectl get leases,serviceaccounts,events -A -o yaml', which shows who evicts.")
	c.note(signs.LeasesKnown, "The files show controllers as of "+sentence.Absolute(signs.At)+".")
}
