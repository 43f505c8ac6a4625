// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2/ktesting"

	"github.com/tutti-project/tutti/pkg/projection"
)

// serving is an API server that has these resources.
func serving(resources ...schema.GroupVersionResource) *fakediscovery.FakeDiscovery {
	lists := map[string]*metav1.APIResourceList{}
	for _, r := range resources {
		gv := r.GroupVersion().String()
		if lists[gv] == nil {
			lists[gv] = &metav1.APIResourceList{GroupVersion: gv}
		}
		lists[gv].APIResources = append(lists[gv].APIResources, metav1.APIResource{Name: r.Resource})
	}
	return &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: slices.Collect(maps.Values(lists))}}
}

func resourceV1(names ...string) []schema.GroupVersionResource {
	list := []schema.GroupVersionResource{projection.PodGroupResource}
	for _, name := range names {
		list = append(list, schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: name})
	}
	return list
}

// TestGatesOfUnservedKindsAreTurnedOff: of the kinds that an API server of some
// version lacks. A gate that cannot be turned off any more is an error that says
// so, not a scheduler that waits for ever.
func TestGatesOfUnservedKindsAreTurnedOff(t *testing.T) {
	for name, tc := range map[string]struct {
		served []schema.GroupVersionResource
		off    string // or the error
		native bool
	}{
		"1.33, without resource.k8s.io/v1":      {resourceV1(), "does not serve resource.k8s.io/v1, Resource=resourceclaims, and feature gate DynamicResourceAllocation cannot be turned off", false},
		"1.34 to 1.36, without DeviceTaintRule": {resourceV1("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"), "DRADeviceTaintRules", false},
		"1.37, without its own PodGroups":       {resourceV1("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"), "", false},
		"1.37 with them":                        {append(resourceV1("devicetaintrules", "resourceclaims"), projection.NativeResource), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[featuregate.Feature]bool{}
			for _, w := range watched {
				before[w.gate] = utilfeature.DefaultFeatureGate.Enabled(w.gate)
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, w.gate, before[w.gate])
			}
			logger, _ := ktesting.NewTestContext(t)
			api := serving(tc.served...)
			if err := turnOffUnserved(api, logger); err != nil {
				if tc.off == "" || !strings.Contains(err.Error(), tc.off) {
					t.Error(err)
				}
				return
			}
			var off []string
			for gate, was := range before {
				if was && !utilfeature.DefaultFeatureGate.Enabled(gate) {
					off = append(off, string(gate))
				}
			}
			slices.Sort(off)
			if got := strings.Join(off, " "); got != tc.off {
				t.Errorf("turned off %q, want %q", got, tc.off)
			}
			if native, err := isServed(api, projection.NativeResource); err != nil || native != tc.native {
				t.Errorf("native groups are served: %t, %v; want %t", native, err, tc.native)
			}
		})
	}
}
