// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/test/controlplane"
)

// withoutRequest are rights that no request shows: admission asks for them.
var withoutRequest = []string{
	// OwnerReferencesPermissionEnforcement, of every object with a reference
	// that blocks the deletion of a job.
	"update kubeflow.org/tfjobs/finalizers",
}

// TestEveryRightIsUsedAndNoneIsMissing leads the controller through all that it
// can be asked for, and compares what it asked of the API server with what its
// roles grant.
func TestEveryRightIsUsedAndNoneIsMissing(t *testing.T) {
	namespace := newNamespace(t)
	isOrphaned(t, namespace)
	blockedByOthers(t, namespace)
	sizeOfGangChanges(t, namespace)
	happensAgain(t, namespace)
	endsAndIsCleanedUp(t, namespace)
	losesItsNode(t, namespace)
	_, _, err := get(stage.metrics, token(t, namespace, "asks", true)) // reviews of tokens and of access
	must(t, err)

	usesItsRights(t, controller, withoutRequest)
	mayBlockDeletion(t, namespace)
}

// usesItsRights compares what an account has asked for so far with what its own
// roles grant it.
func usesItsRights(t *testing.T, account string, withoutRequest []string) {
	t.Helper()
	granted := granted(t, account)
	eventually(t, "every right is used", func(context.Context) error {
		used, denied := used(t, account)
		if len(denied) > 0 {
			t.Fatalf("%s was denied: %s", account, strings.Join(denied, ", "))
		}
		unused := slices.DeleteFunc(slices.Clone(granted), func(right string) bool {
			return slices.Contains(used, right) || slices.Contains(withoutRequest, right)
		})
		if len(unused) > 0 {
			return fmt.Errorf("granted and not used: %s", strings.Join(unused, ", "))
		}
		return nil
	})
}

// mayBlockDeletion takes that right away: no object of a job can be made then.
func mayBlockDeletion(t *testing.T, namespace string) {
	t.Cleanup(func() { must(t, stage.Install(context.WithoutCancel(t.Context()))) })
	roles := stage.Client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), controller, metav1.GetOptions{})
	must(t, err)
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "tfjobs/finalizers")
	})
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
	time.Sleep(time.Second) // the API server's own cache of roles may lag
	create(t, namespace, newJob("refused", nil))
	eventually(t, "the API server refuses", func(ctx context.Context) error {
		events, err := stage.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=refused"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "blockOwnerDeletion") }) {
			return errors.New("no event says that the right is missing")
		}
		return nil
	})
}

// blockedByOthers: objects that are not the job's have its names, and go one
// after the other.
func blockedByOthers(t *testing.T, namespace string) {
	ctx, name := t.Context(), metav1.ObjectMeta{Name: "blocked-worker-0"}
	pods, services := stage.Client.CoreV1().Pods(namespace), stage.Client.CoreV1().Services(namespace)
	groups := stage.groups.SchedulingV1alpha1().PodGroups(namespace)
	_, err := groups.Create(ctx, &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "blocked"}, Spec: schedulingv1alpha1.PodGroupSpec{MinMember: 1},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = services.Create(ctx, &corev1.Service{
		ObjectMeta: name, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: name, Spec: newJob("", nil).Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Template.Spec,
	}, metav1.CreateOptions{})
	must(t, err)

	create(t, namespace, newJob("blocked", nil))
	eventually(t, "the group is in the way", failedToCreate(namespace, "PodGroup"))
	must(t, groups.Delete(ctx, "blocked", metav1.DeleteOptions{}))
	eventually(t, "the service is in the way", failedToCreate(namespace, "Service"))
	must(t, services.Delete(ctx, name.Name, metav1.DeleteOptions{}))
	eventually(t, "the pod is in the way", failedToCreate(namespace, "Pod"))
	must(t, pods.Delete(ctx, name.Name, metav1.DeleteOptions{}))
	eventually(t, "nothing is in the way", inState(namespace, "blocked", kubeflowv1.JobRunning))
}

func failedToCreate(namespace, kind string) func(context.Context) error {
	return func(ctx context.Context) error {
		events, err := stage.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate" + kind})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("no event that a %s could not be created", kind)
		}
		return err
	}
}

// isOrphaned: somebody takes a pod and a service from a job, and the job takes
// them back. It has enough pods for their events to be drawn together.
func isOrphaned(t *testing.T, namespace string) {
	job := newJob("orphaned", nil)
	job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas = new(int32(12))
	create(t, namespace, job)
	eventually(t, "it runs", inState(namespace, "orphaned", kubeflowv1.JobRunning))
	pods, services := stage.Client.CoreV1().Pods(namespace), stage.Client.CoreV1().Services(namespace)
	alone := []byte(`{"metadata":{"ownerReferences":null}}`)
	_, err := pods.Patch(t.Context(), "orphaned-worker-1", types.MergePatchType, alone, metav1.PatchOptions{})
	must(t, err)
	_, err = services.Patch(t.Context(), "orphaned-worker-1", types.MergePatchType, alone, metav1.PatchOptions{})
	must(t, err)
	eventually(t, "it has them back", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "orphaned-worker-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		service, err := services.Get(ctx, "orphaned-worker-1", metav1.GetOptions{})
		if err == nil && (len(pod.OwnerReferences) == 0 || len(service.OwnerReferences) == 0) {
			err = errors.New("an orphan is left")
		}
		return err
	})
}

