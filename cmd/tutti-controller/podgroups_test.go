// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tutti-project/tutti/pkg/controller/tfjob"
)

func TestPodGroupKind(t *testing.T) {
	crds := &metav1.APIResourceList{GroupVersion: "scheduling.x-k8s.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	natives := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "podgroups"}}}
	without := &metav1.APIResourceList{GroupVersion: "scheduling.k8s.io/v1beta1"}
	for name, tc := range map[string]struct {
		api       string
		served    []*metav1.APIResourceList
		mayNot    bool
		want      *tfjob.PodGroupKind
		wantError string
	}{
		"crd":                                  {api: "crd", served: []*metav1.APIResourceList{crds, natives}, want: tfjob.CRDPodGroups},
		"none":                                 {api: "none"},
		"native":                               {api: "native", served: []*metav1.APIResourceList{natives}, want: tfjob.NativePodGroups},
		"native, without the right":            {api: "native", served: []*metav1.APIResourceList{natives}, mayNot: true, wantError: "manifests/native-pod-groups"},
		"auto, both":                           {api: "auto", served: []*metav1.APIResourceList{crds, natives}, want: tfjob.NativePodGroups},
		"auto, on a stock API server":          {api: "auto", served: []*metav1.APIResourceList{crds}, want: tfjob.CRDPodGroups},
		"auto, where the group is without it":  {api: "auto", served: []*metav1.APIResourceList{crds, without}, want: tfjob.CRDPodGroups},
		"auto, without the right":              {api: "auto", served: []*metav1.APIResourceList{crds, natives}, mayNot: true, want: tfjob.CRDPodGroups},
		"auto, when the API server is in need": {api: "auto", wantError: "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubefake.NewClientset()
			client.Resources = tc.served
			if tc.served == nil {
				client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("out of order")
				})
			}
			client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !tc.mayNot}}, nil
			})
			got, err := podGroupKind(t.Context(), client, &options{podGroupAPI: tc.api})
			if (err != nil) != (tc.wantError != "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Fatalf("error %v, want %q", err, tc.wantError)
			}
			if err == nil && got != tc.want {
				t.Errorf("got another kind")
			}
		})
	}
}
