// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// gates are set in this process before its flags are read, whatever the
// cluster has.
var gates = map[string]bool{
	// The pod-group engine, and in it the placement extension points.
	string(features.GenericWorkload):                 true,
	string(features.TopologyAwareWorkloadScheduling): true,
	// It would cost one more status patch for every pod that waits at the
	// barrier.
	string(features.NominatedNodeNameForExpectation): false,
}

// SetGates sets them. It comes before anything else of the engine.
func SetGates() error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	return nil
}

// CheckGates refuses a command line that took them back.
func CheckGates() error {
	for name, want := range gates {
		if utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) != want {
			return fmt.Errorf("--feature-gates: tutti-scheduler needs %s=%t; leave it out", name, want)
		}
	}
	return nil
}

// watched lists what the engine watches under a gate. An informer of a kind
// that the API server does not serve never syncs, and the scheduler with it.
var watched = []struct {
	gate     featuregate.Feature
	resource schema.GroupVersionResource
}{
	{features.DRADeviceTaintRules, schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "devicetaintrules"}},
	{features.DynamicResourceAllocation, schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}},
}

// turnOffUnserved turns off the gates of the kinds that the cluster lacks.
func turnOffUnserved(client discovery.DiscoveryInterface, logger klog.Logger) error {
	for _, w := range watched {
		if !utilfeature.DefaultFeatureGate.Enabled(w.gate) {
			continue
		}
		served, err := isServed(client, w.resource)
		if err != nil {
			return err
		}
		if served {
			continue
		}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(w.gate): false}); err != nil {
			return fmt.Errorf("the API server does not serve %s, and feature gate %s cannot be turned off: %w", w.resource, w.gate, err)
		}
		logger.Info("The API server does not serve a kind; turned its feature gate off", "resource", w.resource, "gate", w.gate)
	}
	return nil
}

func isServed(client discovery.DiscoveryInterface, resource schema.GroupVersionResource) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", resource.GroupVersion(), err)
	}
	for _, r := range list.APIResources {
		if r.Name == resource.Resource {
			return true, nil
		}
	}
	return false, nil
}
