// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/controller/tfjob"
)

// podGroupAPIs are the values of --pod-group-api.
var podGroupAPIs = []string{podGroupCRD, podGroupNative, podGroupAuto, podGroupNone}

const (
	podGroupCRD    = "crd"
	podGroupNative = "native"
	podGroupAuto   = "auto"
	podGroupNone   = "none"
)

var (
	crdPodGroups    = schedulingv1alpha1.SchemeGroupVersion.WithResource("podgroups")
	nativePodGroups = schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups")
)

// podGroupKind is the kind that is meant by --pod-group-api, when the API server serves it; nil is none.
func podGroupKind(ctx context.Context, client kubernetes.Interface, o *options) (*tfjob.PodGroupKind, error) {
	api := o.podGroupAPI
	if api == podGroupAuto {
		why, err := whyNotNative(ctx, client, o.namespace)
		if err != nil {
			return nil, err
		}
		if api = podGroupNative; why != "" {
			api = podGroupCRD
		}
		klog.FromContext(ctx).Info("Chose the kind of PodGroups", "kind", api, "reason", why)
	}
	switch api {
	case podGroupNone:
		return nil, nil
	case podGroupCRD:
		return tfjob.CRDPodGroups, waitUntilServed(ctx, client.Discovery(), crdPodGroups, areTheyInstalled)
	}
	err := waitUntilServed(ctx, client.Discovery(), nativePodGroups,
		"does it run with --feature-gates=GenericWorkload=true and --runtime-config=scheduling.k8s.io/v1beta1=true? --pod-group-api=crd works without")
	if err != nil || ctx.Err() != nil {
		return nil, err
	}
	why, err := whyNotNative(ctx, client, o.namespace)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return tfjob.NativePodGroups, err
}

// whyNotNative says why native PodGroups cannot be made, or nothing where they can. Where they are served, pods keep the field that makes them
// members: both are of one feature of the API server's.
func whyNotNative(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	is, err := isServed(client.Discovery(), nativePodGroups)
	if err != nil {
		return "", fmt.Errorf("asking the API server for native PodGroups: %w", err)
	}
	if !is {
		return "the API server does not serve podgroups of " + nativePodGroups.GroupVersion().String(), nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: nativePodGroups.Group, Resource: nativePodGroups.Resource,
		},
	}}
	if review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("asking the API server whether native PodGroups may be made: %w", err)
	}
	if !review.Status.Allowed {
		return "the controller may not make podgroups of " + nativePodGroups.Group + "; the kustomize component manifests/native-pod-groups allows it", nil
	}
	return "", nil
}
