// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	podgroupclient "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"
	podgroupinformers "sigs.k8s.io/scheduler-plugins/pkg/generated/informers/externalversions"

	"github.com/tutti-project/tutti/pkg/projection"
)

// ended are the phases of pods that the engine's own informer drops.
var ended = []v1.PodPhase{v1.PodSucceeded, v1.PodFailed}

// startSources starts the informers that only the projection reads: of the CRD's
// PodGroups, of native ones where the API server has them, and of ended members.
func startSources(ctx context.Context, kubeConfig *rest.Config, projector *projection.Projector, status *projection.StatusWriter) error {
	groupClient, err := podgroupclient.NewForConfig(kubeConfig)
	if err != nil {
		return fmt.Errorf("making a client for pod groups: %w", err)
	}
	groupFactory := podgroupinformers.NewSharedInformerFactory(groupClient, 0)
	groups := groupFactory.Scheduling().V1alpha1().PodGroups().Informer()
	if err := projector.WatchPodGroups(groups); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(kubeConfig)
	if err != nil {
		return fmt.Errorf("making a client for native pod groups: %w", err)
	}
	native, err := waitIsServed(ctx, client.Discovery(), projection.NativeResource)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Reading pod groups", "crd", true, "native", native)
	ending := endedMembers
	all := []cache.SharedIndexInformer{groups}
	if native {
		ending = endedPods
		groups := informers.NewSharedInformerFactory(client, 0).Scheduling().V1beta1().PodGroups().Informer()
		if err := projector.WatchNative(groups); err != nil {
			return err
		}
		all = append(all, groups)
	}
	for _, groups := range all {
		if _, err := groups.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
			if group, err := meta.Accessor(obj); err == nil {
				status.Forget(group.GetUID())
			}
		}}); err != nil {
			return fmt.Errorf("watching pod groups: %w", err)
		}
	}
	for _, phase := range ended {
		informer, err := ending(kubeConfig, phase)
		if err != nil {
			return err
		}
		if err := projector.WatchFinished(phase, informer); err != nil {
			return err
		}
		all = append(all, informer)
	}
	for _, informer := range all {
		go informer.RunWithContext(ctx)
	}
	return nil
}

// endedMembers reads the metadata of pods that have ended and bear the pod-group
// label.
func endedMembers(kubeConfig *rest.Config, phase v1.PodPhase) (cache.SharedIndexInformer, error) {
	client, err := metadata.NewForConfig(kubeConfig)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	return metadatainformer.NewFilteredMetadataInformer(client, v1.SchemeGroupVersion.WithResource("pods"),
		metav1.NamespaceAll, 0, cache.Indexers{}, func(list *metav1.ListOptions) {
			list.LabelSelector = v1alpha1.PodGroupLabel
			inPhase(phase)(list)
		}).Informer(), nil
}

// endedPods reads all pods that have ended: a native group's members need bear
// no label. Little of each is kept.
func endedPods(kubeConfig *rest.Config, phase v1.PodPhase) (cache.SharedIndexInformer, error) {
	protobuf := rest.CopyConfig(kubeConfig)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("making a client for ended pods: %w", err)
	}
	informer := coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, inPhase(phase))
	return informer, informer.SetTransform(func(obj any) (any, error) {
		pod, ok := obj.(*v1.Pod)
		if !ok {
			return obj, nil
		}
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
				CreationTimestamp: pod.CreationTimestamp, Labels: pod.Labels,
			},
			Spec: v1.PodSpec{SchedulingGroup: pod.Spec.SchedulingGroup},
		}, nil
	})
}

func inPhase(phase v1.PodPhase) func(*metav1.ListOptions) {
	return func(list *metav1.ListOptions) { list.FieldSelector = "status.phase=" + string(phase) }
}
