// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// siblingsCase is a gang made by hand whose pods constrain each other.
type siblingsCase struct {
	pods     int
	required string // level
	shape    func(i int, pod *corev1.Pod)
	check    func(s *scene) func(context.Context) error
}

// apart keeps the gang's pods from each other within a domain of the label.
func apart(key string) func(int, *corev1.Pod) {
	return func(_ int, pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{gangTerm(key)},
		}}
	}
}

func gangTerm(key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey:   key,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodGroupLabel: "gang"}},
	}
}

// TestSiblingsThatConstrainEachOtherArePlacedTogether: what the in-tree plugins
// demand of pods of one gang among each other is in the plan. (Peer cases 2 and
// 36: pods that do not share a host; no half of such a gang is ever bound.)
func TestSiblingsThatConstrainEachOtherArePlacedTogether(t *testing.T) {
	cases := map[string]siblingsCase{
		"one pod a host, in one rack": {
			pods: 8, shape: apart(corev1.LabelHostname),
			check: func(s *scene) func(context.Context) error { return all(s.racks("gang", 1), s.nodes("gang", 8)) },
		},
		"a host port, in a required rack": {
			pods: 8, required: "rack",
			shape: func(_ int, pod *corev1.Pod) {
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 2222, HostPort: 2222}}
			},
			check: func(s *scene) func(context.Context) error { return all(s.racks("gang", 1), s.nodes("gang", 8)) },
		},
		"two shapes in the host's network": {
			pods: 6,
			shape: func(i int, pod *corev1.Pod) {
				pod.Spec.HostNetwork = true
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 2222}}
				if i%2 == 0 {
					pod.Spec.Containers[0].Resources.Limits = nil
				}
			},
			check: func(s *scene) func(context.Context) error { return s.nodes("gang", 6) },
		},
		"one pod a rack": {
			pods: 8, shape: apart(controlplane.RackLabel),
			check: func(s *scene) func(context.Context) error { return s.racks("gang", 8) },
		},
		"spread evenly over all racks": {
			pods: 16,
			shape: func(_ int, pod *corev1.Pod) {
				pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: controlplane.RackLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: gangTerm("").LabelSelector,
				}}
			},
			check: func(s *scene) func(context.Context) error { return s.racks("gang", 8) },
		},
		"all in the spine of the first": {
			pods: 6,
			shape: func(_ int, pod *corev1.Pod) {
				pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{gangTerm(controlplane.SpineLabel)},
				}}
				pod.Spec.Containers[0].Resources.Limits[controlplane.GPU] = resource.MustParse("8")
			},
			check: func(s *scene) func(context.Context) error { return s.racks("gang", 1) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			s.run([]step{
				{
					name:  "the gang",
					do:    func(ctx context.Context) error { return s.createShaped(ctx, "gang", tc) },
					check: s.bound("gang", tc.pods),
				},
				{name: "as its pods demand", check: tc.check(s)},
			})
			s.expectWhole(t, "gang", tc.pods)
		})
	}
}

// TestSiblingsThatFitNowhereTogetherAreRefusedInWords: the verdict tells what
// the pods lack beside each other.
func TestSiblingsThatFitNowhereTogetherAreRefusedInWords(t *testing.T) {
	cases := map[string]struct {
		siblingsCase
		words []string
	}{
		"nine hosts of a rack of eight": {
			siblingsCase{pods: 9, required: "rack", shape: apart(corev1.LabelHostname)},
			[]string{"8 of 9 pod", "hosts without another pod"},
		},
		"nine racks of eight": {
			siblingsCase{pods: 9, shape: apart(controlplane.RackLabel)},
			[]string{"8 of 9 pod", "beside each other", "anti-affinity"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, shared)
			s.run([]step{
				{
					name:  "the gang",
					do:    func(ctx context.Context) error { return s.createShaped(ctx, "gang", tc.siblingsCase) },
					check: s.refused("gang", tc.pods, tc.words...),
				},
				{name: "the event says the same", check: s.event("gang", "FailedScheduling", tc.words...)},
			})
		})
	}
}

