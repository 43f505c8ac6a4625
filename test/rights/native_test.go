// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

const nativeRole = "tutti-controller:native-pod-groups"

// TestTheRightsToNativeGroupsAreUsedAndNoneIsMissing: so are those of the
// component native-pod-groups, on a control plane that serves such groups.
func TestTheRightsToNativeGroupsAreUsedAndNoneIsMissing(t *testing.T) {
	before := stage
	t.Cleanup(func() { stage = before })
	startNative(t)
	namespace := newNamespace(t)
	groups := stage.Client.SchedulingV1beta1().PodGroups(namespace)
	_, err := groups.Create(t.Context(), &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "train"},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	create(t, namespace, newJob("train", nil))
	eventually(t, "another's group is in the way", failedToCreate(namespace, "PodGroup"))
	must(t, groups.Delete(t.Context(), "train", metav1.DeleteOptions{}))
	eventually(t, "the job runs", inState(namespace, "train", kubeflowv1.JobRunning))
	edit(t, namespace, "train", func(job *kubeflowv1.TFJob) {
		job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas = new(int32(2))
	})
	eventually(t, "the group is changed", func(ctx context.Context) error {
		group, err := groups.Get(ctx, "train", metav1.GetOptions{})
		if err == nil && group.Spec.SchedulingPolicy.Gang.MinCount != 2 {
			err = errors.New("the group is as it was")
		}
		return err
	})
	edit(t, namespace, "train", func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(true) })
	eventually(t, "the job is suspended", inState(namespace, "train", kubeflowv1.JobSuspended))

	role, err := stage.Client.RbacV1().ClusterRoles().Get(t.Context(), nativeRole, metav1.GetOptions{})
	must(t, err)
	eventually(t, "every right is used", func(context.Context) error {
		used, denied := used(t, controller)
		if len(denied) > 0 {
			t.Fatalf("the controller was denied: %s", strings.Join(denied, ", "))
		}
		for _, rule := range role.Rules {
			for _, right := range expand(rule) {
				if !slices.Contains(used, right) {
					return errors.New("granted and not used: " + right)
				}
			}
		}
		return nil
	})
}

func startNative(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	rules := filepath.Join(dir, "audit-policy.yaml")
	must(t, os.WriteFile(rules, []byte(policy), 0o600))
	stage.audit = filepath.Join(dir, "audit.log")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir,
		APIServerArgs: []string{
			"--feature-gates=GenericWorkload=true",
			"--runtime-config=scheduling.k8s.io/v1beta1=true",
			"--audit-policy-file=" + rules,
			"--audit-log-path=" + stage.audit,
			"--audit-log-mode=blocking",
		},
		ControllerManagerArgs: []string{"--feature-gates=GenericWorkload=true"},
		Components:            []string{"native-pod-groups"},
	})
	must(t, err)
	t.Cleanup(plane.Stop)
	stage.ControlPlane = plane
	stage.jobs, err = versioned.NewForConfig(plane.Config)
	must(t, err)
	must(t, plane.CreateNodes(t.Context(), controlplane.Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: 2}))
	_, err = plane.StartController("--pod-group-api=native")
	must(t, err)
}
