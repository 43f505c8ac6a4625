// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// NativePodGroups are those of scheduling.k8s.io/v1beta1, which Kubernetes 1.37 serves where its feature GenericWorkload is on. Schedulers
// know the members by their field schedulingGroup. There is no place in them for minResources; the schedule timeout is an annotation.
var NativePodGroups = &PodGroupKind{
	write: func(g gang) podGroup {
		if timeout := ptr.Deref(g.scheduleTimeoutSeconds, 0); timeout > 0 {
			g.Annotations = merged(g.Annotations, map[string]string{tutti.ScheduleTimeoutAnnotation: strconv.Itoa(int(timeout))})
		}
		return &schedulingv1beta1.PodGroup{
			ObjectMeta: g.ObjectMeta,
			Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
					Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: g.minMember},
				},
				DisruptionMode:    &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
				PriorityClassName: g.priorityClass,
			},
		}
	},
	// Nothing else of the spec can be changed.
	change: func(is, want podGroup) []operation {
		gang, wanted := is.(*schedulingv1beta1.PodGroup).Spec.SchedulingPolicy.Gang, want.(*schedulingv1beta1.PodGroup).Spec.SchedulingPolicy.Gang
		if gang == nil || gang.MinCount == wanted.MinCount {
			return nil
		}
		return []operation{{"replace", "/spec/schedulingPolicy/gang/minCount", wanted.MinCount}}
	},
	join: func(pod *corev1.Pod, group string) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	},
	isHeld: true, // by the finalizer scheduling.k8s.io/podgroup-protection
	client: func(clients Clients, namespace string) groupClient {
		return typedGroups[*schedulingv1beta1.PodGroup]{clients.Kube.SchedulingV1beta1().PodGroups(namespace)}
	},
	watch: func(clients Clients, namespace string, own func(*metav1.ListOptions)) (factory, cache.SharedIndexInformer) {
		groups := informers.NewSharedInformerFactoryWithOptions(clients.Kube, 0,
			informers.WithNamespace(namespace), informers.WithTweakListOptions(own), informers.WithTransform(withoutManagedFields))
		return groups, groups.Scheduling().V1beta1().PodGroups().Informer()
	},
}
