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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1beta1 "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	"k8s.io/client-go/util/retry"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
)

// TestJobsAreNativeGangsWhereTheAPIServerHasThem: with --pod-group-api=auto, on
// an API server with PodGroups of its own, a job's gang is one of those, from
// its creation over a suspension to its end. Both Tutti's scheduler and
// Kubernetes' place it.
func TestJobsAreNativeGangsWhereTheAPIServerHasThem(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir:                   t.TempDir(),
		APIServerArgs:         nativeAPI,
		ControllerManagerArgs: []string{"--feature-gates=GenericWorkload=true"},
		Components:            []string{"native-pod-groups"},
	})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	_, err = plane.StartScheduler()
	must(t, err)
	_, err = plane.StartKubeScheduler("--feature-gates=GenericWorkload=true")
	must(t, err)
	_, err = plane.StartController("--pod-group-api=auto")
	must(t, err)
	for _, scheduler := range []string{tuttiapi.SchedulerName, corev1.DefaultSchedulerName} {
		t.Run(scheduler, func(t *testing.T) { jobIsANativeGang(t, plane, scheduler) })
	}
	t.Run("a job that does not fit within its time", func(t *testing.T) { nativeJobIsLate(t, plane) })
	t.Run("a patch of what has changed", func(t *testing.T) { stalePatchIsAConflict(t, plane) })
}

// The time that a job's gang may wait for its place reaches the scheduler
// through a native group too, and so does another one.
func nativeJobIsLate(t *testing.T, plane *controlplane.ControlPlane) {
	s := newScene(t, plane)
	late := job("late", workers(2, 9)) // no node has 9 GPUs
	late.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{ScheduleTimeoutSeconds: new(int32(2))}
	s.run([]step{
		{
			name:  "a verdict that says so",
			do:    s.create(late),
			check: s.nativeCondition("late", tuttiapi.GangPlacedCondition, metav1.ConditionFalse, "scheduleTimeoutSeconds of 2", "behind others"),
		},
		{
			name: "kubectl tutti says so too, and what would be if it asked for less",
			do: func(context.Context) error {
				s.says([]string{"tfjob " + s.namespace + "/late waits", "nvidia.com/gpu"}, "why", "late")
				s.says([]string{"tfjob " + s.namespace + "/late would start: placed 2 pods in"}, "plan", "-f", s.manifest(job("late", workers(2, 8))))
				return nil
			},
		},
		{
			name: "it may wait for ever",
			do: func(ctx context.Context) error {
				return s.editJob(ctx, "late", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.SchedulingPolicy = nil })
			},
			check: func(ctx context.Context) error {
				group, err := s.nativeGroups().Get(ctx, "late", metav1.GetOptions{})
				if err == nil && group.Annotations[tuttiapi.ScheduleTimeoutAnnotation] != "" {
					err = errors.New("the timeout is still there")
				}
				return err
			},
		},
	})
}

// stalePatchIsAConflict: the controller's patches of PodGroups write the resource
// version that they were made from. The API server answers one that comes too
// late as a conflict, for either kind, and not as an invalid patch.
func stalePatchIsAConflict(t *testing.T, plane *controlplane.ControlPlane) {
	s := newScene(t, plane)
	native, err := s.nativeGroups().Create(t.Context(), nativeGroup("native", 2, ""), metav1.CreateOptions{})
	must(t, err)
	must(t, s.createPodGroup(t.Context(), "crd", 2))
	crds := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace)
	crd, err := crds.Get(t.Context(), "crd", metav1.GetOptions{})
	must(t, err)
	for name, patch := range map[string]func(version string) error{
		"native": func(version string) error {
			_, err := s.nativeGroups().Patch(t.Context(), native.Name, types.JSONPatchType, annotating(version), metav1.PatchOptions{})
			return err
		},
		"crd": func(version string) error {
			_, err := crds.Patch(t.Context(), crd.Name, types.JSONPatchType, annotating(version), metav1.PatchOptions{})
			return err
		},
	} {
		version := map[string]string{"native": native.ResourceVersion, "crd": crd.ResourceVersion}[name]
		if err := patch(version); err != nil {
			t.Errorf("%s: in time: %v", name, err)
		}
		if err := patch(version); !apierrors.IsConflict(err) {
			t.Errorf("%s: too late: got %v, want a conflict", name, err)
		}
	}
}

