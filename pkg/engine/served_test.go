// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWaitServed: a program that starts before the API server does, or before
// Tutti's CRDs are served, waits for them; it does not end and leave the time
// of its next start to the kubelet.
func TestWaitServed(t *testing.T) {
	refused := errors.New("connection refused")
	resources := []*metav1.APIResourceList{
		{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "resourceclaims"}, {Name: "devicetaintrules"}}},
		{GroupVersion: "scheduling.x-k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups"}}},
	}
	cases := map[string]struct {
		refusals int // before the API server answers
		unserved int // answers before it serves everything
		want     string
	}{
		"all is there":              {},
		"the API server starts":     {refusals: 3},
		"the CRDs are being served": {unserved: 3},
		"no API server":             {refusals: 1 << 30, want: "connection refused"},
		"no CRDs":                   {unserved: 1 << 30, want: "install Tutti's CRDs first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			asked := 0
			client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				client.Resources = resources
				if asked <= tc.unserved {
					client.Resources = resources[:1]
				}
				if asked <= tc.refusals {
					return true, nil, refused
				}
				return false, nil, nil
			})
			err := waitServed(t.Context(), client.Discovery(), 300*time.Millisecond)
			if tc.want == "" && err != nil {
				t.Error(err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
