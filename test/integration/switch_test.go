// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/controlplane"
)

// TestAJobOfTrainingOperatorGoesOn: a job that training-operator started runs
// when the controller is installed. None of its objects is made anew, and it goes
// on to its end.
func TestAJobOfTrainingOperatorGoesOn(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	s := newScene(t, plane)

	j := job("train", ps(1), workers(2, 0))
	for _, spec := range j.Spec.TFReplicaSpecs {
		spec.Template.Spec.NodeName = "n001"
	}
	j.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyRunning)
	stored, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Create(t.Context(), j, metav1.CreateOptions{})
	must(t, err)
	names := []string{"train-ps-0", "train-worker-0", "train-worker-1"}
	before := map[string]types.UID{}
	for _, name := range names {
		before[name] = s.leaveReplica(stored, name)
	}
	s.leaveStatusAndGroup(stored)
	s.leaveFinished("done")
	s.eventually(t.Context(), "its pods run", func(ctx context.Context) error { return s.inPhase(ctx, names, corev1.PodRunning) })

	_, err = plane.StartController("--leader-elect=false")
	must(t, err)
	s.run([]step{{
		name:  "the PodGroup is taken over",
		check: s.wantsMembers("train", 3),
	}, {
		name: "kubectl shows the state of one that is over",
		check: func(ctx context.Context) error {
			done, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, "done", metav1.GetOptions{})
			if err == nil && done.Status.State != kubeflowv1.JobSucceeded {
				err = fmt.Errorf("state %q", done.Status.State)
			}
			return err
		},
	}})
	time.Sleep(atRest) // long enough to do harm
	for _, name := range names {
		pod, err := plane.Client.CoreV1().Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if pod.UID != before[name] || pod.DeletionTimestamp != nil {
			t.Errorf("pod %s was %s and is %s, going %v", name, before[name], pod.UID, pod.DeletionTimestamp)
		}
	}
	s.run([]step{{
		name: "its worker 0 ends, and so does the job",
		do: func(ctx context.Context) error {
			end := []byte(`{"status":{"phase":"Succeeded","containerStatuses":[{"name":"tensorflow","image":"","imageID":"","ready":false,"restartCount":0,` +
				`"state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}}`)
			_, err := plane.Client.CoreV1().Pods(s.namespace).Patch(ctx, "train-worker-0", types.MergePatchType, end, metav1.PatchOptions{}, "status")
			return err
		},
		check: func(ctx context.Context) error {
			now, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, "train", metav1.GetOptions{})
			if err == nil && (now.Status.State != kubeflowv1.JobSucceeded || !now.Status.StartTime.Equal(stored.Status.StartTime)) {
				err = fmt.Errorf("state %s, started %v", now.Status.State, now.Status.StartTime)
			}
			return err
		},
	}, {
		name:  "what still ran is cleaned up",
		check: s.exists("train", 1),
	}})
}

// leaveReplica makes a pod and its service as training-operator 1.9 does.
func (s *scene) leaveReplica(j *kubeflowv1.TFJob, name string) types.UID {
	ctx := s.t.Context()
	parts := strings.Split(name, "-")
	kind, index := parts[1], parts[2]
	spec := j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker]
	if kind == "ps" {
		spec = j.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypePS]
	}
	labels := map[string]string{
		"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": j.Name,
		"training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": index,
	}
	meta := metav1.ObjectMeta{Name: name, Labels: labels, OwnerReferences: ownedBy(j)}
	_, err := s.plane.Client.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: labels, Ports: []corev1.ServicePort{{Name: "tfjob-port", Port: 2222}},
	}}, metav1.CreateOptions{})
	must(s.t, err)
	meta.Labels = maps.Clone(labels)
	meta.Labels[v1alpha1.PodGroupLabel] = j.Name
	pod := &corev1.Pod{ObjectMeta: meta, Spec: *spec.Template.Spec.DeepCopy()}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	made, err := s.plane.Client.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
	must(s.t, err)
	return made.UID
}

// leaveStatusAndGroup: its PodGroup bears no labels, and its status no fields of
// ours. The stored job is as the API server has it then.
func (s *scene) leaveStatusAndGroup(j *kubeflowv1.TFJob) {
	ctx := s.t.Context()
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: j.Name, OwnerReferences: ownedBy(j)}, Spec: v1alpha1.PodGroupSpec{MinMember: 2}}
	_, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).Create(ctx, group, metav1.CreateOptions{})
	must(s.t, err)
	started := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	j.Status.StartTime = &started
	for _, t := range []kubeflowv1.JobConditionType{kubeflowv1.JobCreated, kubeflowv1.JobRunning} {
		j.Status.Conditions = append(j.Status.Conditions, kubeflowv1.JobCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: "TFJob" + string(t), LastUpdateTime: started, LastTransitionTime: started,
		})
	}
	j.Status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{
		kubeflowv1.TFJobReplicaTypePS: {Active: 1}, kubeflowv1.TFJobReplicaTypeWorker: {Active: 2},
	}
	_, err = s.tutti.KubeflowV1().TFJobs(s.namespace).UpdateStatus(ctx, j, metav1.UpdateOptions{})
	must(s.t, err)
}

// leaveFinished makes a job that training-operator has brought to its end.
func (s *scene) leaveFinished(name string) {
	jobs := s.tutti.KubeflowV1().TFJobs(s.namespace)
	j, err := jobs.Create(s.t.Context(), job(name, workers(1, 0)), metav1.CreateOptions{})
	must(s.t, err)
	ended := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	j.Status.CompletionTime = &ended
	for _, c := range []kubeflowv1.JobCondition{
		{Type: kubeflowv1.JobCreated, Status: corev1.ConditionTrue}, {Type: kubeflowv1.JobRunning, Status: corev1.ConditionFalse},
		{Type: kubeflowv1.JobSucceeded, Status: corev1.ConditionTrue},
	} {
		c.Reason, c.LastUpdateTime, c.LastTransitionTime = "TFJob"+string(c.Type), ended, ended
		j.Status.Conditions = append(j.Status.Conditions, c)
	}
	_, err = jobs.UpdateStatus(s.t.Context(), j, metav1.UpdateOptions{})
	must(s.t, err)
}

func ownedBy(j *kubeflowv1.TFJob) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "kubeflow.org/v1", Kind: "TFJob", Name: j.Name, UID: j.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}

func (s *scene) inPhase(ctx context.Context, names []string, want corev1.PodPhase) error {
	for _, name := range names {
		pod, err := s.plane.Client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != want {
			return fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
		}
	}
	return nil
}
