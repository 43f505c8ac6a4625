// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
)

const (
	// keepFor is how long room is kept for a pod that nobody speaks for again.
	// Whoever evicts keeps it until the last victim must be gone, and so long after.
	keepFor = time.Minute
	// expiryCheck is how often rooms are looked through for those kept too long.
	expiryCheck = 5 * time.Second
)

// rooms are the places that pods wait for while others leave them. A place is
// in the API: the pod's status.nominatedNodeName, which the engine's filters
// heed for single pods. The planner heeds this list, which follows those fields,
// so that it is there again after a restart, and is ahead of them between a
// decision and its patch.
type rooms struct {
	handle framework.Framework
	clock  clock.Clock
	// current is the pod as the API has it.
	current func(*v1.Pod) (*v1.Pod, error)

	// torn tells whether a gang runs in part.
	torn func(types.NamespacedName) bool

	mu   sync.Mutex
	kept map[types.UID]room
	lost lost
}

type room struct {
	pod     *v1.Pod
	node    string
	request map[string]int64
	until   time.Time
	// moves: it is held for a gang of which nothing runs yet (move.go).
	moves bool
}

func newRooms(handle framework.Framework, clock clock.Clock) *rooms {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	return &rooms{
		handle: handle, clock: clock, kept: map[types.UID]room{}, lost: newLost(),
		current: func(pod *v1.Pod) (*v1.Pod, error) { return pods.Pods(pod.Namespace).Get(pod.Name) },
		torn:    func(key types.NamespacedName) bool { return runsInPart(handle.PodGroupManager(), key) },
	}
}

// keep keeps room for the pod on the node.
func (r *rooms) keep(pod *v1.Pod, node string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[pod.UID] = room{pod: pod, node: node, request: clusterview.RequestOf(pod), until: until}
}

// keepForRetry keeps room for a pod that could not be bound, unless it is: of a
// request that fails the answer alone may have been lost.
func (r *rooms) keepForRetry(pod *v1.Pod, node string) {
	if current, err := r.current(pod); err == nil && current.UID == pod.UID && current.Spec.NodeName == "" && current.DeletionTimestamp == nil {
		r.keep(current, node, r.clock.Now().Add(keepFor))
	}
}

// drop gives up the rooms of these pods and tells whether there were any.
func (r *rooms) drop(pods ...*v1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	any := false
	for _, pod := range pods {
		_, had := r.kept[pod.UID]
		any = any || had
		delete(r.kept, pod.UID)
		delete(r.lost.turned, pod.UID)
	}
	return any
}

// added and updated follow the pods' own words.
func (r *rooms) added(pod *v1.Pod) {
	if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "" {
		r.keep(pod, pod.Status.NominatedNodeName, r.clock.Now().Add(keepFor))
	}
}

func (r *rooms) updated(old, pod *v1.Pod) {
	was, is := old.Status.NominatedNodeName, pod.Status.NominatedNodeName
	switch {
	case pod.Spec.NodeName != "":
		r.drop(pod)
	case is == "" && was != "":
		r.drop(pod)
	case is != was:
		r.mu.Lock()
		known := r.kept[pod.UID].node == is
		r.mu.Unlock()
		if !known {
			r.added(pod)
		}
	}
}

// beside adds to the changes what room is kept, on the hosts of the planner, for
// pods of this priority and above that are not these, and for such as were lost.
func (r *rooms) beside(problem placement.Problem, priority int32, own func(*v1.Pod) bool) []placement.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	all := r.places(priority, own)
	for _, kept := range r.kept {
		if !now.After(kept.until) && corev1helpers.PodPriority(kept.pod) >= priority && !own(kept.pod) {
			all = append(all, kept)
		}
	}
	if len(all) == 0 {
		return problem.Changes
	}
	changes := newChanges(problem)
	for _, kept := range all {
		host, ok := problem.Tree.HostIndex(kept.node)
		if !ok {
			continue
		}
		free := changes.of(host)
		for d, name := range problem.Resources {
			free[d] -= kept.request[name]
		}
	}
	return changes.list()
}

