// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	podgroupfake "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned/fake"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tfjobfake "github.com/tutti-project/tutti/pkg/generated/clientset/versioned/fake"
	listers "github.com/tutti-project/tutti/pkg/generated/listers/kubeflow/v1"
)

// world is an API server with the parts that a controller's mistakes show on: UIDs, resource versions, conflicts, preconditions,
// and deletions of pods that take their time. Behind it stand a kubelet and a user; before it, faults.
//
//	controller --> clients --> fault --> react --> objects
//	     ^                                            |
//	     +------- caches <-- deliver <-- journal <----+
type world struct {
	t  *testing.T
	mu sync.Mutex

	objects map[string]map[string]apiObject // by resource, then by name
	journal map[string][]change
	seen    map[string]int // how much of the journal the caches have seen
	version int

	clock      time.Time
	controller *Controller
	after      time.Duration // when the last reconcile wants the next one
	jobs       cache.Indexer // the controller's cache of jobs
	standby    *Controller   // sees what the controller sees, and does nothing; may be nil
	standbys   cache.Indexer // its cache of jobs
	clients    Clients
	options    Options
	// fault decides what happens to a write.
	fault func(action string) fault
	// check looks at every write that takes effect.
	check  func(action string)
	events eventLog
	// killed are workers, crashed their containers.
	killed, crashed int
	// trained are the workers that have succeeded by themselves.
	trained map[string]bool
	// writes are those that took effect.
	writes []string
}

type apiObject interface {
	runtime.Object
	metav1.Object
}

type change struct {
	before, after apiObject
}

type fault int

const (
	works     fault = iota
	refused         // an error, and nothing happened
	timedOut        // an error, although it happened
	killed          // it happened, and the controller is no more
	forgotten       // it did not happen, and the controller is no more
)

const (
	resJobs     = kubeflowv1.TFJobPlural
	resPods     = "pods"
	resServices = "services"
	resGroups   = "podgroups"
)

var resources = []string{resJobs, resPods, resServices, resGroups}

func newWorld(t *testing.T) *world { return newWorldOf(t, testOptions) }

func newWorldOf(t *testing.T, options Options) *world {
	w := &world{
		t:       t,
		options: options,
		clock:   testTime,
		objects: map[string]map[string]apiObject{},
		journal: map[string][]change{},
		seen:    map[string]int{},
		trained: map[string]bool{},
		fault:   func(string) fault { return works },
		check:   func(string) {},
	}
	for _, resource := range resources {
		w.objects[resource] = map[string]apiObject{}
	}
	kube, jobs, groups := kubefake.NewClientset(), tfjobfake.NewSimpleClientset(), podgroupfake.NewSimpleClientset()
	kube.PrependReactor("*", "*", w.request)
	jobs.PrependReactor("*", "*", w.request)
	groups.PrependReactor("*", "*", w.request)
	w.clients = Clients{Kube: kube, TFJobs: jobs, PodGroups: groups}
	w.start()
	return w
}

// start puts a new controller in the place of the present one. It knows what the caches hold and nothing else.
func (w *world) start() {
	w.controller, w.jobs = w.newController()
}

// stand lets a second controller stand by, and takeOver puts it in the place of the first.
func (w *world) stand() { w.standby, w.standbys = w.newController() }

func (w *world) takeOver() {
	w.controller, w.jobs, w.standby, w.standbys = w.standby, w.standbys, nil, nil
}

