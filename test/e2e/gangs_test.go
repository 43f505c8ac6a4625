// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const (
	rounds = 20
	// watched is how long nothing must happen to believe that nothing does.
	watched = 10 * time.Second
	forever = "import time; time.sleep(3600)"
)

// gpuGang is a job of workers with so many GPUs each, that has succeeded when
// all have.
func gpuGang(name, program string, workers int32, gpus int64) *kubeflowv1.TFJob {
	job := scripted(name, program, map[kubeflowv1.ReplicaType]int32{kubeflowv1.TFJobReplicaTypeWorker: workers})
	job.Spec.SuccessPolicy = new(kubeflowv1.SuccessPolicyAllWorkers)
	return each(job, func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	})
}

// TestGangThatDoesNotFit: 4 x 8 GPUs on 3 x 8. Not one of its pods gets a node,
// and another gang takes all the GPUs beside it.
func TestGangThatDoesNotFit(t *testing.T) {
	long(t)
	s := newScene(t)
	s.create(gpuGang("large", forever, 4, 8))
	s.eventually("large is told that it does not fit", func(ctx context.Context) error {
		pods, err := s.gang(ctx, "large", 4)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if reason := unschedulable(&pod); reason == "" {
				return fmt.Errorf("pod %s has no reason", pod.Name)
			}
		}
		return nil
	})
	s.create(gpuGang("exact", "import time; time.sleep(5)", 3, 8))
	for end := time.Now().Add(watched); time.Now().Before(end); time.Sleep(pollInterval) {
		pods, err := s.gang(t.Context(), "large", 4)
		must(t, err)
		for _, pod := range pods {
			if pod.Spec.NodeName != "" {
				t.Fatalf("pod %s of a gang that does not fit is on %s", pod.Name, pod.Spec.NodeName)
			}
		}
	}
	s.ends("exact", kubeflowv1.JobSucceeded)
}

// TestGangsContend: two gangs of 2 x 8 GPUs on 3 x 8. In every round one runs
// after the other, whole, and the kubelets take all that the scheduler gives.
func TestGangsContend(t *testing.T) {
	long(t)
	s := newScene(t)
	for round := range rounds {
		jobs := []string{fmt.Sprintf("red-%d", round), fmt.Sprintf("blue-%d", round)}
		begin := time.Now()
		for _, job := range jobs {
			s.create(gpuGang(job, "import time; time.sleep(2)", 2, 8))
		}
		var spans []span
		for _, job := range jobs {
			s.ends(job, kubeflowv1.JobSucceeded)
			span, err := s.span(t.Context(), job, 2)
			must(t, err)
			spans = append(spans, span)
		}
		slices.SortFunc(spans, func(a, b span) int { return a.bound.Compare(b.bound) })
		// The API server keeps whole seconds.
		if spans[1].bound.Add(time.Second).Before(spans[0].ended) {
			t.Errorf("round %d: the second gang was bound at %s, the first ended at %s", round, spans[1].bound, spans[0].ended)
		}
		s.vanish(jobs...)
		t.Logf("round %d: %.0f s", round, time.Since(begin).Seconds())
	}
}

// span is from when a gang's first pod got a node until its first pod ended.
type span struct{ bound, ended time.Time }

func (s *scene) span(ctx context.Context, job string, size int) (span, error) {
	pods, err := s.gang(ctx, job, size)
	if err != nil {
		return span{}, err
	}
	var whole span
	for _, pod := range pods {
		bound, ended := boundAt(&pod), pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
		if whole.bound.IsZero() || bound.Before(whole.bound) {
			whole.bound = bound
		}
		if whole.ended.IsZero() || ended.Before(whole.ended) {
			whole.ended = ended
		}
	}
	return whole, nil
}

// gang returns the pods of a job, of which there must be so many.
func (s *scene) gang(ctx context.Context, job string, size int) ([]corev1.Pod, error) {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "training.kubeflow.org/job-name=" + job})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != size {
		return nil, fmt.Errorf("job %s has %d pods, want %d", job, len(pods.Items), size)
	}
	return pods.Items, nil
}

// unschedulable returns what the scheduler says of a pod that it cannot place.
func unschedulable(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}
