// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// heldKey is where the places held from a single pod lie in the state of its cycle.
const heldKey fwk.StateKey = Name + "/held"

// lost are the places of gangs' members that have gone. While what is left of such
// a gang runs below its minimum, they are held from pods of equal and lower
// priority that are not its own, for tornPatience from when their node can take the
// member's replacement: a gang that is in part is to be whole again before its slot
// goes to somebody who has nothing yet. Whether the gang is in part is asked when
// somebody wants the place, so nothing needs to be taken back when it ends,
// shrinks or is whole again. Callers hold the mutex of rooms, of which it is a part.
//
// This is the memory of one process: whoever leads next has seen the same pods go
// if it stood by, and else holds nothing, as pods that have gone say nothing.
type lost struct {
	// members are gangs' pods on nodes, as events tell, by node.
	members map[string]map[types.UID]*v1.Pod
	// compared are the generations of the snapshot's nodes, in its order, with which
	// they were compared; changed are nodes of which other pods have been told since.
	compared []int64
	changed  map[string]bool
	places   map[string]map[types.UID]room // by node and pod
	// turned are single pods that found their node held, and when: the engine knows
	// of no event that would bring them back. ended is when a place was last given up.
	turned map[types.UID]turned
	ended  time.Time
}

type turned struct {
	pod *v1.Pod
	at  time.Time
}

func newLost() lost {
	return lost{
		members: map[string]map[types.UID]*v1.Pod{}, changed: map[string]bool{},
		places: map[string]map[types.UID]room{}, turned: map[types.UID]turned{},
	}
}

// runs is called when a pod has a node, or changes there.
func (r *rooms) runs(pod *v1.Pod) {
	node := pod.Spec.NodeName
	if _, inGang := clusterview.GroupOf(pod); !inGang || node == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost.members[node] == nil {
		r.lost.members[node] = map[types.UID]*v1.Pod{}
	}
	r.lost.members[node][pod.UID] = pod
	r.lost.changed[node] = true
}

// lose is called when a pod is no more.
func (r *rooms) lose(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node := pod.Spec.NodeName
	on := r.lost.members[node]
	if on[pod.UID] == nil {
		return
	}
	if delete(on, pod.UID); len(on) == 0 {
		delete(r.lost.members, node)
	}
	r.hold(pod)
}

// notice finds out who has gone according to the snapshot: the engine may have heard
// of it before this plugin has, and is giving the room away. It looks at the generation
// of each node, and at no more where that is the same.
func (r *rooms) notice(nodes fwk.NodeInfoLister) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lost.members) == 0 {
		return
	}
	for node := range r.lost.changed {
		if info, err := nodes.Get(node); err == nil {
			r.compare(info)
		}
	}
	clear(r.lost.changed)
	list, err := nodes.List()
	if err != nil {
		return
	}
	if len(r.lost.compared) != len(list) {
		r.lost.compared = make([]int64, len(list))
	}
	for i, info := range list {
		if generation := info.GetGeneration(); generation != r.lost.compared[i] {
			r.lost.compared[i] = generation
			r.compare(info)
		}
	}
}

// compare holds the places of those who are not on the node. Callers hold mu.
func (r *rooms) compare(info fwk.NodeInfo) {
	node := info.Node().Name
	on := r.lost.members[node]
	if len(on) == 0 {
		return
	}
	there := map[types.UID]bool{}
	for _, pod := range info.GetPods() {
		there[pod.GetPod().UID] = true
	}
	for uid, pod := range on {
		if there[uid] {
			delete(r.lost.places[node], uid) // it is the engine that had not heard of it
		} else {
			r.hold(pod)
		}
	}
}

// hold holds the place of a member that has gone. Those that a scheduler has evicted
// have made room for somebody. Callers hold mu.
func (r *rooms) hold(pod *v1.Pod) {
	node := pod.Spec.NodeName
	if _, held := r.lost.places[node][pod.UID]; held || clusterview.IsPreempted(pod) {
		return
	}
	if r.lost.places[node] == nil {
		r.lost.places[node] = map[types.UID]room{}
	}
	r.lost.places[node][pod.UID] = room{
		pod: pod, node: node, request: clusterview.RequestOf(pod), until: r.clock.Now().Add(tornPatience),
	}
}

// places lists those that are held from pods of this priority which are not these.
// Callers hold mu.
func (r *rooms) places(priority int32, own func(*v1.Pod) bool) []room {
	if len(r.lost.places) == 0 {
		return nil
	}
	now := r.clock.Now()
	torn := map[types.NamespacedName]bool{}
	var held []room
	for _, places := range r.lost.places {
		for _, place := range places {
			if now.After(place.until) || corev1helpers.PodPriority(place.pod) < priority || own(place.pod) {
				continue
			}
			key := gangOf(place.pod)
			if _, known := torn[key]; !known {
				torn[key] = r.torn(key)
			}
			if place.moves || torn[key] {
				held = append(held, place)
			}
		}
	}
	return held
}

