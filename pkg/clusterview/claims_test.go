// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// TestPodsWithAClaimEachAreOneRole unless the claims keep them to different
// nodes, or may do so.
func TestPodsWithAClaimEachAreOneRole(t *testing.T) {
	const pods = 100
	bound := func(zone func(i int) string) func(int, *v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return func(i int, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
			claim.Spec.VolumeName = volume.Name
			volume.Labels = map[string]string{v1.LabelTopologyZone: zone(i)}
		}
	}
	cases := map[string]struct {
		change func(i int, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume)
		roles  int
	}{
		"unbound, of one class": {func(int, *v1.PersistentVolumeClaim, *v1.PersistentVolume) {}, 1},
		"of two classes": {func(i int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.Spec.StorageClassName = new(fmt.Sprint(i % 2))
		}, 2},
		"of two sizes": {func(i int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(fmt.Sprint(1+i%2, "Gi"))
		}, 2},
		"one has a node selected": {func(i int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			if i == 0 {
				c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n"}
			}
		}, 2},
		"one is being deleted": {func(i int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			if i == 0 {
				c.DeletionTimestamp = &metav1.Time{}
			}
		}, 2},
		"each for one pod only": {func(_ int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}, pods},
		"bound in one zone":          {bound(func(int) string { return "z" }), 1},
		"bound in three zones":       {bound(func(i int) string { return fmt.Sprint("z", i%3) }), 3},
		"bound to what is not there": {func(_ int, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "gone-" + c.Name }, pods},
		"each bound to its own node": {func(i int, c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			bound(func(int) string { return "z" })(i, c, v)
			v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", i)}}},
			}}}}
		}, pods},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claims, volumes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			var list []*v1.Pod
			for i := range pods {
				pod := podAsking(fmt.Sprint("p", i), nil)
				claim := &v1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "data-" + pod.Name, Namespace: "ns"},
					Spec: v1.PersistentVolumeClaimSpec{
						StorageClassName: new("fast"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
						Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				}
				volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + claim.Name}}
				pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
				tc.change(i, claim, volume)
				list = append(list, pod)
				for _, err := range []error{claims.Add(claim), volumes.Add(volume)} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			known := &Volumes{Claims: corev1listers.NewPersistentVolumeClaimLister(claims), Volumes: corev1listers.NewPersistentVolumeLister(volumes)}
			if got := len(RolesWith(list, known)); got != tc.roles {
				t.Errorf("%d roles, want %d", got, tc.roles)
			}
			if got := len(RolesOf(list)); got != pods {
				t.Errorf("%d roles when nothing is known of claims, want %d", got, pods)
			}
		})
	}
}
