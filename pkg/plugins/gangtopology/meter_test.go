// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

const gpu = "nvidia.com/gpu"

// eightHosts of 8 GPUs are two racks of four.
func eightHosts() (*topology.Tree, corev1listers.NodeLister) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	var hosts []topology.HostLabels
	for i := range 8 {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"rack": fmt.Sprintf("r%d", i/4)}}}
		node.Status.Allocatable = v1.ResourceList{gpu: resource.MustParse("8"), v1.ResourcePods: resource.MustParse("110")}
		_ = store.Add(node) // cannot fail: it has a name
		hosts = append(hosts, topology.HostLabels{Name: node.Name, Labels: node.Labels})
	}
	return topology.New([]topology.Level{{Name: "rack", NodeLabels: []string{"rack"}}}, hosts), corev1listers.NewNodeLister(store)
}

func TestLevelIsComparedWithThatOfAnEmptyCluster(t *testing.T) {
	tree, nodes := eightHosts()
	for name, tc := range map[string]struct {
		hosts       []int
		gpus        int64
		level, best string
		racks       float64
	}{
		"torn over racks though one would do": {[]int{0, 4}, 8, "cluster", "rack", 2},
		"in a rack though a host would do":    {[]int{0, 1}, 4, "rack", "host", 1},
		"as near as can be":                   {[]int{5, 5}, 4, "host", "host", 1},
		"larger than a rack":                  {[]int{0, 1, 2, 3, 4}, 8, "cluster", "cluster", 2},
	} {
		t.Run(name, func(t *testing.T) {
			gangLevels.Reset()
			gangDomains.Reset()
			registerMetrics()
			m := newMeter(name, nodes)
			m.measure(start{tree: tree, hosts: tc.hosts, resources: []string{gpu}, roles: []placement.Role{
				{Pods: len(tc.hosts), Minimum: len(tc.hosts), Request: []int64{tc.gpus}},
			}})
			got, err := testutil.GetCounterMetricValue(gangLevels.WithLabelValues(name, tc.level, tc.best))
			if err != nil || got != 1 {
				t.Errorf("level %s of %s was counted %g times (%v), want once", tc.level, tc.best, got, err)
			}
			racks, err := testutil.GetHistogramMetricValue(gangDomains.WithLabelValues(name, "rack"))
			if err != nil || racks != tc.racks {
				t.Errorf("%g racks (%v), want %g", racks, err, tc.racks)
			}
		})
	}
}

func TestPendingIsWhatWasLastToldOfGangsThatExist(t *testing.T) {
	_, nodes := eightHosts()
	m := newMeter("p", nodes)
	tell := m.hears(func(*schedulingv1beta1.PodGroup, metav1.Condition) {})
	group := func(name string) *schedulingv1beta1.PodGroup {
		return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	}
	for _, name := range []string{"placed", "waits", "gone", "again"} {
		tell(group(name), metav1.Condition{Status: metav1.ConditionFalse, Reason: tutti.UnschedulableReason})
	}
	tell(group("placed"), metav1.Condition{Status: metav1.ConditionTrue, Reason: tutti.GangPlacedReason})
	tell(group("again"), metav1.Condition{Status: metav1.ConditionFalse, Reason: tutti.PreemptingReason})
	got := m.pending(func(key types.NamespacedName, _ types.UID) bool { return key.Name != "gone" })
	if got[tutti.UnschedulableReason] != 1 || got[tutti.PreemptingReason] != 1 || len(m.told) != 2 {
		t.Errorf("pending %v, %d remembered; want one of each reason and no more", got, len(m.told))
	}
}

func TestSizeClasses(t *testing.T) {
	for pods, want := range map[int]string{1: "1", 2: "2-8", 8: "2-8", 9: "9-64", 512: "65-512", 513: "513-"} {
		if got := sizeClassOf(pods); got != want {
			t.Errorf("%d pods are of class %s, want %s", pods, got, want)
		}
	}
}

func TestEveryOutcomeIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if !strings.Contains(string(text), "`"+string(o)+"`") {
			t.Errorf("docs/metrics.md lacks outcome %s", o)
		}
	}
}