// annotating is a patch as the controller makes them, different every time.
func annotating(version string) []byte {
	return fmt.Appendf(nil, `[{"op":"replace","path":"/metadata/resourceVersion","value":%q},{"op":"add","path":"/metadata/annotations","value":{"at":%q}}]`,
		version, time.Now().String())
}

func jobIsANativeGang(t *testing.T, plane *controlplane.ControlPlane, scheduler string) {
	s := newScene(t, plane)
	ofScheduler := func(j *kubeflowv1.TFJob) *kubeflowv1.TFJob {
		for _, r := range j.Spec.TFReplicaSpecs {
			r.Template.Spec.SchedulerName = scheduler
		}
		return j
	}
	train := annotated(ofScheduler(job("train", ps(2), workers(6, 8))), tuttiapi.RequiredTopologyAnnotation, "rack")
	train.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{MinAvailable: new(int32(7))}
	suspend := func(is bool) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.editJob(ctx, "train", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.Suspend = &is })
		}
	}
	s.run([]step{
		{
			name:  "a job of which one worker may be missing",
			do:    func(ctx context.Context) error { return s.createJob(ctx, train) },
			check: all(s.bound("train", 8), s.running("train", 8), s.nativeMembers("train", 8)),
		},
		{name: "in one rack, if Tutti places it", check: func(ctx context.Context) error {
			if scheduler != tuttiapi.SchedulerName {
				return nil
			}
			return s.racks("train", 1)(ctx)
		}},
		{name: "its group", check: s.nativeGang("train", 7, "ps=2,worker=5")},
		{
			name: "all are needed",
			do: func(ctx context.Context) error {
				return s.editJob(ctx, "train", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.SchedulingPolicy = nil })
			},
			check: s.nativeGang("train", 8, ""),
		},
		{name: "it is suspended", do: suspend(true), check: all(s.noNativeGang("train"), s.running("train", 0))},
		{name: "and resumed", do: suspend(false), check: all(s.nativeGang("train", 8, ""), s.running("train", 8))},
		{
			name: "there is no other group",
			check: func(ctx context.Context) error {
				groups, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).List(ctx, metav1.ListOptions{})
				if err == nil && len(groups.Items) > 0 {
					err = errors.New("there is a PodGroup of the CRD")
				}
				return err
			},
		},
		{
			name: "a short one ends, and its group goes",
			do: func(ctx context.Context) error {
				short := ofScheduler(job("short", workers(2, 1)))
				short.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Annotations = map[string]string{"demo.tutti.dev/run-for": "100ms"}
				return s.createJob(ctx, short)
			},
			check: func(ctx context.Context) error {
				j, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, "short", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if j.Status.State != kubeflowv1.JobSucceeded {
					return fmt.Errorf("the job is %s", j.Status.State)
				}
				return s.noNativeGang("short")(ctx)
			},
		},
	})
	s.expectWhole(t, "short", 2)
}

func (s *scene) editJob(ctx context.Context, name string, edit func(*kubeflowv1.TFJob)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		jobs := s.tutti.KubeflowV1().TFJobs(s.namespace)
		j, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(j)
		_, err = jobs.Update(ctx, j, metav1.UpdateOptions{})
		return err
	})
}

// nativeMembers is true when just so many pods name the group in their spec.
func (s *scene) nativeMembers(gang string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		members := 0
		for _, pod := range pods.Items {
			if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil && *group.PodGroupName == gang {
				members++
			}
		}
		if members != want {
			return fmt.Errorf("%d pods are members of %s, want %d", members, gang, want)
		}
		return nil
	}
}

func (s *scene) nativeGang(name string, minCount int32, minimums string) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.nativeGroups().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if gang := group.Spec.SchedulingPolicy.Gang; gang == nil || gang.MinCount != minCount || group.Spec.DisruptionMode.All == nil {
			return fmt.Errorf("the group is %+v", group.Spec)
		}
		if got := group.Annotations[tuttiapi.RoleMinimumsAnnotation]; got != minimums {
			return fmt.Errorf("the minimums of roles are %q, want %q", got, minimums)
		}
		return nil
	}
}

func (s *scene) noNativeGang(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		group, err := s.nativeGroups().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("the group is there, deleted at %v, finalizers %v", group.DeletionTimestamp, group.Finalizers)
		}
		return err
	}
}

func (s *scene) nativeGroups() schedulingv1beta1.PodGroupInterface {
	return s.plane.Client.SchedulingV1beta1().PodGroups(s.namespace)
}
