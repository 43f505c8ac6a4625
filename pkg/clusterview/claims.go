// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Volumes is where claims and what they are bound to are looked up. Pods whose
// claims differ in their names alone are of one shape: a role of a hundred pods
// with a claim each is one role, and not a hundred. Nil looks nothing up, and each
// claim is then unlike any other.
type Volumes struct {
	Claims  corev1listers.PersistentVolumeClaimLister
	Volumes corev1listers.PersistentVolumeLister
}

// claimShape is what the filter plugins read of a claim.
type claimShape struct {
	// Name is set where the claim is unlike others: it may be used by one pod
	// only, or it or its volume is not there (any more).
	Name     string
	Class    string
	Modes    []v1.PersistentVolumeAccessMode
	Mode     *v1.PersistentVolumeMode
	Size     string
	Selector *metav1.LabelSelector
	Node     string // that was selected for it
	Bound    bool
	// of the volume that it is bound to:
	Affinity *v1.VolumeNodeAffinity
	Zones    map[string]string
	Driver   string
}

func (v *Volumes) shapeOf(namespace, name string) claimShape {
	if v == nil {
		return claimShape{Name: name}
	}
	claim, err := v.Claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || claim.DeletionTimestamp != nil || claim.Status.Phase == v1.ClaimLost {
		return claimShape{Name: name}
	}
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	s := claimShape{
		Class: storagehelpers.GetPersistentVolumeClaimClass(claim), Modes: claim.Spec.AccessModes, Mode: claim.Spec.VolumeMode,
		Size: size.String(), Selector: claim.Spec.Selector, Node: claim.Annotations[storagehelpers.AnnSelectedNode],
	}
	if slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod) {
		s.Name = name
	}
	if claim.Spec.VolumeName == "" {
		return s
	}
	volume, err := v.Volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return claimShape{Name: name}
	}
	s.Bound, s.Affinity, s.Zones = true, volume.Spec.NodeAffinity, map[string]string{}
	for _, label := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion} {
		if zone, ok := volume.Labels[label]; ok {
			s.Zones[label] = zone
		}
	}
	if volume.Spec.CSI != nil {
		s.Driver = volume.Spec.CSI.Driver
	}
	return s
}
