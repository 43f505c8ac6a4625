// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// gpuResource counts the GPUs of NodeTopology objects that pods get whole.
const gpuResource = "nvidia.com/gpu"

// gpuVendor begins the resources by which pods hold these GPUs, whole or in part; NICs of the vendor
// may have it too.
const gpuVendor = "nvidia.com/"

// sharingLabel is how feature discovery says that several pods get one GPU.
const sharingLabel = "nvidia.com/gpu.sharing-strategy"

// HeartbeatLimit is three of the agents' heartbeats: of a node that was silent for so long
// nothing is known.
const HeartbeatLimit = 15 * time.Minute

// maxAhead is how far a node's clock may be ahead: a heartbeat of a later time would count for too
// long when the agent falls silent.
const maxAhead = 5 * time.Minute

// nodeGPUs is what is known of a node's GPUs at one moment.
type nodeGPUs struct {
	model *topology.GPUs
	// free may be free; healthy too, when pods go; well are those that pods should get.
	free, healthy, well topology.Set
	// usable is how many pods can get, where something is known of that.
	usable  int64 // never more than are free
	counted bool
	unknown string    // why there is no model; empty where there are no GPUs
	until   time.Time // then it is no longer true; zero for never
}

// gpusOf reads the NodeTopology of a node. What is missing, stale or contradicts
// the node is unknown: neither "no GPUs" nor "linked".
func (b *boards) gpusOf(info fwk.NodeInfo, object *v1alpha1.NodeTopology, now time.Time) nodeGPUs {
	node := info.Node()
	capacity := node.Status.Capacity[gpuResource]
	if capacity.IsZero() {
		return nodeGPUs{}
	}
	if unknown := distrust(node, object, now); unknown != "" {
		g := nodeGPUs{unknown: unknown}
		if object != nil && object.Status.HeartbeatTime != nil && isAhead(object, now) {
			g.until = object.Status.HeartbeatTime.Add(-maxAhead)
		}
		return g
	}
	until := object.Status.HeartbeatTime.Add(HeartbeatLimit)
	made := b.of(object)
	if made.unknown != "" {
		return nodeGPUs{unknown: made.unknown, until: until}
	}
	whole := len(made.at) + made.lost(object)
	if n := capacity.Value(); n != int64(whole) {
		return nodeGPUs{unknown: fmt.Sprintf("the node has %d of %s, its NodeTopology %d whole GPUs", n, gpuResource, whole), until: until}
	}
	g, err := made.state(info, &object.Status)
	if err != nil {
		return nodeGPUs{unknown: err.Error(), until: until}
	}
	g.until = until
	return g
}

// distrust says why the object is not to be believed, if so.
func distrust(node *v1.Node, object *v1alpha1.NodeTopology, now time.Time) string {
	if how := node.Labels[sharingLabel]; how != "" && how != "none" {
		return "they are shared by " + how
	}
	if object == nil {
		return "it has no NodeTopology; does tutti-agent run there?"
	}
	status := &object.Status
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.NodeTopologyReady)
	switch {
	case status.HeartbeatTime == nil:
		return "nobody has said yet which are free"
	case now.Sub(status.HeartbeatTime.Time) >= HeartbeatLimit:
		return fmt.Sprintf("its NodeTopology is older than %v; does tutti-agent run there?", HeartbeatLimit)
	case isAhead(object, now):
		return fmt.Sprintf("its NodeTopology is of a time that is more than %v from now; is the node's clock right?", maxAhead)
	case ready == nil:
		return "its agent has not said that it can see them"
	case ready.Status != "True":
		return fmt.Sprintf("its agent cannot see them: %s: %s", ready.Reason, ready.Message)
	case status.ObservedGeneration != object.Generation:
		return "its NodeTopology has just changed"
	}
	return ""
}

func isAhead(object *v1alpha1.NodeTopology, now time.Time) bool {
	return object.Status.HeartbeatTime.Sub(now) > maxAhead
}

// lost is how many GPUs are so ill that nothing is known of them but that they are there.
func (b knownGPUs) lost(object *v1alpha1.NodeTopology) int {
	n := 0
	for _, u := range object.Status.Unhealthy {
		if !slices.ContainsFunc(object.Spec.GPUs, func(gpu v1alpha1.GPU) bool { return gpu.UUID == u.UUID }) {
			n++
		}
	}
	return n
}

