// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/whatif"
)

// quiet is how long a plan waits for more to happen.
const quiet = 150 * time.Millisecond

// answer is what was decided, in a form that can be compared.
type answer struct {
	Placed  bool
	Why     string            // of a refusal
	Nodes   map[string]string // by pod, of those that have one
	Evicted []string
}

// decide lets the plan and the scheduler decide about a new gang, or about a member
// that one has lost.
func (w *world) decide(sum *tally) error {
	if len(w.gangs) > 0 && w.one(5) {
		if g := w.members[w.gangs[w.random.IntN(len(w.gangs))]]; w.isWhole(g) {
			return w.decideLost(sum, g)
		}
	}
	g := w.newGang()
	for _, pod := range g.pods {
		w.createPod(pod)
	}
	s := w.snapshot()
	s.Objects = append(s.Objects, objectOf(w, g.group))
	return w.compare(sum, s, g, func(ctx context.Context) error {
		_, err := w.groups.SchedulingV1alpha1().PodGroups(w.namespace).Create(ctx, g.group, metav1.CreateOptions{})
		return err
	})
}

// isWhole tells of a gang that needs all of its pods, and has them.
func (w *world) isWhole(g gang) bool {
	pods := w.pods(metav1.ListOptions{LabelSelector: v1alpha1.PodGroupLabel + "=" + g.group.Name})
	return len(pods) > 1 && len(pods) == len(g.pods) && int(g.group.Spec.MinMember) == len(g.pods)
}

// gate keeps a pod from the scheduler's eyes until the plan is made.
const gate = "example.com/planned-first"

// decideLost takes a member from a gang. Its replacement is planned beside those that run.
func (w *world) decideLost(sum *tally, g gang) error {
	i := w.random.IntN(len(g.pods))
	w.remove(g.pods[i].Name)
	anew := g.pods[i].DeepCopy()
	anew.Name = fmt.Sprintf("%s-again-%d", g.group.Name, w.state) // KWOK may delete once more what has the old name
	g.pods[i] = anew
	anew.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	w.createPod(anew)
	s := w.snapshot()
	for _, o := range s.Of("Pod") {
		if o.GetName() == anew.Name {
			unstructured.RemoveNestedField(o.Object, "spec", "schedulingGates")
		}
	}
	sum.lost.Add(1)
	return w.compare(sum, s, g, func(ctx context.Context) error {
		_, err := w.plane.Client.CoreV1().Pods(w.namespace).Patch(ctx, anew.Name, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
		return err
	})
}

func (w *world) createPod(pod *corev1.Pod) {
	_, err := w.plane.Client.CoreV1().Pods(w.namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	must(w.t, err)
}

func (w *world) snapshot() *snapshot.Snapshot {
	s, err := snapshot.Take(w.t.Context(), w.dynamic, snapshot.Kinds, time.Now(), func(string) {})
	must(w.t, err)
	return s
}

// compare plans the gang on the snapshot, and then lets the scheduler see it.
func (w *world) compare(sum *tally, s *snapshot.Snapshot, g gang, show func(context.Context) error) error {
	before := w.onNodes()
	planned, err := w.plan(s, g)
	if err != nil {
		return w.disagree(s, g, err)
	}
	must(w.t, show(w.t.Context()))
	was, later, err := w.await(s, g, before, planned)
	if err != nil {
		err = w.disagree(s, g, err)
	} else {
		sum.count(g, was, later)
	}
	w.tidy(g, was)
	return err
}

func (w *world) disagree(s *snapshot.Snapshot, g gang, err error) error {
	path := w.keep(g.group.Name+".yaml", func(f *os.File) error { return s.Write(f) })
	return fmt.Errorf("%s: %w\nthe snapshot: %s", g.String(), err, path)
}

func objectOf(w *world, group *v1alpha1.PodGroup) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
	must(w.t, err)
	o := &unstructured.Unstructured{Object: fields}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("PodGroup"))
	o.SetUID(types.UID("planned-" + group.Name))
	return o
}

// planning is held by the one plan that is made at a time: a scheduler names its
// informers for the whole process.
var planning sync.Mutex

func (w *world) plan(s *snapshot.Snapshot, g gang) (answer, error) {
	planning.Lock()
	defer planning.Unlock()
	outcome, err := whatif.Run(w.t.Context(), s, whatif.Target{Gang: types.NamespacedName{Namespace: w.namespace, Name: g.group.Name}},
		whatif.Options{Preempt: true, Now: time.Now, Quiet: quiet})
	if err != nil {
		return answer{}, err
	}
	a := answer{Placed: outcome.Placed, Nodes: map[string]string{}}
	if !a.Placed {
		a.Why = outcome.Message
	}
	for _, pod := range outcome.Pods {
		if pod.Node != "" {
			a.Nodes[pod.Name] = pod.Node
		}
	}
	for _, pod := range outcome.Evicted {
		a.Evicted = append(a.Evicted, pod.Name)
	}
	slices.Sort(a.Evicted)
	return a, nil
}