func (w *world) newController() (*Controller, cache.Indexer) {
	controller, err := New(w.clients, w.options, &w.events, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	jobs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	controller.jobs = listers.NewTFJobLister(jobs)
	for _, resource := range resources {
		for _, o := range w.snapshot(resource) {
			w.show(controller, jobs, resource, change{nil, o})
		}
	}
	return controller, jobs
}

// now moves on by a second with every look.
func (w *world) now() time.Time {
	w.clock = w.clock.Add(time.Second)
	return w.clock
}

// snapshot is what the caches have seen of a resource so far.
func (w *world) snapshot(resource string) []apiObject {
	seen := map[string]apiObject{}
	for _, c := range w.journal[resource][:w.seen[resource]] {
		if c.after == nil {
			delete(seen, c.before.GetName())
		} else {
			seen[c.after.GetName()] = c.after
		}
	}
	return sorted(seen)
}

// request is one call of the controller's.
func (w *world) request(a clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.GetVerb() == "get" {
		o := w.objects[a.GetResource().Resource][a.(clienttesting.GetAction).GetName()]
		if o == nil {
			return true, nil, notFound(a)
		}
		return true, o.DeepCopyObject(), nil
	}
	name := actionName(a)
	fault := w.fault(name)
	if fault == refused || fault == forgotten {
		return true, nil, apierrors.NewServiceUnavailable("refused")
	}
	o, err := w.write(a, name)
	if fault == timedOut || fault == killed {
		return true, nil, apierrors.NewTimeoutError("timed out", 1)
	}
	return true, o, err
}

func (w *world) write(a clienttesting.Action, name string) (runtime.Object, error) {
	var o apiObject
	var err error
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		o, err = w.create(a)
	case clienttesting.UpdateActionImpl:
		o, err = w.updateStatus(a)
	case clienttesting.PatchActionImpl:
		o, err = w.patch(a)
	case clienttesting.DeleteActionImpl:
		err = w.delete(a)
	default:
		err = fmt.Errorf("unexpected %s", name)
	}
	if err != nil {
		return nil, err
	}
	w.writes = append(w.writes, name)
	w.check(name)
	if o == nil {
		return nil, nil
	}
	return o.DeepCopyObject(), nil
}

func (w *world) create(a clienttesting.CreateActionImpl) (apiObject, error) {
	o := a.Object.DeepCopyObject().(apiObject)
	resource := a.GetResource().Resource
	if w.objects[resource][o.GetName()] != nil {
		return nil, apierrors.NewAlreadyExists(group(a), o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprintf("%s-%d", o.GetName(), w.version)))
	if pod, ok := o.(*corev1.Pod); ok {
		pod.Status.Phase = corev1.PodPending
	}
	w.put(resource, o)
	return o, nil
}

func (w *world) updateStatus(a clienttesting.UpdateActionImpl) (apiObject, error) {
	update := a.Object.(*kubeflowv1.TFJob)
	live, ok := w.objects[resJobs][update.Name].(*kubeflowv1.TFJob)
	switch {
	case !ok:
		return nil, notFound(a)
	case a.Subresource != "status":
		return nil, fmt.Errorf("an update of %q", a.Subresource)
	case live.ResourceVersion != update.ResourceVersion:
		return nil, apierrors.NewConflict(group(a), update.Name, fmt.Errorf("modified"))
	}
	live = live.DeepCopy()
	live.Status = *update.Status.DeepCopy()
	w.put(resJobs, live)
	return live, nil
}

func (w *world) patch(a clienttesting.PatchActionImpl) (apiObject, error) {
	if a.PatchType == types.JSONPatchType {
		return w.patchGroup(a)
	}
	live, ok := w.objects[a.GetResource().Resource][a.Name]
	if !ok {
		return nil, notFound(a)
	}
	var patch struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(a.Patch, &patch); err != nil {
		return nil, err
	}
	if patch.Metadata.UID != live.GetUID() || patch.Metadata.ResourceVersion != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(group(a), a.Name, fmt.Errorf("modified"))
	}
	live = live.DeepCopyObject().(apiObject)
	live.SetOwnerReferences(patch.Metadata.OwnerReferences)
	w.put(a.GetResource().Resource, live)
	return live, nil
}

func (w *world) patchGroup(a clienttesting.PatchActionImpl) (apiObject, error) {
	live, ok := w.objects[resGroups][a.Name]
	if !ok {
		return nil, notFound(a)
	}
	patch, err := jsonpatch.DecodePatch(a.Patch)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	changed := reflect.New(reflect.TypeOf(live).Elem()).Interface().(apiObject)
	if err := json.Unmarshal(after, changed); err != nil {
		return nil, err
	}
	if changed.GetResourceVersion() != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(group(a), a.Name, errors.New("modified"))
	}
	w.put(resGroups, changed)
	return changed, nil
}

// delete takes unbound pods and other objects away at once; pods that run are left for the kubelet to end.
func (w *world) delete(a clienttesting.DeleteActionImpl) error {
	resource := a.GetResource().Resource
	live := w.objects[resource][a.Name]
	switch {
	case live == nil:
		return notFound(a)
	case a.DeleteOptions.Preconditions == nil || *a.DeleteOptions.Preconditions.UID != live.GetUID():
		return apierrors.NewConflict(group(a), a.Name, fmt.Errorf("another UID"))
	}
	forced := a.DeleteOptions.GracePeriodSeconds != nil && *a.DeleteOptions.GracePeriodSeconds == 0
	if pod, ok := live.(*corev1.Pod); ok && pod.Status.Phase != corev1.PodPending && !forced {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: w.clock.Add(30 * time.Second)}, new(int64(30))
		w.put(resPods, pod)
		return nil
	}
	if group, ok := live.(*schedulingv1beta1.PodGroup); ok {
		group = group.DeepCopy()
		group.DeletionTimestamp = &metav1.Time{Time: testTime}
		w.put(resGroups, group)
		w.letGroupsGo()
		return nil
	}
	w.remove(resource, a.Name)
	return nil
}

