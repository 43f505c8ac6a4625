// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

// world is a namespace with jobs, and all that its pods went through.
type world struct {
	plane     *controlplane.ControlPlane
	namespace string
	jobs      tutti.Interface
	groups    podgroups.Interface
	created   []string // names of jobs

	mu   sync.Mutex
	pods map[string][]sighting // by name, in the order of what happened
}

// sighting is a pod as a watch showed it.
type sighting struct {
	uid  types.UID
	what string
}

// end is what becomes of a job. Whether it was seen running, and what those of
// its pods did that do not decide, depends on the moment and is left out.
type end struct {
	Gone       bool
	Conditions []string
	Completed  bool
	Deciding   string // the counts of the role that decides
	Pods       []string
	Services   []string
	Groups     []string
	// Attempts is how many pods one identity had at most.
	Attempts int
}

func newWorld(t *testing.T, plane *controlplane.ControlPlane, namespace string) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{plane: plane, namespace: namespace, pods: map[string][]sighting{}}
	_, err := plane.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(t, err)
	w.jobs, err = tutti.NewForConfig(plane.Config)
	must(t, err)
	w.groups, err = podgroups.NewForConfig(plane.Config)
	must(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(plane.Client, 0, informers.WithNamespace(namespace))
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { w.see(pod, "") },
		UpdateFunc: func(_, pod any) { w.see(pod, "") },
		DeleteFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				w.see(pod, " gone")
			}
		},
	})
	must(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return w
}

func (w *world) see(obj any, note string) {
	pod := obj.(*corev1.Pod)
	what := string(pod.Status.Phase) + note
	if pod.DeletionTimestamp != nil {
		what += " deleted"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.Name] = append(w.pods[pod.Name], sighting{pod.UID, fmt.Sprintf("%s  %.8s  attempt %q  %s",
		time.Now().Format("15:04:05.000"), pod.UID, pod.Annotations[tuttiapi.AttemptAnnotation], what)})
}

// made is how many pods every identity has had.
func (w *world) made() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]int{}
	for name, sightings := range w.pods {
		uids := map[types.UID]bool{}
		for _, s := range sightings {
			uids[s.uid] = true
		}
		counts[name] = len(uids)
	}
	return counts
}

// story is what a pod, or the pods of a job, went through.
func (w *world) story(of string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if name == of || strings.HasPrefix(name, of+"-") {
			for _, s := range w.pods[name] {
				lines = append(lines, name+" "+s.what)
			}
		}
	}
	return lines
}

func (w *world) create(t *testing.T, i int) {
	t.Helper()
	job := newJob(i)
	_, err := w.jobs.KubeflowV1().TFJobs(w.namespace).Create(t.Context(), job, metav1.CreateOptions{})
	must(t, err)
	w.created = append(w.created, job.Name)
}

// look is the present state of every job, and resumes those that are suspended.
func (w *world) look(t *testing.T) map[string]end {
	t.Helper()
	ctx := t.Context()
	jobs, err := w.jobs.KubeflowV1().TFJobs(w.namespace).List(ctx, everything)
	must(t, err)
	pods, err := w.plane.Client.CoreV1().Pods(w.namespace).List(ctx, everything)
	must(t, err)
	services, err := w.plane.Client.CoreV1().Services(w.namespace).List(ctx, everything)
	must(t, err)
	groups, err := w.groups.SchedulingV1alpha1().PodGroups(w.namespace).List(ctx, everything)
	must(t, err)

	states := map[string]end{}
	for _, name := range w.created {
		states[name] = end{Gone: true}
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		states[job.Name] = endOf(job)
		if job.Status.State == kubeflowv1.JobSuspended {
			job.Spec.RunPolicy.Suspend = new(false)
			if _, err := w.jobs.KubeflowV1().TFJobs(w.namespace).Update(ctx, job, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				must(t, err)
			}
		}
	}
	add := func(o metav1.Object, to func(*end) *[]string, note string) {
		name := o.GetLabels()[kubeflowv1.JobNameLabel]
		e := states[name]
		// Without the job's own name, so that jobs of a shape compare.
		*to(&e) = append(*to(&e), strings.TrimPrefix(o.GetName(), name)+note)
		slices.Sort(*to(&e))
		states[name] = e
	}
	for i := range pods.Items {
		add(&pods.Items[i], func(e *end) *[]string { return &e.Pods }, " "+string(pods.Items[i].Status.Phase))
	}
	for i := range services.Items {
		add(&services.Items[i], func(e *end) *[]string { return &e.Services }, "")
	}
	for i := range groups.Items {
		add(&groups.Items[i], func(e *end) *[]string { return &e.Groups }, "")
	}
	return states
}

func endOf(job *kubeflowv1.TFJob) end {
	e := end{Completed: job.Status.CompletionTime != nil}
	for _, c := range job.Status.Conditions {
		if c.Type != kubeflowv1.JobRunning && c.Type != kubeflowv1.JobRestarting {
			e.Conditions = append(e.Conditions, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
		}
	}
	decides := kubeflowv1.TFJobReplicaTypeWorker
	if job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeChief] != nil {
		decides = kubeflowv1.TFJobReplicaTypeChief
	}
	if rs := job.Status.ReplicaStatuses[decides]; rs != nil {
		e.Deciding = fmt.Sprintf("active %d, succeeded %d, failed %d", rs.Active, rs.Succeeded, rs.Failed)
	}
	return e
}

// isFinal: the job has completed, or is gone.
func (e end) isFinal() bool { return e.Completed || e.Gone }

func (e end) comparable() end {
	e.Attempts = 0
	return e
}

// open are the jobs that are not as they should be in the end.
func (w *world) open(states, want map[string]end) []string {
	var open []string
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if !cmp.Equal(states[name].comparable(), want[shapeOf(name)].comparable()) {
			open = append(open, name)
		}
	}
	return open
}
