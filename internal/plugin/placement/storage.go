// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/storage/volume"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// storage finds claims and volumes by name.
type storage struct {
	claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
}

func storageOf(cluster *state.Cluster) storage {
	s := storage{
		claims:  map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{},
	}
	for _, claim := range cluster.Claims {
		s.claims[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
	}
	for _, volume := range cluster.Volumes {
		s.volumes[volume.Name] = volume
	}
	return s
}

// has reports whether a claim is known, and returns the volume that it is bound to.
func (s storage) has(namespace, name string) bool {
	claim := s.claims[types.NamespacedName{Namespace: namespace, Name: name}]
	return claim != nil && (claim.Spec.VolumeName == "" || s.volumes[claim.Spec.VolumeName] != nil)
}

// knownOf returns the volumes of a pod that are known before it is created.
func (s storage) knownOf(pod *corev1.Pod) []corev1.Volume {
	return slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(volume corev1.Volume) bool {
		switch {
		case volume.Ephemeral != nil:
			return true // its claim is created with the pod
		case volume.PersistentVolumeClaim != nil:
			return !s.has(pod.Namespace, volume.PersistentVolumeClaim.ClaimName)
		}
		return false
	})
}

// boundTo returns the volumes that a pod's claims are bound to.
func (s storage) boundTo(pod *corev1.Pod) []*corev1.PersistentVolume {
	var all []*corev1.PersistentVolume
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim := s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: source.ClaimName}]
		if claim != nil && s.volumes[claim.Spec.VolumeName] != nil {
			all = append(all, s.volumes[claim.Spec.VolumeName])
		}
	}
	return all
}

// warnings says which volumes tie a pod to its node, and which to a zone where no node takes it.
func (s storage) warnings(pod *corev1.Pod, nodes []*corev1.Node, said *answer) []cliv1alpha1.PlacementWarning {
	var all []cliv1alpha1.PlacementWarning
	for _, bound := range s.boundTo(pod) {
		reachable := reachableFrom(bound, nodes)
		if len(reachable) == len(nodes) {
			continue
		}
		if message := volumeMessage(bound, reachable, len(said.fits) == 0); message != "" {
			all = append(all, cliv1alpha1.PlacementWarning{Type: cliv1alpha1.WarningVolume, Message: message})
		}
	}
	return all
}

// NameOf names a volume, and the claim that is bound to it.
func NameOf(volume *corev1.PersistentVolume) string {
	if ref := volume.Spec.ClaimRef; ref != nil {
		return fmt.Sprintf("%s (claim %s/%s)", volume.Name, ref.Namespace, ref.Name)
	}
	return volume.Name
}

func volumeMessage(bound *corev1.PersistentVolume, reachable []*corev1.Node, nowhere bool) string {
	zones := map[string]bool{}
	for _, node := range reachable {
		zones[node.Labels[corev1.LabelTopologyZone]] = true
	}
	switch {
	case len(reachable) == 0:
		return fmt.Sprintf("No node can reach volume %s.", NameOf(bound))
	case len(reachable) == 1:
		return fmt.Sprintf("Volume %s can be reached only from node %s.", NameOf(bound), reachable[0].Name)
	case nowhere && len(zones) == 1 && !zones[""]:
		return fmt.Sprintf("Volume %s is bound to zone %s, where no node takes the pod.",
			NameOf(bound), slices.Collect(maps.Keys(zones))[0])
	}
	return ""
}

// reachableFrom returns the nodes that can use a volume, according to its node affinity and its zone label.
func reachableFrom(bound *corev1.PersistentVolume, nodes []*corev1.Node) []*corev1.Node {
	var all []*corev1.Node
	for _, node := range nodes {
		if volume.CheckNodeAffinity(bound, node.Labels) == nil && inZoneOf(bound, node) {
			all = append(all, node)
		}
	}
	return all
}

func inZoneOf(bound *corev1.PersistentVolume, node *corev1.Node) bool {
	zone, ok := bound.Labels[corev1.LabelTopologyZone]
	return !ok || zone == node.Labels[corev1.LabelTopologyZone]
}

// Exclusive finds the volumes of pods that only one node at a time can use.
type Exclusive struct {
	storage storage
	known   bool             // all VolumeAttachments are
	by      sets.Set[string] // what attaches volumes in the cluster
	// On is the node that a volume is attached to, by the name of the volume. It has only what VolumeAttachments say.
	On map[string]string
}

// ExclusiveOf returns the volumes of a cluster that only one node at a time can use.
func ExclusiveOf(cluster *state.Cluster) Exclusive {
	e := Exclusive{
		storage: storageOf(cluster), known: cluster.KnowsAttachments(), by: sets.New[string](), On: map[string]string{},
	}
	for _, one := range cluster.Attachments {
		e.by.Insert(one.Spec.Attacher)
		if volume := one.Spec.Source.PersistentVolumeName; volume != nil {
			e.On[*volume] = one.Spec.NodeName
		}
	}
	return e
}

// Known reports whether On has all volumes that are attached.
func (e Exclusive) Known() bool { return e.known }

// Of returns the volumes that a pod needs and only one node at a time can use.
func (e Exclusive) Of(pod *corev1.Pod) []*corev1.PersistentVolume {
	return slices.DeleteFunc(e.storage.boundTo(pod), func(volume *corev1.PersistentVolume) bool {
		return !e.isAttached(volume) || mayBeShared(volume)
	})
}

// isAttached reports whether the attach-detach controller attaches a volume. Not all CSI drivers need that; one that
// does has VolumeAttachments.
func (e Exclusive) isAttached(volume *corev1.PersistentVolume) bool {
	spec := &volume.Spec
	switch _, is := e.On[volume.Name]; {
	case is:
		return true
	case e.known:
		return spec.CSI != nil && e.by.Has(spec.CSI.Driver)
	}
	return spec.CSI != nil || spec.AWSElasticBlockStore != nil || spec.GCEPersistentDisk != nil || spec.AzureDisk != nil
}

// mayBeShared reports whether several nodes can use a volume, as far as its access modes say (IsMultiAttachAllowed in
// pkg/volume/util).
func mayBeShared(volume *corev1.PersistentVolume) bool {
	return len(volume.Spec.AccessModes) == 0 ||
		slices.Contains(volume.Spec.AccessModes, corev1.ReadWriteMany) ||
		slices.Contains(volume.Spec.AccessModes, corev1.ReadOnlyMany)
}
