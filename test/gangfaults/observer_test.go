// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangfaults

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// observer sees every change of every pod of a namespace, in the order in which
// they happened.
type observer struct {
	stop context.CancelFunc

	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod // that exist
	broken []string                  // rules
	lines  []string
	// evicted are the victims by the gang that they had to go for, the last of
	// each; starts are the times at which pods of gangs were bound.
	evicted map[string][]eviction
	starts  map[string][]time.Time
	// deletions of pods that no scheduler evicted.
	unexplained []string
	// leavers are names of which a pod was evicted. KWOK, unlike a kubelet, deletes
	// by name alone; when it is late that hits the pod that has come instead.
	leavers map[string]bool
	// released counts pods of gangs that gave up their nodes by themselves.
	released int
}

type eviction struct {
	victim string
	at     time.Time
}

// gangOf is the gang that a pod is named after.
func gangOf(pod string) string {
	gang, _, _ := strings.Cut(pod, "-")
	return gang
}

func observe(ctx context.Context, client kubernetes.Interface, namespace string) (*observer, error) {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	// A retry watcher goes on from the last version that it has seen.
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
	})
	if err != nil {
		stop()
		return nil, err
	}
	o := &observer{stop: stop, pods: map[types.UID]*corev1.Pod{}, evicted: map[string][]eviction{}, starts: map[string][]time.Time{}, leavers: map[string]bool{}}
	go func() {
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				o.see(pod, event.Type == watch.Deleted)
			}
		}
	}()
	return o, nil
}

var forWhom = regexp.MustCompile(`^evicted for gang [^/]+/(\S+) of priority`)

func (o *observer) see(pod *corev1.Pod, deleted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	before := o.pods[pod.UID]
	if before == nil {
		before = &corev1.Pod{}
	}
	if node := pod.Spec.NodeName; node != before.Spec.NodeName {
		o.tell(now, "pod %s is bound to %s", pod.Name, node)
		if before.Spec.NodeName != "" {
			o.broken = append(o.broken, fmt.Sprintf("pod %s moved from %s to %s", pod.Name, before.Spec.NodeName, node))
		}
		o.starts[pod.Labels[kubeflowv1.JobNameLabel]] = append(o.starts[pod.Labels[kubeflowv1.JobNameLabel]], now)
	}
	gang := evictedFor(pod)
	if gang != evictedFor(before) {
		o.tell(now, "pod %s is marked for %s", pod.Name, gang)
	}
	if (pod.DeletionTimestamp != nil || deleted) && before.DeletionTimestamp == nil {
		o.tell(now, "pod %s is deleted", pod.Name)
		if gang != "" { // before that it may still stay
			o.evicted[gang] = append(o.evicted[gang], eviction{pod.Name, now})
			o.leavers[pod.Name] = true
		}
		if clusterview.IsPreempted(pod) {
			o.leavers[pod.Name] = true // with its gang, which was bound in part and lost the room of the rest
			if gang == "" {
				o.released++
			}
		}
		if !o.leavers[pod.Name] {
			o.unexplained = append(o.unexplained, pod.Name)
		}
	}
	if deleted {
		delete(o.pods, pod.UID)
		return
	}
	o.pods[pod.UID] = pod
	o.check(pod)
}

// check judges the pod's host and its name.
func (o *observer) check(pod *corev1.Pod) {
	held := int64(0)
	for uid, other := range o.pods {
		if pod.Spec.NodeName != "" && other.Spec.NodeName == pod.Spec.NodeName {
			held += gpusOf(other)
		}
		if uid != pod.UID && other.Name == pod.Name {
			o.broken = append(o.broken, fmt.Sprintf("there are two pods %s", pod.Name))
		}
	}
	if held > gpusPerNode {
		o.broken = append(o.broken, fmt.Sprintf("with pod %s host %s holds %d GPUs of %d", pod.Name, pod.Spec.NodeName, held, gpusPerNode))
	}
}

// evictedFor is the gang that the pod has to go for, by its condition.
func evictedFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if m := forWhom.FindStringSubmatch(c.Message); c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && m != nil {
			return m[1]
		}
	}
	return ""
}

func (o *observer) tell(at time.Time, format string, args ...any) {
	o.lines = append(o.lines, at.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (o *observer) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

func (o *observer) evictions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.released
	for _, victims := range o.evicted {
		n += len(victims)
	}
	return n
}

// caughtUp tells whether all of these pods have been seen as they are: a watch may
// lag behind a list.
func (o *observer) caughtUp(pods []corev1.Pod) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range pods {
		if seen := o.pods[pods[i].UID]; seen == nil || seen.Spec.NodeName != pods[i].Spec.NodeName {
			return fmt.Errorf("the observer has not seen pod %s as it is", pods[i].Name)
		}
	}
	return nil
}

// verdict is the rules that were broken in a history that has come to rest.
// In a quiet cluster nothing excuses an eviction in vain or a deletion.
func (o *observer) verdict(r *run) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	broken := slices.Clone(o.broken)
	if !r.quiet {
		return broken
	}
	for gang, victims := range o.evicted {
		last := victims[len(victims)-1]
		// The gang may start when a part of the victim has gone, and the rest go after it.
		of := slices.IndexFunc(victims, func(e eviction) bool { return gangOf(e.victim) == gangOf(last.victim) })
		if !slices.ContainsFunc(o.starts[gang], func(at time.Time) bool { return at.After(victims[of].at) }) {
			broken = append(broken, fmt.Sprintf("%s was evicted for %s, which did not start", last.victim, gang))
		}
	}
	for _, name := range o.unexplained {
		broken = append(broken, fmt.Sprintf("pod %s was deleted, and not by an eviction", name))
	}
	return broken
}
