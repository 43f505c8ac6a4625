// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
)

func TestWishesInTheWordsOfOthers(t *testing.T) {
	tree := NewBuilder(rackLevel).Build([]fwk.NodeInfo{infoOf(node("a", "r1"))}).Tree // cluster, rack, host
	const required, preferred = tutti.KueueRequiredTopologyAnnotation, tutti.KueuePreferredTopologyAnnotation
	for name, tc := range map[string]struct {
		group  map[string]string
		native string
		pods   []map[string]string
		want   placement.Constraint
		error  string
	}{
		"Kueue's on all pods":      {pods: []map[string]string{{required: "rack"}, {required: "rack"}}, want: placement.Constraint{Required: 1}},
		"one speaks for the other": {pods: []map[string]string{{preferred: "rack"}, nil}, want: placement.Constraint{Preferred: 1}},
		"Kueue's on the group":     {group: map[string]string{required: "rack"}, want: placement.Constraint{Required: 1}},
		"Kueue's slices": {
			pods: []map[string]string{{tutti.KueueSliceRequiredTopologyAnnotation: "rack", tutti.KueueSliceSizeAnnotation: "4", required: "cluster"}},
			want: placement.Constraint{SliceSize: 4, SliceLevel: 1},
		},
		"Kueue's, nothing asked":        {pods: []map[string]string{{tutti.KueueUnconstrainedTopologyAnnotation: "true"}}},
		"Kueue's that place nothing":    {pods: []map[string]string{{"kueue.x-k8s.io/podset-group-name": "g", "kueue.x-k8s.io/queue-name": "q"}}},
		"a native constraint":           {native: "rack", want: placement.Constraint{Required: 1}},
		"the same by three":             {group: map[string]string{tutti.RequiredTopologyAnnotation: "rack"}, native: "rack", pods: []map[string]string{{required: "rack"}}, want: placement.Constraint{Required: 1}},
		"pods that differ":              {pods: []map[string]string{{required: "rack"}, {required: "host"}}, error: `annotation kueue.x-k8s.io/podset-required-topology of pod p0 says "rack" and annotation kueue.x-k8s.io/podset-required-topology of pod p1 says "host": take one of them away`},
		"group and native differ":       {group: map[string]string{tutti.RequiredTopologyAnnotation: "rack"}, native: "host", error: `annotation tutti.dev/required-topology says "rack" and spec.schedulingConstraints.topology says "host": take one`},
		"an unknown level of Kueue's":   {pods: []map[string]string{{required: "rak"}}, error: `annotation kueue.x-k8s.io/podset-required-topology of pod p0: "rak" is no level of this cluster; the levels are cluster, rack, host`},
		"an unknown native level":       {native: "rak", error: `spec.schedulingConstraints.topology: "rak" is no level`},
		"a misspelt one of Kueue's":     {pods: []map[string]string{{"kueue.x-k8s.io/podset-topology": "rack"}}, error: `annotation kueue.x-k8s.io/podset-topology of pod p0 is unknown; of Kueue's are known kueue.x-k8s.io/podset-preferred-topology, `},
		"Kueue's slices without a size": {pods: []map[string]string{{tutti.KueueSliceRequiredTopologyAnnotation: "rack"}}, error: `annotation kueue.x-k8s.io/podset-slice-required-topology of pod p0: "rack" is given without`},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*v1.Pod
			for i, annotations := range tc.pods {
				pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: []string{"p0", "p1"}[i], Annotations: annotations}})
			}
			var got placement.Constraint
			wishes, err := WishesOf(tc.group, tc.native, pods)
			if err == nil {
				got, err = ConstraintOf(tree, wishes)
			}
			if tc.error != "" {
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Errorf("error %v, want %q", err, tc.error)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}
