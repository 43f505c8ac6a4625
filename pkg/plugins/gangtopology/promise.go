// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/topology"
)

// promises are the links between their GPUs that pods were placed for, from the
// binding until the node's agent says which GPUs the kubelet gave them. What was
// promised by a process that has ended since is not compared.
type promises struct {
	events record.EventRecorder
	clock  clock.PassiveClock

	mu   sync.Mutex
	open map[types.NamespacedName]promise // by pod
}

// What became of a promise.
const (
	promiseKept   = "kept"
	promiseBroken = "broken"
)

type promise struct {
	pod  *v1.Pod
	node string
	link topology.Demand
	made time.Time
}

func newPromises(events record.EventRecorder, clock clock.PassiveClock) *promises {
	return &promises{events: events, clock: clock, open: map[types.NamespacedName]promise{}}
}

// make takes note of a pod that is about to be bound to the node.
func (p *promises) make(node string, pod *v1.Pod, link topology.Demand) {
	if link == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[nameOf(pod)] = promise{pod, node, link, p.clock.Now()}
}

// forget is for pods that have ended.
func (p *promises) forget(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made, ok := p.open[nameOf(pod)]; ok && made.pod.UID == pod.UID {
		delete(p.open, nameOf(pod))
	}
}

func (p *promises) watch(pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { p.forget(final[*v1.Pod](obj)) }})
	if err != nil {
		return fmt.Errorf("watching pods to which links are promised: %w", err)
	}
	return nil
}

// compare looks at what the agent of a node says that pods were given.
func (p *promises) compare(object *v1alpha1.NodeTopology) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) == 0 || object.Status.HeartbeatTime == nil {
		return
	}
	for _, given := range object.Status.Given {
		key := types.NamespacedName{Namespace: given.Namespace, Name: given.Pod}
		made, ok := p.open[key]
		// A report from before is of another pod that had the name. Times in objects are whole seconds.
		if !ok || made.node != object.Name || object.Status.HeartbeatTime.Time.Before(made.made.Truncate(time.Second)) {
			continue
		}
		kept, known := satisfies(&object.Spec, given.GPUs, made.link)
		if !known {
			continue
		}
		delete(p.open, key)
		if kept {
			linkPromises.WithLabelValues(promiseKept).Inc()
			continue
		}
		linkPromises.WithLabelValues(promiseBroken).Inc()
		p.events.Event(made.pod, v1.EventTypeWarning, "GPULinkBroken", fmt.Sprintf(
			"the pod was to get GPUs that are connected by %s, but the kubelet of %s gave it %s, which are not; delete the pod to have it placed again, and see that nothing else gives GPUs to pods there",
			made.link, object.Name, strings.Join(given.GPUs, ", ")))
	}
}

// satisfies says whether GPUs of a board are linked as demanded, if all are known.
func satisfies(spec *v1alpha1.NodeTopologySpec, uuids []string, link topology.Demand) (kept, known bool) {
	read, err := board.Of(spec)
	if err != nil {
		return false, false
	}
	model, err := read.Model()
	if err != nil {
		return false, false
	}
	var set topology.Set
	at := read.Positions()
	for _, uuid := range uuids {
		i, ok := at[uuid]
		if !ok {
			return false, false
		}
		set |= 1 << i
	}
	return model.Satisfies(set, link), true
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
