// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
)

// servedWithin: definitions that are applied together with this program take a moment to be served.
const servedWithin = 30 * time.Second

// areTheyInstalled is the first thing to look at where a kind of a CustomResourceDefinition is missing.
const areTheyInstalled = "are the CustomResourceDefinitions installed?"

// waitUntilServed makes sure that the API server knows a kind that will be watched. A cache of an unknown kind would never fill, and say so
// to nobody. It returns nil when ctx is done.
func waitUntilServed(ctx context.Context, client discovery.DiscoveryInterface, resource schema.GroupVersionResource, hint string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, servedWithin, true, func(context.Context) (is bool, err error) {
		is, last = isServed(client, resource)
		return is, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // told to stop, which is no failure
	}
	if err != nil {
		return fmt.Errorf("waiting for the API server to serve %s of %s (%s): %w", resource.Resource, resource.GroupVersion(), hint, cmp.Or(last, err))
	}
	return nil
}

func isServed(client discovery.DiscoveryInterface, resource schema.GroupVersionResource) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }), nil
}
