// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

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