// release takes the pods' rooms from the engine's own list: its filters would
// hold the room of a gang against its other members.
func (r *rooms) release(pods []*v1.Pod) {
	for _, pod := range pods {
		r.handle.DeleteNominatedPodIfExists(pod)
	}
}

// standBy forgets the places of lost members as run does, and acts on nothing, until
// ctx ends: whoever leads next knows of those that went of late, and remembers no more.
func (r *rooms) standBy(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { r.expire(r.takes) }, expiryCheck)
}

// run gives up rooms that were kept too long, until ctx ends, and then tells the
// gate that there may be room. What was kept while another process led is kept as
// long as if it had been seen now: only that one knew for how long.
func (r *rooms) run(ctx context.Context, changed func()) {
	r.renew()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		overdue := r.overdue()
		for _, pod := range overdue {
			r.handle.DeleteNominatedPodIfExists(pod)
			r.deny(ctx, pod)
		}
		expired, turned := r.expire(r.takes)
		if expired || len(overdue) > 0 {
			changed()
		}
		if len(turned) > 0 {
			r.handle.Activate(klog.FromContext(ctx), turned)
		}
	}, expiryCheck)
}

func (r *rooms) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	until := r.clock.Now().Add(keepFor)
	for uid, kept := range r.kept {
		if kept.until.Before(until) {
			kept.until = until
			r.kept[uid] = kept
		}
	}
}

func (r *rooms) overdue() []*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var pods []*v1.Pod
	for uid, kept := range r.kept {
		if now.After(kept.until) {
			pods = append(pods, kept.pod)
			delete(r.kept, uid)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// deny takes the word back that the API still has, of pods of this profile.
func (r *rooms) deny(ctx context.Context, pod *v1.Pod) {
	if pod.Spec.SchedulerName != r.handle.ProfileName() {
		return
	}
	current, err := r.current(pod)
	if err != nil || current.UID != pod.UID || current.Spec.NodeName != "" || current.Status.NominatedNodeName == "" {
		return
	}
	status := current.Status.DeepCopy()
	status.NominatedNodeName = ""
	if err := util.PatchPodStatus(ctx, r.handle.ClientSet(), pod.Name, pod.Namespace, &current.Status, status); err != nil {
		klog.FromContext(ctx).Error(err, "Could not give up the room kept for a pod", "pod", klog.KObj(pod))
	}
}

// changes are the planner's what-ifs, host by host.
type changes struct {
	problem placement.Problem
	free    map[int][]int64
}

func newChanges(problem placement.Problem) changes {
	c := changes{problem: problem, free: map[int][]int64{}}
	for _, change := range problem.Changes {
		c.free[change.Host] = slices.Clone(change.Free)
	}
	return c
}

// of is what the host has left, to be written to.
func (c changes) of(host int) []int64 {
	if c.free[host] == nil {
		c.free[host] = slices.Clone(c.problem.Free[host])
	}
	return c.free[host]
}

func (c changes) list() []placement.Change {
	list := make([]placement.Change, 0, len(c.free))
	for host, free := range c.free {
		list = append(list, placement.Change{Host: host, Free: free})
	}
	slices.SortFunc(list, func(a, b placement.Change) int { return cmp.Compare(a.Host, b.Host) })
	return list
}

// watch follows the pods that rooms are kept for, and those that leave them. synced
// tells when those are known that there were at the start.
func (p *Plugin) watch(pods cache.SharedIndexInformer) (synced cache.InformerSynced, err error) {
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			p.rooms.runs(obj.(*v1.Pod))
			p.rooms.added(obj.(*v1.Pod))
		},
		UpdateFunc: func(old, obj any) {
			p.rooms.runs(obj.(*v1.Pod))
			p.rooms.updated(old.(*v1.Pod), obj.(*v1.Pod))
			if obj.(*v1.Pod).DeletionTimestamp != nil {
				p.rounds.gone(obj.(*v1.Pod))
			}
		},
		DeleteFunc: func(obj any) {
			pod := final[*v1.Pod](obj)
			p.rooms.lose(pod)
			if p.rooms.drop(pod) {
				p.gate.changed()
			}
			p.evictor.gone(pod)
			p.rounds.gone(pod)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods for the room that is kept: %w", err)
	}
	return registration.HasSynced, nil
}
