// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// newSnapshot returns the command snapshot.
func newSnapshot(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	from := source.New(env, config)
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Print a snapshot of the cluster, for plans without the cluster",
		Long: `Write the state of the cluster to stdout, one JSON object per line. The first line says when the cluster was read.
Commands with -f answer as of that time unless --at names another. They refuse an incomplete snapshot, which lacks its
last line.

A snapshot contains the following about nodes, pods, namespaces, PersistentVolumes, PersistentVolumeClaims,
StorageClasses, CSINodes, VolumeAttachments and PodDisruptionBudgets:
- names, UIDs, labels, owners, finalizers and times
- taints, tolerations, and who last wrote the taints and conditions of a node
- what the scheduler reads: node selectors, affinity, spread constraints, priorities, requests, limits, host ports,
  resource claims, capacities, and volumes with their IDs
- whether a pod has emptyDir volumes
- conditions with their messages
- the sizes of images, with hashes of their names
- these annotations: ` + strings.Join(state.SchedulingAnnotations, ",\n  ") + `
- the status and the selectors of PodDisruptionBudgets

It also contains:
- EvictionPolicies with their reasons for pauses, and the ValidatingAdmissionPolicy that they need
- when the Leases of nodes were renewed, and the Leases of Taintkeeper and kube-controller-manager, with their holders
  and what Taintkeeper's leader says there about itself
- the annotations of Taintkeeper's eviction clock, which is a ServiceAccount
- the controllers of ReplicaSets and Jobs, and for unfinished Jobs the pod failure policy, the pod replacement policy,
  and how many pods have failed and may fail
- whether StatefulSets create their pods in order, and the limits of ResourceQuotas
- the selectors of Services
- the flags of kube-controller-manager that say which controllers run, and which Lease elects its leader

It contains no environment variables, image names, Secrets or ConfigMaps. It contains no other flags, and no
other annotations except the one that marks static pods.`,
		Example: `  kubectl taintkeeper snapshot > cluster.json
  kubectl taintkeeper plan -f cluster.json worker-1 maintenance=now:NoExecute`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := firstError(func() error { return noNamespace(config) }, from.Validate)
			if err != nil {
				return err
			}
			return writeSnapshot(cmd.Context(), &from)
		},
	}
	from.AddFlags(cmd)
	return cmd
}

// writeSnapshot reads the cluster and prints its objects, each as a line, between the first and the last line of a
// snapshot.
func writeSnapshot(ctx context.Context, from *source.Source) error {
	cluster, err := from.Read(ctx, source.Wants{
		Policies: true, Budgets: true, Successors: true, Scheduling: true, Renewals: true, Signs: true,
	})
	if err != nil {
		return err
	}
	for _, sentence := range cluster.Notes() {
		fmt.Fprintln(from.Env.ErrOut, "Note:", show.Printable(sentence))
	}
	objects, err := objectsOf(cluster)
	if err != nil {
		return err
	}
	lines := []any{&cliv1alpha1.Snapshot{
		TypeMeta: cliv1alpha1.Type("Snapshot"), At: metav1.NewMicroTime(from.Now(cluster)), Unread: source.UnreadOf(cluster),
	}}
	for _, object := range objects {
		lines = append(lines, object)
	}
	lines = append(lines, &cliv1alpha1.SnapshotEnd{TypeMeta: cliv1alpha1.Type("SnapshotEnd"), Objects: len(objects)})
	out := bufio.NewWriter(from.Env.Out)
	encoder := json.NewEncoder(out)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return fmt.Errorf("write the snapshot: %w", err)
		}
	}
	return out.Flush()
}

// objectsOf returns all objects of a cluster, with their kinds.
func objectsOf(cluster *state.Cluster) (all []runtime.Object, err error) {
	for _, kind := range state.Kinds {
		objects := kind.Objects(cluster)
		switch kind {
		case state.StatefulSets:
			all = append(all, signsOf(cluster)...)
			objects, err = withoutTemplates(objects)
		case state.Jobs:
			objects, err = withoutTemplates(objects)
			objects = append(objects, ownersOf(cluster)...)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// signsOf returns what shows who evicts, and when kubelets last renewed the Leases of their nodes.
func signsOf(cluster *state.Cluster) (all []runtime.Object) {
	leases := slices.Clone(cluster.Signs.Leases)
	for _, node := range slices.Sorted(maps.Keys(cluster.Renewed)) {
		leases = append(leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
			Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(cluster.Renewed[node]))},
		})
	}
	all = appendOf(all, "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", cluster.Signs.Holders)
	all = appendOf(all, "coordination.k8s.io/v1", "Lease", leases)
	return appendOf(all, "v1", "ServiceAccount", cluster.Signs.EvictionClocks)
}

// ownersOf returns all that ReplicaSets, and Jobs that are over, say: who controls them.
func ownersOf(cluster *state.Cluster) (all []runtime.Object) {
	running := map[types.UID]bool{}
	for _, job := range cluster.Jobs {
		running[job.UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(cluster.Controllers)) {
		if running[uid] {
			continue
		}
		controller := cluster.Controllers[uid]
		object := &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{UID: uid, OwnerReferences: []metav1.OwnerReference{controller}},
		}
		if controller.Kind == "CronJob" {
			all = append(all, show.WithKind(object, "batch/v1", "Job"))
		} else {
			all = append(all, show.WithKind(object, "apps/v1", "ReplicaSet"))
		}
	}
	return all
}

func appendOf[P runtime.Object](all []runtime.Object, apiVersion, kind string, objects []P) []runtime.Object {
	for _, object := range objects {
		all = append(all, show.WithKind(object, apiVersion, kind))
	}
	return all
}

// withoutTemplates returns workloads without the template and the selector that their types require.
func withoutTemplates(objects []runtime.Object) (all []runtime.Object, err error) {
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("write %T: %w", object, err)
		}
		for _, required := range []string{"template", "selector", "serviceName", "updateStrategy"} {
			unstructured.RemoveNestedField(fields, "spec", required)
		}
		all = append(all, &unstructured.Unstructured{Object: fields})
	}
	return all, nil
}
