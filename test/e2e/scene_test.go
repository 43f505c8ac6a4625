// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

const (
	// patience is how long a step may take on a busy machine.
	patience = 5 * time.Minute
	// sharedFolder is on all nodes (hack/kind/cluster.yaml).
	sharedFolder = "/var/lib/tutti-shared"
	image        = "tutti-examples:dev"
)

// scene is what one test works with: a namespace, a volume that all its pods
// may mount, and what its containers print.
type scene struct {
	*cluster
	*logs

	t         *testing.T
	namespace string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	ctx := t.Context()
	s := &scene{t: t, cluster: shared}
	s.eventually("the cluster is at rest", s.atRest)
	namespace, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	must(t, err)
	s.namespace = namespace.Name
	folder := filepath.Join(*dir, strings.ReplaceAll(t.Name(), "/", "_"))
	must(t, os.RemoveAll(folder))
	must(t, os.MkdirAll(folder, 0o755))
	s.logs = &logs{source: s.client.CoreV1().Pods(s.namespace), folder: folder, files: map[string][]string{}, known: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.logs.run(ctx)
	}()
	// Not t.Context(): that has ended when clean-ups run.
	t.Cleanup(func() {
		s.close(context.WithoutCancel(ctx))
		cancel()
		<-ended
		if !t.Failed() {
			must(t, os.RemoveAll(folder))
		}
	})
	return s
}

// giveStorage makes the claim of examples/storage.yaml, bound to a folder that
// all nodes share.
func (s *scene) giveStorage() {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              "standard",
			ClaimRef:                      &corev1.ObjectReference{Namespace: s.namespace, Name: "training"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: filepath.Join(sharedFolder, s.namespace), Type: new(corev1.HostPathDirectoryOrCreate),
			}},
		},
	}, metav1.CreateOptions{})
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := s.client.CoreV1().PersistentVolumes().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
		if err := command(ctx, "", "docker", "exec", controlPlane, "rm", "-rf", filepath.Join(sharedFolder, s.namespace)); err != nil {
			s.t.Error(err)
		}
	})
	s.apply(text(s.t, "examples/storage.yaml"))
}

// apply does as a user does with a manifest.
func (s *scene) apply(manifest string) {
	s.t.Helper()
	must(s.t, command(s.t.Context(), manifest, "kubectl", "-n", s.namespace, "apply", "-f", "-"))
}

func (s *scene) create(job *kubeflowv1.TFJob) {
	s.t.Helper()
	_, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Create(s.t.Context(), job, metav1.CreateOptions{})
	must(s.t, err)
}

func (s *scene) eventually(name string, check func(context.Context) error) {
	s.t.Helper()
	if err := eventually(s.t.Context(), patience, check); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}

// await waits until a pod's containers have printed so many matches, and
// returns the last one's captures.
func (s *scene) await(pod, pattern string, matches int) []string {
	s.t.Helper()
	var found [][]string
	s.eventually(pod+" prints "+pattern, func(context.Context) error {
		if found = s.printed(pod, pattern); len(found) < matches {
			return fmt.Errorf("printed %d times, want %d", len(found), matches)
		}
		return nil
	})
	return found[len(found)-1]
}

// ends waits for the end of a job, which must be of this kind.
func (s *scene) ends(name string, want kubeflowv1.JobConditionType) {
	s.t.Helper()
	s.eventually("job "+name+" is "+string(want), func(ctx context.Context) error {
		job, err := s.tutti.KubeflowV1().TFJobs(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.State != want {
			return fmt.Errorf("it is %q", job.Status.State)
		}
		return nil
	})
}

// phases are those of the pods that are there, by name.
func (s *scene) phases(ctx context.Context) (map[string]corev1.PodPhase, error) {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	phases := map[string]corev1.PodPhase{}
	for _, pod := range pods.Items {
		phases[pod.Name] = pod.Status.Phase
	}
	return phases, nil
}

func (s *scene) pod(name string) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	s.eventually("pod "+name+" is there", func(ctx context.Context) (err error) {
		pod, err = s.client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return pod
}

// vanish deletes all jobs of the scene; nothing of them may be left.
func (s *scene) vanish(jobs ...string) {
	s.t.Helper()
	for _, job := range jobs {
		must(s.t, s.tutti.KubeflowV1().TFJobs(s.namespace).Delete(s.t.Context(), job, metav1.DeleteOptions{}))
	}
	s.eventually("nothing is left of "+strings.Join(jobs, ", "), s.empty)
}

// empty is a check that the namespace has nothing that jobs make.
func (s *scene) empty(ctx context.Context) error {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	services, err := s.client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	groups, err := s.podGroups.SchedulingV1alpha1().PodGroups(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if n := len(pods.Items) + len(services.Items) + len(groups.Items); n > 0 {
		return fmt.Errorf("%d pods, %d services and %d pod groups are left", len(pods.Items), len(services.Items), len(groups.Items))
	}
	return nil
}

// close keeps what can be known of a failure, and removes all.
func (s *scene) close(ctx context.Context) {
	if s.t.Failed() {
		s.explain(ctx)
	}
	err := eventually(ctx, patience, func(ctx context.Context) error {
		return errors.Join(
			s.tutti.KubeflowV1().TFJobs(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			s.client.CoreV1().Pods(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}, metav1.ListOptions{}),
		)
	})
	if err == nil {
		err = eventually(ctx, patience, s.empty)
	}
	if err == nil {
		err = s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	}
	if err != nil {
		s.t.Error(err)
	}
}

// explain writes objects, events and the programs' logs beside those of the
// containers.
func (s *scene) explain(ctx context.Context) {
	questions := map[string][]string{
		"objects.yaml":         {"-n", s.namespace, "get", "tfjobs,podgroups,pods,services,persistentvolumeclaims", "-o", "yaml"},
		"pods.txt":             {"get", "pods", "-A", "-o", "wide"},
		"events.txt":           {"-n", s.namespace, "get", "events", "--sort-by=.lastTimestamp"},
		"nodes.txt":            {"describe", "nodes"},
		"tutti-scheduler.log":  {"-n", "tutti-system", "logs", "-l", "app.kubernetes.io/name=tutti-scheduler", "--prefix", "--tail=-1"},
		"tutti-controller.log": {"-n", "tutti-system", "logs", "-l", "app.kubernetes.io/name=tutti-controller", "--prefix", "--tail=-1"},
	}
	for name, args := range questions {
		err := eventually(ctx, time.Minute, func(ctx context.Context) error {
			return command(ctx, "", "sh", append([]string{"-c", `kubectl "$@" >"$0"`, filepath.Join(s.folder, name)}, args...)...)
		})
		if err != nil {
			s.t.Log(err)
		}
	}
	s.t.Logf("what is known of the failure is in %s", s.folder)
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same tells whether two lists hold the same names in any order.
func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