// TestGangFollowsAPodThatRuns: the pod that a gang must be near to stands on a
// host that the gang does not use.
func TestGangFollowsAPodThatRuns(t *testing.T) {
	s := newScene(t, shared)
	near := siblingsCase{pods: 7, shape: func(_ int, pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits[controlplane.GPU] = resource.MustParse("8")
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: controlplane.RackLabel, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}},
			}},
		}}
	}}
	s.run([]step{
		{
			name: "the pod, in a rack of its own choice",
			do: func(ctx context.Context) error {
				pod := plain("cache", tuttiapi.SchedulerName)
				pod.Labels = map[string]string{"app": "cache", v1alpha1.PodGroupLabel: "cache"}
				pod.Spec.NodeSelector = map[string]string{controlplane.RackLabel: "r6"}
				return errors.Join(s.createPodGroup(ctx, "cache", 1), s.createPod(ctx, pod))
			},
			check: s.placed("cache"),
		},
		{
			name:  "the gang",
			do:    func(ctx context.Context) error { return s.createShaped(ctx, "gang", near) },
			check: s.bound("gang", 7),
		},
		{name: "in the same rack", check: s.inRacks("gang", "r6")},
	})
}

// TestGangWithVolumesOfItsOwnIsPlacedWhereTheyAre: each pod has a claim, and the
// volumes that fit are on one node each.
func TestGangWithVolumesOfItsOwnIsPlacedWhereTheyAre(t *testing.T) {
	s := newScene(t, shared)
	hosts := []string{"n003", "n020", "n021"}
	s.localVolumes(t, hosts...)
	tc := siblingsCase{pods: len(hosts), shape: func(i int, pod *corev1.Pod) { withClaim(pod, fmt.Sprintf("claim-%d", i)) }}
	s.run([]step{
		{
			name: "claims and the gang",
			do: func(ctx context.Context) error {
				for i := range hosts {
					if err := s.createClaim(ctx, fmt.Sprintf("claim-%d", i)); err != nil {
						return err
					}
				}
				return s.createShaped(ctx, "gang", tc)
			},
			check: s.bound("gang", len(hosts)),
		},
		{name: "each beside its volume", check: s.onNodes("gang", hosts...)},
	})
	s.expectWhole(t, "gang", len(hosts))
}

// createShaped makes a group and its pods, of one GPU unless shaped otherwise.
func (s *scene) createShaped(ctx context.Context, gang string, tc siblingsCase) error {
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(tc.pods)}}
	if tc.required != "" {
		group.Annotations = map[string]string{tuttiapi.RequiredTopologyAnnotation: tc.required}
	}
	if _, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range tc.pods {
		pod := member(fmt.Sprintf("%s-%d", gang, i), gang, 1)
		tc.shape(i, pod)
		if err := s.createPod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

const localClass = "local"

// localVolumes are volumes that wait for their first consumer, one on each node.
func (s *scene) localVolumes(t *testing.T, nodes ...string) {
	t.Helper()
	ctx, client := t.Context(), s.plane.Client
	class := s.namespace + "-" + localClass
	_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: class},
		Provisioner:       "kubernetes.io/no-provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	must(t, err)
	for _, node := range nodes {
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: class + "-" + node},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName:       class,
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
					}},
				}}}},
			},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		for _, node := range nodes {
			if err := client.CoreV1().PersistentVolumes().Delete(ctx, class+"-"+node, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		if err := client.StorageV1().StorageClasses().Delete(ctx, class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func (s *scene) createClaim(ctx context.Context, name string) error {
	class := s.namespace + "-" + localClass
	_, err := s.plane.Client.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	return err
}

func withClaim(pod *corev1.Pod, claim string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// nodes is true when the gang's pods are on just so many nodes.
func (s *scene) nodes(gang string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		names, err := s.nodesOf(ctx, gang)
		if err == nil && len(names) != want {
			err = fmt.Errorf("gang %s is on nodes %v, want %d", gang, names, want)
		}
		return err
	}
}

// onNodes is true when the gang's pods are on just these nodes.
func (s *scene) onNodes(gang string, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		names, err := s.nodesOf(ctx, gang)
		if err == nil && fmt.Sprint(names) != fmt.Sprint(want) {
			err = fmt.Errorf("gang %s is on nodes %v, want %v", gang, names, want)
		}
		return err
	}
}

// inRacks is true when the gang's pods are in just these racks.
func (s *scene) inRacks(gang string, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		racks, err := s.plane.Racks(ctx, s.namespace, gang)
		if err == nil && fmt.Sprint(racks) != fmt.Sprint(want) {
			err = fmt.Errorf("gang %s is in racks %v, want %v", gang, racks, want)
		}
		return err
	}
}

func (s *scene) nodesOf(ctx context.Context, gang string) ([]string, error) {
	pods, err := s.plane.Pods(ctx, s.namespace, gang)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Spec.NodeName)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
