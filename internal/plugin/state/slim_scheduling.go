// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// SchedulingAnnotations are the annotations that are read by the scheduler, by the code that binds volumes for it, and
// by the API server when it adds tolerations. Snapshots contain no others, except the mark of a static pod and
// Taintkeeper's own.
var SchedulingAnnotations = []string{
	corev1.BetaStorageClassAnnotation,
	corev1.MigratedPluginsAnnotationKey,
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/migrated-to",
	"volume.kubernetes.io/selected-node",
	// On namespaces, for the admission plugin PodTolerationRestriction.
	"scheduler.alpha.kubernetes.io/defaultTolerations",
	"scheduler.alpha.kubernetes.io/tolerationsWhitelist",
}

// slimAnnotated is slimMeta with the annotations that scheduling reads.
func slimAnnotated(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	slim := slimMeta(meta)
	for _, key := range SchedulingAnnotations {
		if value, ok := meta.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&slim, key, value)
		}
	}
	return slim
}

// SlimNamespace returns the parts of a namespace that a plan needs: pod affinity selects namespaces by label, and
// tolerations may come from annotations.
func SlimNamespace(namespace *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: slimAnnotated(&namespace.ObjectMeta),
	}
}

// SlimService returns the parts of a Service that the scheduler reads: which pods it spreads by default.
func SlimService(service *corev1.Service) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: service.UID},
		Spec:       corev1.ServiceSpec{Selector: service.Spec.Selector},
	}
}

// KeepJob keeps what shows whether a Job creates successors of pods that leave, if it still runs.
func (c *Cluster) KeepJob(job *batchv1.Job) {
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		over := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if over && condition.Status == corev1.ConditionTrue {
			return
		}
	}
	c.Jobs = append(c.Jobs, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: job.Name, UID: job.UID, OwnerReferences: job.OwnerReferences,
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: job.Spec.BackoffLimit, PodFailurePolicy: job.Spec.PodFailurePolicy,
			PodReplacementPolicy: job.Spec.PodReplacementPolicy,
		},
		Status: batchv1.JobStatus{Failed: job.Status.Failed},
	})
}

// SlimPolicy returns the parts of an EvictionPolicy that a plan needs.
func SlimPolicy(object *v1alpha1.EvictionPolicy) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy"},
		ObjectMeta: slimMeta(&object.ObjectMeta),
		Spec:       object.Spec,
		Status:     object.Status,
	}
}

// SlimBudget returns the parts of a PodDisruptionBudget that a plan needs.
func SlimBudget(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	meta := slimMeta(&budget.ObjectMeta)
	meta.Generation = budget.Generation // shows whether the status is out of date
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta,
		Spec:       budget.Spec,
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Status.ObservedGeneration, DisruptionsAllowed: budget.Status.DisruptionsAllowed,
			CurrentHealthy: budget.Status.CurrentHealthy, DesiredHealthy: budget.Status.DesiredHealthy,
			ExpectedPods: budget.Status.ExpectedPods,
		},
	}
}

// SlimClaim returns the parts of a PersistentVolumeClaim that the scheduler reads.
func SlimClaim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: slimAnnotated(&claim.ObjectMeta),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: claim.Spec.AccessModes, Selector: claim.Spec.Selector, Resources: claim.Spec.Resources,
			VolumeName: claim.Spec.VolumeName, StorageClassName: claim.Spec.StorageClassName, VolumeMode: claim.Spec.VolumeMode,
			VolumeAttributesClassName: claim.Spec.VolumeAttributesClassName,
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase},
	}
}

// SlimVolume returns the parts of a PersistentVolume that the scheduler reads: where it can be used and how it is
// counted, but not how to access it.
func SlimVolume(volume *corev1.PersistentVolume) *corev1.PersistentVolume {
	slim := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: slimAnnotated(&volume.ObjectMeta),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: volume.Spec.Capacity, AccessModes: volume.Spec.AccessModes,
			VolumeMode: volume.Spec.VolumeMode, NodeAffinity: volume.Spec.NodeAffinity,
			StorageClassName:          volume.Spec.StorageClassName,
			VolumeAttributesClassName: volume.Spec.VolumeAttributesClassName,
		},
		Status: corev1.PersistentVolumeStatus{Phase: volume.Status.Phase},
	}
	if claim := volume.Spec.ClaimRef; claim != nil {
		slim.Spec.ClaimRef = &corev1.ObjectReference{
			APIVersion: claim.APIVersion, Kind: claim.Kind,
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		}
	}
	switch source := &volume.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		slim.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: source.CSI.Driver, VolumeHandle: source.CSI.VolumeHandle}
	case source.AWSElasticBlockStore != nil:
		slim.Spec.AWSElasticBlockStore = source.AWSElasticBlockStore
	case source.GCEPersistentDisk != nil:
		slim.Spec.GCEPersistentDisk = source.GCEPersistentDisk
	case source.AzureDisk != nil:
		slim.Spec.AzureDisk = source.AzureDisk
	}
	return slim
}

// SlimStorageClass returns the parts of a StorageClass that the scheduler reads.
func SlimStorageClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta:          metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:        slimMeta(&class.ObjectMeta),
		Provisioner:       class.Provisioner,
		VolumeBindingMode: class.VolumeBindingMode,
		AllowedTopologies: class.AllowedTopologies,
	}
}

// SlimCSINode returns the parts of a CSINode that the scheduler reads.
func SlimCSINode(node *storagev1.CSINode) *storagev1.CSINode {
	slim := &storagev1.CSINode{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"},
		ObjectMeta: slimAnnotated(&node.ObjectMeta),
	}
	for _, driver := range node.Spec.Drivers {
		slim.Spec.Drivers = append(slim.Spec.Drivers, storagev1.CSINodeDriver{
			Name: driver.Name, NodeID: driver.NodeID, TopologyKeys: driver.TopologyKeys, Allocatable: driver.Allocatable,
		})
	}
	return slim
}