// letGroupsGo does what Kubernetes' controller does that protects native PodGroups: they stay as long as a pod of theirs runs.
func (w *world) letGroupsGo() {
	for _, o := range w.objects[resPods] {
		if !hasEnded(o.(*corev1.Pod)) {
			return
		}
	}
	for name, o := range w.objects[resGroups] {
		if _, isNative := o.(*schedulingv1beta1.PodGroup); isNative && o.GetDeletionTimestamp() != nil {
			w.remove(resGroups, name)
		}
	}
}

func (w *world) put(resource string, o apiObject) {
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	w.journal[resource] = append(w.journal[resource], change{w.objects[resource][o.GetName()], o})
	w.objects[resource][o.GetName()] = o
	if resource == resPods {
		w.letGroupsGo()
	}
}

func (w *world) remove(resource, name string) {
	w.journal[resource] = append(w.journal[resource], change{w.objects[resource][name], nil})
	delete(w.objects[resource], name)
	if resource == resPods {
		w.letGroupsGo()
	}
}

// takeAway is the kubelet's deletion of a pod that was told to go and has ended.
func (w *world) takeAway(name string) {
	w.setPhase(name, w.objects[resPods][name].(*corev1.Pod).Status.Phase, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp != nil {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: w.clock}, new(int64(0))
		}
	})
	w.remove(resPods, name)
}

// deliver lets the caches see the next n changes of a resource.
func (w *world) deliver(resource string, n int) {
	for ; n > 0 && w.seen[resource] < len(w.journal[resource]); n-- {
		w.apply(resource, w.journal[resource][w.seen[resource]])
		w.seen[resource]++
	}
}

func (w *world) deliverAll() {
	for _, resource := range resources {
		w.deliver(resource, len(w.journal[resource]))
	}
}

// look has the controller see all there is, act, and see what came of it.
func (w *world) look() {
	w.t.Helper()
	w.deliverAll()
	if err := w.reconcile(); err != nil {
		w.t.Fatal(err)
	}
	w.deliverAll()
}

func (w *world) job() *kubeflowv1.TFJob {
	job, ok := w.objects[resJobs]["j"].(*kubeflowv1.TFJob)
	if !ok {
		w.t.Fatal("there is no job")
	}
	return job
}

// edit is a user's change of the job.
func (w *world) edit(change func(*kubeflowv1.TFJob)) {
	job := w.job().DeepCopy()
	change(job)
	w.put(resJobs, job)
}

// end lets the kubelet set a pod's phase.
func (w *world) setPhase(name string, phase corev1.PodPhase, opts ...podOption) {
	pod := w.objects[resPods][name].(*corev1.Pod).DeepCopy()
	pod.Status.Phase = phase
	for _, opt := range opts {
		opt(pod)
	}
	w.put(resPods, pod)
}

func (w *world) podNames() []string {
	var names []string
	for name := range w.objects[resPods] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func actionName(a clienttesting.Action) string {
	name := "?"
	switch a := a.(type) {
	case clienttesting.CreateActionImpl:
		name = a.Object.(metav1.Object).GetName()
	case clienttesting.UpdateActionImpl:
		name = a.Object.(metav1.Object).GetName()
	case clienttesting.PatchActionImpl:
		name = a.Name
	case clienttesting.DeleteActionImpl:
		name = a.Name
	}
	return a.GetVerb() + " " + a.GetResource().Resource + " " + name
}

func group(a clienttesting.Action) schema.GroupResource { return a.GetResource().GroupResource() }

func notFound(a clienttesting.Action) error { return apierrors.NewNotFound(group(a), actionName(a)) }

// eventLog is a recorder that writes events down: reason and message.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) Event(_ runtime.Object, _, reason, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, reason+": "+message)
}

func (l *eventLog) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	l.Event(o, kind, reason, fmt.Sprintf(format, args...))
}

func (l *eventLog) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	l.Eventf(o, kind, reason, format, args...)
}