// state is which of the board's GPUs can be free. Pods that the kubelet had not
// admitted when the agent looked take any of those that it found free; where the
// agent's pods are not those known here, any that is healthy can be free.
func (b knownGPUs) state(info fwk.NodeInfo, status *v1alpha1.NodeTopologyStatus) (nodeGPUs, error) {
	g := nodeGPUs{model: b.model, healthy: b.model.All(), counted: true}
	sick := topology.Set(0)
	for _, u := range status.Unhealthy {
		if i, ok := b.at[u.UUID]; ok {
			sick |= 1 << i
		}
	}
	g.healthy &^= sick
	g.well = g.healthy
	// The kubelet may believe healthy what the agent does not, and give it to a
	// pod: then its links count, but nobody is to need it.
	offered := info.GetAllocatable().GetScalarResources()[gpuResource]
	if offered > int64(g.healthy.Len()) {
		g.healthy |= sick
	}
	if offered > int64(g.healthy.Len()) {
		return nodeGPUs{}, errors.New("the kubelet offers GPUs of which its agent knows nothing but that they are ill")
	}
	g.free, g.usable = g.healthy, int64(g.well.Len())
	newer, ok := newerThan(status, holdersOf(info))
	if !ok {
		return g, nil
	}
	free := topology.Set(0)
	for _, uuid := range status.Free {
		i, ok := b.at[uuid]
		if !ok {
			return nodeGPUs{}, fmt.Errorf("its NodeTopology calls %s free, which is no whole GPU of it", uuid)
		}
		free |= 1 << i
	}
	g.free, g.usable = free&^sick|g.healthy&sick, int64((free &^ sick).Len())
	for _, holder := range newer {
		g.usable -= holder.whole
	}
	return g, nil
}

// holder is a pod that holds GPUs.
type holder struct {
	name    string // namespace/name
	started time.Time
	whole   int64
}

// holdersOf lists the pods of the node that hold GPUs, the newest first: those
// that the kubelet has not admitted, then those that it admitted last.
func holdersOf(info fwk.NodeInfo) []holder {
	var holders []holder
	for _, p := range info.GetPods() {
		pod, any := p.GetPod(), false
		requests := p.CalculateResource().Resource.GetScalarResources()
		for name, n := range requests {
			any = any || n > 0 && strings.HasPrefix(string(name), gpuVendor) && isGPU(string(name))
		}
		if !any {
			continue
		}
		h := holder{name: pod.Namespace + "/" + pod.Name, whole: requests[gpuResource]}
		if pod.Status.StartTime != nil {
			h.started = pod.Status.StartTime.Time
		}
		holders = append(holders, h)
	}
	slices.SortFunc(holders, func(a, b holder) int {
		if a.started.IsZero() != b.started.IsZero() {
			if a.started.IsZero() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.started.Compare(a.started), cmp.Compare(a.name, b.name))
	})
	return holders
}

// newerThan are the holders that the status does not take into account, if it
// takes all others and nobody else. A pod that was admitted after it was written
// cannot be among them, though one of the same name may have been: times have
// seconds, and agents wait one before they write.
func newerThan(status *v1alpha1.NodeTopologyStatus, holders []holder) ([]holder, bool) {
	names := make([]string, len(holders))
	least := 0
	for i, h := range holders {
		names[i] = h.name
		if h.started.IsZero() || !h.started.Before(status.HeartbeatTime.Time) {
			least = i + 1
		}
	}
	for newer := least; newer <= len(holders); newer++ {
		if v1alpha1.FingerprintOf(names[newer:]) == status.Fingerprint {
			return holders[:newer], true
		}
	}
	return nil, false
}

// hostGPUs is the value for the planner, whose vectors count GPUs at a position.
func (g nodeGPUs) hostGPUs(resource int) placement.HostGPUs {
	if g.model == nil {
		return placement.HostGPUs{Unknown: g.unknown}
	}
	return placement.HostGPUs{Model: g.model, Resource: resource, Free: g.free, Healthy: g.healthy}
}
