// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

var nativeOptions = ofEitherKind["native"]

func newNativeGroupOf(v *view) *schedulingv1beta1.PodGroup {
	return NativePodGroups.write(gangOf(v, count(v, testTime))).(*schedulingv1beta1.PodGroup)
}

func TestNativePodGroup(t *testing.T) {
	job := makeJob(replicas(ps, 2), replicas(worker, 4), scheduling(kubeflowv1.SchedulingPolicy{
		MinAvailable: ptr.To[int32](5), PriorityClass: "high", ScheduleTimeoutSeconds: ptr.To[int32](90),
	}))
	job.Annotations = map[string]string{"tutti.dev/required-topology": "rack", corev1.LastAppliedConfigAnnotation: "{}"}
	want := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j", Namespace: "n", OwnerReferences: ownerOfTestJob(),
			Labels: map[string]string{
				"training.kubeflow.org/operator-name": "tfjob-controller",
				"training.kubeflow.org/job-name":      "j",
			},
			Annotations: map[string]string{
				"tutti.dev/required-topology": "rack", "tutti.dev/role-minimums": "ps=2,worker=3", "tutti.dev/schedule-timeout-seconds": "90",
			},
		},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy:  schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 5}},
			DisruptionMode:    &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}},
			PriorityClassName: "high",
		},
	}
	if diff := cmp.Diff(want, newNativeGroupOf(makeView(t, job))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v := makeView(t, job)
	pod, err := newPod(v, newcomer{slot: slot{&v.roles[0], 1}}, nativeOptions)
	if err != nil {
		t.Fatal(err)
	}
	group := pod.Spec.SchedulingGroup
	if group == nil || group.PodGroupName == nil || *group.PodGroupName != "j" || pod.Labels["scheduling.x-k8s.io/pod-group"] != "j" {
		t.Errorf("the pod is in %v, labels %v", group, pod.Labels)
	}
}

func TestNativePodGroupPatch(t *testing.T) {
	const unchanged = `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},`
	want := newNativeGroupOf(makeView(t, makeJob(replicas(worker, 2))))
	for name, tc := range map[string]struct {
		change func(*schedulingv1beta1.PodGroup)
		want   string
	}{
		"the same needs none": {func(*schedulingv1beta1.PodGroup) {}, ""},
		"what the API server and others add": {func(g *schedulingv1beta1.PodGroup) {
			g.Finalizers, g.Spec.Priority = []string{"scheduling.k8s.io/podgroup-protection"}, ptr.To[int32](0)
			g.Status.Conditions = []metav1.Condition{{Type: "PodGroupInitiallyScheduled"}}
		}, ""},
		"another timeout": {func(g *schedulingv1beta1.PodGroup) {
			g.Annotations = map[string]string{"tutti.dev/schedule-timeout-seconds": "60"}
		},
			unchanged + `{"op":"add","path":"/metadata/annotations","value":{}}]`},
		"another size": {func(g *schedulingv1beta1.PodGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 3 },
			unchanged + `{"op":"replace","path":"/spec/schedulingPolicy/gang/minCount","value":2}]`},
		"what cannot be changed is left": {func(g *schedulingv1beta1.PodGroup) {
			g.Spec.PriorityClassName, g.Spec.DisruptionMode = "low", nil
			g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := want.DeepCopy()
			is.ResourceVersion = "7"
			tc.change(is)
			if got := string(NativePodGroups.patch(is, want)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Somebody deletes the PodGroup of a job that runs. Kubernetes keeps it as long as a pod does, so a lost pod is replaced meanwhile; when none
// runs, it goes, and comes again.
func TestANativePodGroupThatIsToGoHoldsNothingUp(t *testing.T) {
	v := makeView(t, makeJob(replicas(worker, 2)), makePod("worker", 0, running))
	group := newNativeGroupOf(v)
	group.DeletionTimestamp = &metav1.Time{Time: testTime}
	v.groups["j"] = group
	if diff := cmp.Diff([]string{"create pod j-worker-1"}, actions(v, decide(v, nativeOptions, testTime))); diff != "" {
		t.Errorf("while a pod runs (-want +got):\n%s", diff)
	}
	clear(v.pods)
	if got := actions(v, decide(v, nativeOptions, testTime)); got != nil {
		t.Errorf("on its way out: %v", got)
	}
	clear(v.groups)
	want := []string{"create group j", "create pod j-worker-0", "create pod j-worker-1"}
	if diff := cmp.Diff(want, actions(v, decide(v, nativeOptions, testTime))); diff != "" {
		t.Errorf("when it is gone (-want +got):\n%s", diff)
	}
}
