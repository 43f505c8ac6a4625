// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// lostEvent is after how long the scheduler tries a refused gang without any
// reason: what wakes a gang must be much faster to be that.
const lostEvent = 30 * time.Second

// phase is true when the PodGroup says so of its pods.
func (s *scene) phase(gang string, phase v1alpha1.PodGroupPhase, running, succeeded, failed int32) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Get(ctx, gang, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if st := group.Status; st.Phase != phase || st.Running != running || st.Succeeded != succeeded || st.Failed != failed {
			return fmt.Errorf("PodGroup %s has status %+v, want %s with %d running, %d succeeded, %d failed", gang, st, phase, running, succeeded, failed)
		}
		return nil
	}
}

// podsTold is true when so many pods of the gang say in their condition
// PodScheduled why they wait.
func (s *scene) podsTold(gang string, size int, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Pods(ctx, s.namespace, gang)
		if err != nil {
			return err
		}
		if len(pods) != size {
			return fmt.Errorf("gang %s has %d pods, want %d", gang, len(pods), size)
		}
		for _, pod := range pods {
			said := errors.New("pod " + pod.Name + " does not say why it waits")
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason {
					said = contains(c.Message, words)
				}
			}
			if said != nil {
				return said
			}
		}
		return nil
	}
}

// eventOn is true when an object of this kind and name has just so many events
// with this reason, and the words in one of them.
func (s *scene) eventOn(kind, name, reason string, count int, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := s.plane.Client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		if len(list.Items) != count {
			return fmt.Errorf("%s %s has %d events %s, want %d", kind, name, len(list.Items), reason, count)
		}
		for _, event := range list.Items {
			if err = contains(event.Message, words); err == nil {
				return nil
			}
		}
		return err
	}
}

func (s *scene) createMembers(ctx context.Context, gang string, gpus int64, names ...string) error {
	for _, name := range names {
		if err := s.createPod(ctx, member(name, gang, gpus)); err != nil {
			return err
		}
	}
	return nil
}

// Case 75 of what peers get wrong: the status equals the truth after events stop.
func TestGroupStatusFollowsItsPods(t *testing.T) {
	s := newScene(t, shared)
	ends := func(name, gang, code string) *corev1.Pod {
		pod := member(name, gang, 0)
		pod.Annotations = map[string]string{"demo.tutti.dev/run-for": "6s", "demo.tutti.dev/exit-code": code}
		return pod
	}
	s.run([]step{
		{
			name: "two gangs, one too few pods in each",
			do: func(ctx context.Context) error {
				return errors.Join(
					s.createPodGroup(ctx, "good", 2), s.createPod(ctx, ends("good-0", "good", "0")),
					s.createPodGroup(ctx, "bad", 2), s.createPod(ctx, ends("bad-0", "bad", "1")),
				)
			},
			check: all(s.phase("good", v1alpha1.PodGroupPending, 0, 0, 0), s.phase("bad", v1alpha1.PodGroupPending, 0, 0, 0)),
		},
		{
			name: "both run",
			do: func(ctx context.Context) error {
				return errors.Join(s.createPod(ctx, ends("good-1", "good", "0")), s.createPod(ctx, member("bad-1", "bad", 0)))
			},
			check: all(s.phase("good", v1alpha1.PodGroupRunning, 2, 0, 0), s.phase("bad", v1alpha1.PodGroupRunning, 2, 0, 0)),
		},
		{
			name:  "one ends well, a pod of the other fails",
			check: all(s.phase("good", v1alpha1.PodGroupFinished, 0, 2, 0), s.phase("bad", v1alpha1.PodGroupFailed, 1, 0, 1)),
		},
		{
			name: "the failed pod is replaced",
			do: func(ctx context.Context) error {
				if err := s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, "bad-0", metav1.DeleteOptions{}); err != nil {
					return err
				}
				return s.createPod(ctx, member("bad-2", "bad", 0))
			},
			check: s.phase("bad", v1alpha1.PodGroupRunning, 2, 0, 0),
		},
	})
}