func sizeOfGangChanges(t *testing.T, namespace string) {
	edit(t, namespace, "blocked", func(job *kubeflowv1.TFJob) {
		job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas = new(int32(2))
	})
	eventually(t, "the group is changed", func(ctx context.Context) error {
		group, err := stage.groups.SchedulingV1alpha1().PodGroups(namespace).Get(ctx, "blocked", metav1.GetOptions{})
		if err == nil && group.Spec.MinMember != 2 {
			err = errors.New("the group is as it was")
		}
		return err
	})
}

// happensAgain: the second event of one kind is a change of the first.
func happensAgain(t *testing.T, namespace string) {
	suspend := func(is bool) func(*kubeflowv1.TFJob) {
		return func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = &is }
	}
	edit(t, namespace, "blocked", suspend(true))
	eventually(t, "the job is suspended", inState(namespace, "blocked", kubeflowv1.JobSuspended))
	edit(t, namespace, "blocked", suspend(false))
	eventually(t, "the job runs again", inState(namespace, "blocked", kubeflowv1.JobRunning))
}

func endsAndIsCleanedUp(t *testing.T, namespace string) {
	job := newJob("short", map[string]string{"demo.tutti.dev/run-for": "100ms"})
	job.Spec.RunPolicy.CleanPodPolicy = new(kubeflowv1.CleanPodPolicyAll)
	job.Spec.RunPolicy.TTLSecondsAfterFinished = new(int32(2))
	create(t, namespace, job)
	eventually(t, "it ends", inState(namespace, "short", kubeflowv1.JobSucceeded))
	eventually(t, "its pods go", func(ctx context.Context) error {
		pods, err := stage.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "training.kubeflow.org/job-name=short"})
		if err == nil && len(pods.Items) > 0 {
			err = errors.New("a pod is left")
		}
		return err
	})
}

// losesItsNode: a pod of a node that is no more is deleted, and nobody is there to
// end it.
func losesItsNode(t *testing.T, namespace string) {
	job := newJob("lost", nil)
	worker := job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker]
	worker.RestartPolicy = kubeflowv1.RestartPolicyOnFailure
	worker.Template.Spec.NodeName = "gone"
	worker.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	create(t, namespace, job)
	pods := stage.Client.CoreV1().Pods(namespace)
	var first types.UID
	eventually(t, "it has its pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "lost-worker-0", metav1.GetOptions{})
		if err == nil {
			first = pod.UID
		}
		return err
	})
	must(t, pods.Delete(t.Context(), "lost-worker-0", metav1.DeleteOptions{}))
	eventually(t, "it has another", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "lost-worker-0", metav1.GetOptions{})
		if err == nil && pod.UID == first {
			err = errors.New("the first pod is still there")
		}
		return err
	})
}

// granted are the rights of an account's own roles, each as verb group/resource.
func granted(t *testing.T, account string) []string {
	t.Helper()
	cluster, err := stage.Client.RbacV1().ClusterRoles().Get(t.Context(), account, metav1.GetOptions{})
	must(t, err)
	role, err := stage.Client.RbacV1().Roles(controlplane.Namespace).Get(t.Context(), account, metav1.GetOptions{})
	must(t, err)
	var rights []string
	for _, rule := range slices.Concat(cluster.Rules, role.Rules) {
		rights = append(rights, expand(rule)...)
	}
	return rights
}

func expand(rule rbacv1.PolicyRule) (rights []string) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				rights = append(rights, verb+" "+group+"/"+resource)
			}
		}
	}
	return rights
}

// used are the rights that an account's requests needed; denied are those that
// it asked for and did not have.
func used(t *testing.T, account string) (used, denied []string) {
	t.Helper()
	data, err := os.ReadFile(stage.audit)
	must(t, err)
	entries := json.NewDecoder(bytes.NewReader(data))
	for {
		var entry struct {
			Verb string `json:"verb"`
			User struct {
				Username string `json:"username"`
			} `json:"user"`
			RequestURI     string `json:"requestURI"`
			ResponseStatus struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
			ObjectRef *struct {
				APIGroup    string `json:"apiGroup"`
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
			} `json:"objectRef"`
		}
		err := entries.Decode(&entry)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the last line is being written
			return used, denied
		}
		must(t, err)
		if entry.ObjectRef == nil || entry.User.Username != accounts+account {
			continue // discovery, or the other one
		}
		right := entry.Verb + " " + entry.ObjectRef.APIGroup + "/" + entry.ObjectRef.Resource
		if entry.ObjectRef.Subresource != "" {
			right += "/" + entry.ObjectRef.Subresource
		}
		if entry.ResponseStatus.Code == http.StatusForbidden {
			denied = append(denied, right+" ("+entry.RequestURI+")")
		} else if !slices.Contains(used, right) {
			used = append(used, right)
		}
	}
}
