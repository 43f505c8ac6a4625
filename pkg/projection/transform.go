// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// PodTransform gives pods of the named schedulers the scheduling group that
// their pod-group label names, as a native client would have written it. An
// API server that does not serve the field drops it on creation, so it is set
// on what the informer has read; a group that a pod already has is left alone.
//
// It also drops managed fields: SetTransform replaces the transform by which
// the engine does so.
func PodTransform(schedulers sets.Set[string]) cache.TransformFunc {
	return func(obj any) (any, error) {
		if accessor, err := meta.Accessor(obj); err == nil {
			accessor.SetManagedFields(nil)
		}
		pod, ok := obj.(*v1.Pod)
		if !ok || pod.Spec.SchedulingGroup != nil || !schedulers.Has(pod.Spec.SchedulerName) {
			return obj, nil
		}
		if name := pod.Labels[v1alpha1.PodGroupLabel]; name != "" {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		}
		return pod, nil
	}
}