// onNodes are the pods that have one, by name.
func (w *world) onNodes() map[string]string {
	on := map[string]string{}
	for _, pod := range w.pods(metav1.ListOptions{}) {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			on[pod.Name] = pod.Spec.NodeName
		}
	}
	return on
}

var errUndecided = errors.New("the scheduler has not decided")

// look is what the scheduler has done so far.
func (w *world) look(ctx context.Context, g gang, before map[string]string) (answer, error) {
	verdict, err := w.plane.Verdict(ctx, w.namespace, g.group.Name)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errUndecided, err)
	}
	a := answer{Placed: verdict.Status == metav1.ConditionTrue, Nodes: map[string]string{}}
	if verdict.Reason == tuttiapi.PreemptingReason || verdict.Reason == tuttiapi.IncompleteReason {
		return a, errUndecided
	}
	if !a.Placed {
		a.Why = verdict.Message
	}
	now := w.onNodes()
	if a.Placed && g.lacks(now) {
		return a, errUndecided // the verdict is that of before
	}
	for name := range before {
		if now[name] == "" {
			a.Evicted = append(a.Evicted, name)
		}
	}
	slices.Sort(a.Evicted)
	for _, pod := range g.pods {
		if node := now[pod.Name]; node != "" {
			a.Nodes[pod.Name] = node
		}
	}
	return a, nil
}

// stable is how long the scheduler's answer must stay another one than the plan's.
const stable = 4 * time.Second

// await waits until the scheduler has done what was planned, or something else. Some
// choices hang on the time, such as which victim loses the least of its work: where
// a plan that is made now, on the same snapshot, says what the scheduler did, they agree, later.
func (w *world) await(s *snapshot.Snapshot, g gang, before map[string]string, planned answer) (was answer, later bool, err error) {
	ctx := w.t.Context()
	var since time.Time
	var last answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		is, err := w.look(ctx, g, before)
		if err != nil {
			since = time.Time{}
			continue
		}
		if cmp.Equal(planned, is) {
			return is, false, nil
		}
		if !cmp.Equal(last, is) || since.IsZero() {
			last, since = is, time.Now()
		}
		if time.Since(since) > stable {
			break
		}
	}
	if since.IsZero() {
		return last, false, fmt.Errorf("%w within %s; planned was %+v", errUndecided, patience, planned)
	}
	again, err := w.plan(s, g)
	if err == nil && cmp.Equal(again, last) {
		return last, true, nil
	}
	return last, false, fmt.Errorf("planned (-), and done (+):\n%s", cmp.Diff(planned, last))
}

func (sum *tally) count(g gang, was answer, later bool) {
	switch {
	case !was.Placed:
		sum.refused.Add(1)
	case len(was.Nodes) < len(g.pods):
		sum.partly.Add(1)
	default:
		sum.placed.Add(1)
	}
	if len(was.Evicted) > 0 {
		sum.preempting.Add(1)
	}
	if len(g.group.Annotations) > 0 {
		sum.demanding.Add(1)
	}
	if later {
		sum.later.Add(1)
	}
}

// tidy leaves nobody who waits, and no group of whose pods all are gone: they would
// take part in what comes next, and plans leave them out.
func (w *world) tidy(g gang, was answer) {
	if was.Placed {
		if !slices.Contains(w.gangs, g.group.Name) {
			w.gangs = append(w.gangs, g.group.Name)
			w.members[g.group.Name] = g
		}
		var waiting []string
		for _, pod := range g.pods {
			if was.Nodes[pod.Name] == "" {
				waiting = append(waiting, pod.Name)
			}
		}
		if len(waiting) > 0 {
			w.remove(waiting...)
		}
	} else {
		w.removeGang(g.group.Name)
		w.gangs = slices.DeleteFunc(w.gangs, func(name string) bool { return name == g.group.Name })
	}
	gone := map[string]bool{}
	for _, name := range was.Evicted {
		gone[name] = true
		gone[name[:max(0, strings.Index(name, "-"))]] = true
	}
	w.singles = slices.DeleteFunc(w.singles, func(name string) bool { return gone[name] })
	there := map[string]bool{}
	for name := range maps.Keys(w.onNodes()) {
		there[name[:max(0, strings.Index(name, "-"))]] = true
	}
	w.gangs = slices.DeleteFunc(w.gangs, func(name string) bool {
		if gone[name] && !there[name] {
			w.removeGang(name)
			return true
		}
		return false
	})
}