// Cases 72 and 74: what a gang lacks stands on the group and on each pod.
func TestPodsAreToldWhatTheirGangLacks(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name:  "pods without their group",
			do:    func(ctx context.Context) error { return s.createMembers(ctx, "g", 1, "g-0", "g-1") },
			check: all(s.podsTold("g", 2, tuttiapi.IncompleteReason, "no PodGroup"), s.eventOn("Pod", "g-0", "GangIncomplete", 1, "no PodGroup")),
		},
		{
			name: "a group that wants more pods",
			do:   func(ctx context.Context) error { return s.createPodGroup(ctx, "g", 3) },
			check: all(
				s.condition("g", metav1.ConditionFalse, tuttiapi.IncompleteReason, "2 exist", "minimum is 3"),
				s.podsTold("g", 2, tuttiapi.IncompleteReason, "2 exist", "minimum is 3"),
				s.eventOn("PodGroup", "g", "GangIncomplete", 1, "2 exist"),
			),
		},
		{
			name: "the minimum is lowered",
			do: func(ctx context.Context) error {
				_, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Patch(ctx, "g", types.MergePatchType,
					[]byte(`{"spec":{"minMember":2}}`), metav1.PatchOptions{})
				return err
			},
			check: s.bound("g", 2),
		},
		{
			name: "the group goes, and pods of it come",
			do: func(ctx context.Context) error {
				if err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Delete(ctx, "g", metav1.DeleteOptions{}); err != nil {
					return err
				}
				return s.createMembers(ctx, "g", 1, "g-2")
			},
			check: s.eventOn("Pod", "g-2", "GangIncomplete", 1, "no PodGroup"),
		},
		{
			name:  "it comes back",
			do:    func(ctx context.Context) error { return s.createPodGroup(ctx, "g", 3) },
			check: s.bound("g", 3),
		},
	})
}

// A verdict is told once on the group and on the job that made it, and again
// only when it changes, however often the gang is tried.
func TestVerdictIsToldOnceToGroupAndJob(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "a job that does not fit",
			do: func(ctx context.Context) error {
				return s.createJob(ctx, job("big", workers(70, 8)))
			},
			check: all(
				s.refused("big", 70, "64 of 70"),
				s.eventOn("PodGroup", "big", "FailedScheduling", 1, "64 of 70"),
				s.eventOn("TFJob", "big", "FailedScheduling", 1, "64 of 70"),
				s.unschedulable("big"),
			),
		},
		{
			name:  "something that could have helped comes and goes",
			do:    func(ctx context.Context) error { return s.createPod(ctx, single("passer-by", "", 0)) },
			check: s.podHasNode("passer-by"),
		},
		{
			name: "so the job is tried again, without a word",
			do: func(ctx context.Context) error {
				if err := s.plane.Client.CoreV1().Pods(s.namespace).Delete(ctx, "passer-by", metav1.DeleteOptions{}); err != nil {
					return err
				}
				select {
				case <-time.After(3 * time.Second): // a retry comes within a second; there is nothing to wait for when it says nothing
				case <-ctx.Done():
				}
				return nil
			},
			check: all(
				s.eventOn("PodGroup", "big", "FailedScheduling", 1, "64 of 70"),
				s.eventOn("TFJob", "big", "FailedScheduling", 1, "64 of 70"),
			),
		},
	})
}

func (s *scene) podHasNode(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("pod %s has no node: %v", name, pod.Status.Conditions)
		}
		return err
	}
}