func gangOf(pod *v1.Pod) types.NamespacedName {
	name, _ := clusterview.GroupOf(pod)
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}
}

// runsInPart tells whether a gang has nodes for some pods, but not for its minimum.
func runsInPart(groups fwk.PodGroupManager, key types.NamespacedName) bool {
	group, err := groups.PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		return false
	}
	state, err := groups.PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return false
	}
	running := len(live(state.ScheduledPods()))
	return 0 < running && running < quorumOf(group)
}

// whole gives up the places of a gang that has its minimum again, and tells who was
// turned away.
func (r *rooms) whole(key types.NamespacedName) map[string]*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.giveUp(func(place room) bool { return gangOf(place.pod) == key }) {
		return nil
	}
	pods := map[string]*v1.Pod{}
	for _, t := range r.lost.turned {
		pods[t.pod.Namespace+"/"+t.pod.Name] = t.pod
	}
	return pods
}

// giveUp drops places and tells whether there were any. Callers hold mu.
func (r *rooms) giveUp(which func(room) bool) bool {
	any := false
	for node, places := range r.lost.places {
		for uid, place := range places {
			if which(place) {
				any = true
				delete(places, uid)
			}
		}
		if len(places) == 0 {
			delete(r.lost.places, node)
		}
	}
	if any {
		r.lost.ended = r.clock.Now()
	}
	return any
}

// expire gives up the places whose time is over, and tells whether there were any and
// who is to be tried again. The time does not run while a node could not take the
// replacement anyhow: the place costs nobody anything, and the gang waits for it.
func (r *rooms) expire(takes func(place *v1.Pod, node string) bool) (any bool, wake map[string]*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for node, places := range r.lost.places {
		for uid, place := range places {
			if now.Before(place.until) && !takes(place.pod, node) && r.torn(gangOf(place.pod)) {
				place.until = now.Add(tornPatience)
				places[uid] = place
			}
		}
	}
	any = r.giveUp(func(place room) bool { return !now.Before(place.until) })
	wake = map[string]*v1.Pod{}
	for uid, t := range r.lost.turned {
		// One that has just been turned away may not be back in the queue yet.
		if !t.at.After(r.lost.ended) && now.Sub(t.at) > time.Second {
			wake[t.pod.Namespace+"/"+t.pod.Name] = t.pod
			delete(r.lost.turned, uid)
		}
	}
	return any, wake
}

// takes tells whether the node could take such a pod if it were empty.
func (r *rooms) takes(pod *v1.Pod, name string) bool {
	node, err := r.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(name)
	if err != nil || node.Spec.Unschedulable {
		return false
	}
	repels := func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	}
	if _, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, repels, false); repelled {
		return false
	}
	return clusterview.Holds(node.Status.Allocatable, clusterview.RequestOf(pod))
}

// held are the places held from one single pod.
type held struct {
	on map[string]map[string]int64 // requests, by node
	// gangs are theirs, in words.
	gangs map[string]string // by node
}

// Clone implements fwk.StateData; it is never changed.
func (h *held) Clone() fwk.StateData { return h }

// heldFrom are the places held from pods of the priority that are in no gang, or nil.
func (r *rooms) heldFrom(priority int32) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	var h *held
	for _, place := range r.places(priority, func(*v1.Pod) bool { return false }) {
		if h == nil {
			h = &held{on: map[string]map[string]int64{}, gangs: map[string]string{}}
		}
		if h.on[place.node] == nil {
			h.on[place.node] = map[string]int64{}
		}
		for name, n := range place.request {
			h.on[place.node][name] += n
		}
		h.gangs[place.node] = max(h.gangs[place.node], gangOf(place.pod).String())
	}
	return h
}

// turnAway remembers a pod that was refused for the sake of a place.
func (r *rooms) turnAway(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost.turned[pod.UID] = turned{pod: pod, at: r.clock.Now()}
}

// holdsFrom begins the cycle of a single pod: is any place held from it?
func (p *Plugin) holdsFrom(state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	p.rooms.notice(p.handle.SnapshotSharedLister().NodeInfos())
	held := p.rooms.heldFrom(corev1helpers.PodPriority(pod))
	if held == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(heldKey, held)
	return nil, nil
}

// refuses tells why the node does not take the single pod, or nothing.
func (p *Plugin) refuses(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(heldKey)
	if err != nil {
		return nil
	}
	held := data.(*held)
	kept, any := held.on[node.Node().Name]
	if !any || clusterview.Fits(node, clusterview.RequestOf(pod), kept) {
		return nil
	}
	p.rooms.turnAway(pod)
	return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node(s) held for what gang %s has lost", held.gangs[node.Node().Name]))
}
