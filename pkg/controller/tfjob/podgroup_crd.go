// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/informers/externalversions"
)

// CRDPodGroups are those of scheduling.x-k8s.io, which training-operator makes too. Schedulers know the members by their label.
var CRDPodGroups = &PodGroupKind{
	write: func(g gang) podGroup {
		return &schedulingv1alpha1.PodGroup{
			ObjectMeta: g.ObjectMeta,
			Spec: schedulingv1alpha1.PodGroupSpec{
				MinMember:              g.minMember,
				MinResources:           g.minResources,
				ScheduleTimeoutSeconds: g.scheduleTimeoutSeconds,
			},
		}
	},
	change: func(is, want podGroup) []operation {
		wanted := want.(*schedulingv1alpha1.PodGroup).Spec
		if equality.Semantic.DeepEqual(is.(*schedulingv1alpha1.PodGroup).Spec, wanted) {
			return nil
		}
		return []operation{{"add", "/spec", wanted}}
	},
	join: func(*corev1.Pod, string) {},
	client: func(clients Clients, namespace string) groupClient {
		return typedGroups[*schedulingv1alpha1.PodGroup]{clients.PodGroups.SchedulingV1alpha1().PodGroups(namespace)}
	},
	watch: func(clients Clients, namespace string, own func(*metav1.ListOptions)) (factory, cache.SharedIndexInformer) {
		groups := podgroups.NewSharedInformerFactoryWithOptions(clients.PodGroups, 0,
			podgroups.WithNamespace(namespace), podgroups.WithTweakListOptions(own), podgroups.WithTransform(withoutManagedFields))
		return groups, groups.Scheduling().V1alpha1().PodGroups().Informer()
	},
}