// A gang that lacks nothing but a volume claim starts when it comes.
func TestLateVolumeClaimWakesItsGang(t *testing.T) {
	s := newScene(t, shared)
	withClaim := func(name string) *corev1.Pod {
		pod := member(name, "train", 1)
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		return pod
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: s.namespace,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		},
	}
	t.Cleanup(func() {
		_ = s.plane.Client.CoreV1().PersistentVolumes().Delete(context.WithoutCancel(t.Context()), volume.Name, metav1.DeleteOptions{})
	})
	var created time.Time
	s.run([]step{
		{
			name: "a gang that names a claim",
			do: func(ctx context.Context) error {
				return errors.Join(s.createPodGroup(ctx, "train", 2), s.createPod(ctx, withClaim("train-0")), s.createPod(ctx, withClaim("train-1")))
			},
			check: s.refused("train", 2, "persistentvolumeclaim", "not found"),
		},
		{
			name: "a volume", // known before the claim comes, which otherwise waits for the volume controller's next look
			do: func(ctx context.Context) error {
				_, err := s.plane.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
				return err
			},
			check: func(ctx context.Context) error {
				is, err := s.plane.Client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
				if err == nil && is.Status.Phase != corev1.VolumeAvailable {
					err = fmt.Errorf("volume %s is %q", volume.Name, is.Status.Phase)
				}
				return err
			},
		},
		{
			name: "the claim",
			do: func(ctx context.Context) error {
				created = time.Now()
				_, err := s.plane.Client.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, &corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: volume.Spec.AccessModes, StorageClassName: &s.namespace, Resources: corev1.VolumeResourceRequirements{Requests: size},
					},
				}, metav1.CreateOptions{})
				return err
			},
			check: all(s.bound("train", 2), func(context.Context) error {
				if bound, ok := s.boundSince("train"); !ok || bound.Before(created) {
					return errors.New("the recorder has not seen it yet")
				}
				return nil
			}),
		},
	})
	if bound, ok := s.boundSince("train"); !ok || bound.Sub(created) > lostEvent/3 {
		t.Errorf("the gang was bound %s after its claim: nothing woke it", bound.Sub(created))
	}
}

func TestLateGangIsToldSo(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{{
		name: "a gang that does not fit within its time",
		do: func(ctx context.Context) error {
			group := &v1alpha1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "late"},
				Spec:       v1alpha1.PodGroupSpec{MinMember: 2, ScheduleTimeoutSeconds: new(int32(2))},
			}
			if _, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
				return err
			}
			return s.createMembers(ctx, "late", 9, "late-0", "late-1") // no node has 9 GPUs
		},
		check: s.condition("late", metav1.ConditionFalse, tuttiapi.UnschedulableReason, "scheduleTimeoutSeconds of 2", "behind others"),
	}})
}

// A label edited by hand changes nothing but confuses nobody: the gang and
// others go on as if it had not been.
func TestLabelEditedByHand(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{
			name: "a gang that lacks a pod",
			do: func(ctx context.Context) error {
				return errors.Join(s.createPodGroup(ctx, "g", 3), s.createPodGroup(ctx, "h", 2), s.createMembers(ctx, "g", 1, "g-0", "g-1"))
			},
			check: s.condition("g", metav1.ConditionFalse, tuttiapi.IncompleteReason),
		},
		{
			name: "one of its pods is given to another",
			do: func(ctx context.Context) error {
				_, err := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, "g-0", types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"`+v1alpha1.PodGroupLabel+`":"h"}}}`), metav1.PatchOptions{})
				return err
			},
			check: s.eventOn("Pod", "g-0", "GangUnchanged", 1, `from "g" to "h"`, "in gang g"),
		},
		{
			name: "the other gang comes, and does without it",
			do: func(ctx context.Context) error {
				return s.createMembers(ctx, "h", 1, "h-0", "h-1")
			},
			check: all(s.podHasNode("h-0"), s.podHasNode("h-1")),
		},
		{
			name:  "the third pod of the first",
			do:    func(ctx context.Context) error { return s.createMembers(ctx, "g", 1, "g-2") },
			check: all(s.podHasNode("g-0"), s.podHasNode("g-1"), s.podHasNode("g-2")),
		},
		{
			name: "pods edited and deleted leave nothing behind",
			do: func(ctx context.Context) error {
				if err := s.plane.Client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
					return err
				}
				return s.createMembers(ctx, "g", 1, "g-3", "g-4", "g-5")
			},
			check: all(s.podHasNode("g-3"), s.podHasNode("g-4"), s.podHasNode("g-5")),
		},
	})
}
