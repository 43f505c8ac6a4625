// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// TestNobodyBindsWhileOneWaitsForItsVolume: a volume that is made for one pod
// takes its time, and the others of the gang do not begin without it.
func TestNobodyBindsWhileOneWaitsForItsVolume(t *testing.T) {
	s := newScene(t, shared)
	class, node := s.classByHand(t), ""
	s.run([]step{
		s.waitsForItsVolume(&node),
		{
			name: "nobody binds for a while",
			do: func(ctx context.Context) error {
				wait, cancel := context.WithTimeout(ctx, atRest)
				defer cancel()
				<-wait.Done()
				return s.plane.Unbound(ctx, s.namespace, "gang", 4)
			},
		},
		s.makeVolume(class, &node),
	})
	s.expectWhole(t, "gang", 4)
}

// TestPodThatIsMadeAnewIsNotBoundBeforeTheOthers: those that wait for the volume have
// nodes in the scheduler's eyes, and one more would complete them.
func TestPodThatIsMadeAnewIsNotBoundBeforeTheOthers(t *testing.T) {
	s := newScene(t, shared)
	class, node := s.classByHand(t), ""
	s.run([]step{
		s.waitsForItsVolume(&node),
		{
			name: "another one is deleted and made anew",
			do: func(ctx context.Context) error {
				return errors.Join(s.deletePods(ctx, "gang-3"), s.createMembers(ctx, "gang", 1, "gang-4"))
			},
			check: stays(s.partly("gang", 0, 4)),
		},
		s.makeVolume(class, &node),
	})
	s.expectWhole(t, "gang", 4)
}

// waitsForItsVolume is a gang of four that has its nodes, and waits for a volume on that one.
func (s *scene) waitsForItsVolume(node *string) step {
	return step{name: "a gang of which one pod has a claim", do: s.createWithClaim, check: s.selected(node)}
}

// createWithClaim makes a gang of four, of which the first pod has a claim.
func (s *scene) createWithClaim(ctx context.Context) error {
	return errors.Join(s.createClaim(ctx, "claim"), s.createShaped(ctx, "gang", siblingsCase{
		pods: 4, shape: func(i int, pod *corev1.Pod) {
			if i == 0 {
				withClaim(pod, "claim")
			}
		},
	}))
}

// selected is true when a volume is to be made for the claim, and where.
func (s *scene) selected(node *string) func(context.Context) error {
	return func(ctx context.Context) error {
		claim, err := s.plane.Client.CoreV1().PersistentVolumeClaims(s.namespace).Get(ctx, "claim", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if *node = claim.Annotations[selectedNode]; *node == "" {
			return errors.New("no node is selected for the claim")
		}
		return nil
	}
}

// makeVolume does what a provisioner would, and then all four start.
func (s *scene) makeVolume(class string, node *string) step {
	return step{
		name: "the volume is made",
		do: func(ctx context.Context) error {
			_, err := s.plane.Client.CoreV1().PersistentVolumes().Create(ctx, volumeFor(s.namespace, class, *node), metav1.CreateOptions{})
			return err
		},
		check: s.bound("gang", 4),
	}
}

// classByHand is a kind of storage whose volumes the test makes.
func (s *scene) classByHand(t *testing.T) string {
	t.Helper()
	class := s.namespace + "-" + localClass
	_, err := s.plane.Client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: class},
		Provisioner:       "example.com/by-hand",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(
			s.plane.Client.StorageV1().StorageClasses().Delete(ctx, class, metav1.DeleteOptions{}),
			s.plane.Client.CoreV1().PersistentVolumes().Delete(ctx, class, metav1.DeleteOptions{}),
		); err != nil {
			t.Error(err)
		}
	})
	return class
}

// volumeFor is what a provisioner would have made for the claim.
func volumeFor(namespace, class, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName:       class,
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
	}
}
