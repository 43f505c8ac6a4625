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

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// state is true when the job is in it.
func (s *scene) state(name string, want kubeflowv1.JobConditionType) func(context.Context) error {
	return func(ctx context.Context) error {
		j, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && j.Status.State != want {
			err = fmt.Errorf("job %s is %s, want %s; conditions %v", name, j.Status.State, want, j.Status.Conditions)
		}
		return err
	}
}

func (s *scene) edit(name string, change func(*kubeflowv1.TFJob)) func(context.Context) error {
	return func(ctx context.Context) error { return s.editJob(ctx, name, change) }
}

// TestAnImpossibleEditOfARunningJob: what the schema lets through and cannot be
// carried out is told, and takes nothing from a job that runs.
func TestAnImpossibleEditOfARunningJob(t *testing.T) {
	s := newScene(t, shared)
	s.run([]step{
		{name: "a job runs", do: s.create(job("train", ps(1), workers(2, 1))), check: all(s.running("train", 3), s.state("train", kubeflowv1.JobRunning))},
		{
			name: "an annotation with a slip of the pen, and all replicas 0",
			do: s.edit("train", func(j *kubeflowv1.TFJob) {
				annotated(j, tuttiapi.CompletionAnnotation, "main-contaner")
				for _, spec := range j.Spec.TFReplicaSpecs {
					spec.Replicas = new(int32(0))
				}
			}),
			check: s.eventOn("TFJob", "train", kubeflowv1.TFJobFailedValidationReason, 1, tuttiapi.CompletionAnnotation, "0 replicas"),
		},
		{name: "it runs on", check: stays(all(s.running("train", 3), s.state("train", kubeflowv1.JobRunning)))},
		{
			name: "the edit is taken back, and there is a worker more",
			do: s.edit("train", func(j *kubeflowv1.TFJob) {
				delete(j.Annotations, tuttiapi.CompletionAnnotation)
				j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypePS].Replicas = new(int32(1))
				j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas = new(int32(3))
			}),
			check: all(s.running("train", 4), s.state("train", kubeflowv1.JobRunning)),
		},
	})
}

// TestAServiceOfAnothersHoldsItsJobBack until its name is free.
func TestAServiceOfAnothersHoldsItsJobBack(t *testing.T) {
	s := newScene(t, shared)
	services := s.plane.Client.CoreV1().Services(s.namespace)
	s.run([]step{
		{
			name: "a service bears a name of the job's",
			do: func(ctx context.Context) error {
				_, err := services.Create(ctx, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "train-worker-1"},
					Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
				}, metav1.CreateOptions{})
				return errors.Join(err, s.createJob(ctx, job("train", workers(2, 1))))
			},
			check: s.eventOn("TFJob", "train", "FailedCreateService", 1, "train-worker-1", "does not belong to the job"),
		},
		{name: "no pod is made", check: stays(s.exists("train", 0))},
		{
			name:  "the name is free",
			do:    func(ctx context.Context) error { return services.Delete(ctx, "train-worker-1", metav1.DeleteOptions{}) },
			check: s.running("train", 2),
		},
	})
}

// TestAJobWhosePodsDoNotGoResumesWhenTheyHave: a finalizer keeps a pod of a
// suspended job. It is never taken for one of the resumed job's.
func TestAJobWhosePodsDoNotGoResumesWhenTheyHave(t *testing.T) {
	s := newScene(t, shared)
	held := job("train", workers(2, 1))
	held.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Finalizers = []string{"example.com/keep"}
	suspend := func(is bool) func(context.Context) error {
		return s.edit("train", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.Suspend = &is })
	}
	free := func(ctx context.Context) error {
		pods, err := s.plane.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			_, err := s.plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
	t.Cleanup(func() { _ = free(context.WithoutCancel(t.Context())) })
	s.run([]step{
		{name: "it runs", do: s.create(held), check: all(s.running("train", 2), s.state("train", kubeflowv1.JobRunning))},
		{name: "it is suspended", do: suspend(true), check: s.state("train", kubeflowv1.JobSuspended)},
		{name: "and resumed", do: suspend(false), check: stays(s.state("train", kubeflowv1.JobSuspended))},
		{
			name: "its pods can go",
			do: func(ctx context.Context) error {
				return errors.Join(s.edit("train", func(j *kubeflowv1.TFJob) { // the next ones need no help
					j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Finalizers = nil
				})(ctx), free(ctx))
			},
			check: all(s.running("train", 2), s.state("train", kubeflowv1.JobRunning)),
		},
	})
}

