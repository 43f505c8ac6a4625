// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// servedWithin: definitions that are applied together with this program take a moment to be served.
const servedWithin = 30 * time.Second

// waitUntilServed makes sure that the API server knows every kind that will be watched. A cache of an unknown kind would never
// fill, and say so to nobody.
func waitUntilServed(ctx context.Context, client discovery.DiscoveryInterface, o *options) error {
	wanted := []schema.GroupVersionResource{kubeflowv1.SchemeGroupVersion.WithResource(kubeflowv1.TFJobPlural)}
	if o.podGroupAPI == podGroupCRD {
		wanted = append(wanted, schedulingv1alpha1.SchemeGroupVersion.WithResource("podgroups"))
	}
	for _, resource := range wanted {
		var last error
		err := wait.PollUntilContextTimeout(ctx, time.Second, servedWithin, true, func(context.Context) (bool, error) {
			last = served(client, resource)
			return last == nil, nil
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop, which is no failure
		}
		if err != nil {
			return fmt.Errorf("waiting for the API server to serve %s of %s (are the CustomResourceDefinitions installed?): %w",
				resource.Resource, resource.GroupVersion(), last)
		}
	}
	return nil
}

func served(client discovery.DiscoveryInterface, resource schema.GroupVersionResource) error {
	list, err := client.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }) {
		return fmt.Errorf("the group is served without %s", resource.Resource)
	}
	return nil
}