// TestWhatASuspensionEndsHasNeitherFailedNorSucceeded: one pod is drained in the
// moment of the suspension, and the other's program returns 0 when it is told to go.
// The resumed job runs both again, under Never too.
func TestWhatASuspensionEndsHasNeitherFailedNorSucceeded(t *testing.T) {
	s := newScene(t, shared)
	train := job("train", workers(2, 1))
	train.Spec.SuccessPolicy = new(kubeflowv1.SuccessPolicyAllWorkers)
	train.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Annotations = map[string]string{"demo.tutti.dev/stop-after": "10s"}
	pods := s.plane.Client.CoreV1().Pods(s.namespace)
	s.run([]step{
		{name: "it runs", do: s.create(train), check: all(s.running("train", 2), s.state("train", kubeflowv1.JobRunning))},
		{
			name: "a drain, and a suspension",
			do: func(ctx context.Context) error {
				return errors.Join(pods.Delete(ctx, "train-worker-0", metav1.DeleteOptions{}),
					s.edit("train", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.Suspend = new(true) })(ctx))
			},
			check: func(ctx context.Context) error {
				pod, err := pods.Get(ctx, "train-worker-1", metav1.GetOptions{})
				if err == nil && pod.DeletionTimestamp == nil {
					err = errors.New("train-worker-1 has not been told to go")
				}
				return err
			},
		},
		{
			name: "the program returns 0",
			do: func(ctx context.Context) error {
				end := fmt.Appendf(nil, `{"status":{"phase":"Succeeded","containerStatuses":[{"name":"tensorflow","image":"i","imageID":"","ready":false,"restartCount":0,
					"state":{"terminated":{"exitCode":0,"finishedAt":%q}}}]}}`, time.Now().UTC().Format(time.RFC3339))
				_, err := pods.Patch(ctx, "train-worker-1", types.MergePatchType, end, metav1.PatchOptions{}, "status")
				return err
			},
			check: all(s.exists("train", 0), s.state("train", kubeflowv1.JobSuspended)),
		},
		{
			name:  "it is resumed",
			do:    s.edit("train", func(j *kubeflowv1.TFJob) { j.Spec.RunPolicy.Suspend = new(false) }),
			check: all(s.running("train", 2), s.state("train", kubeflowv1.JobRunning)),
		},
	})
}

// TestAJobInANamespaceThatIsDeletedGoesWithIt, and so does one that ends with no
// time to live.
func TestJobsGoWithoutATrace(t *testing.T) {
	s := newScene(t, shared)
	short := job("short", ps(1), workers(1, 0))
	short.Spec.RunPolicy.TTLSecondsAfterFinished, short.Spec.RunPolicy.CleanPodPolicy = new(int32(0)), new(kubeflowv1.CleanPodPolicyAll)
	for _, spec := range short.Spec.TFReplicaSpecs {
		spec.Template.Annotations = map[string]string{"demo.tutti.dev/run-for": "100ms"}
	}
	s.run([]step{
		{name: "no time to live", do: s.create(short), check: func(ctx context.Context) error {
			_, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, "short", metav1.GetOptions{})
			services, listErr := s.plane.Client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
			if listErr != nil || !apierrors.IsNotFound(err) || len(services.Items) > 0 {
				return fmt.Errorf("the job: %w; %d services, %w", err, len(services.Items), listErr)
			}
			return s.exists("short", 0)(ctx)
		}},
		{name: "a job with a name as long as names can be", do: s.create(job("a234567890123456789012345678901234567890123456789012", workers(2, 1))),
			check: s.running("a234567890123456789012345678901234567890123456789012", 2)},
		{
			name: "the namespace is deleted while a job starts",
			do: func(ctx context.Context) error {
				return errors.Join(s.createJob(ctx, job("train", workers(8, 1))),
					s.plane.Client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
			},
			check: func(ctx context.Context) error {
				_, err := s.plane.Client.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("the namespace is there: %w", err)
			},
		},
	})
}
