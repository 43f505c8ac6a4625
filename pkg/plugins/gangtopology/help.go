// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// help is what a change may do for a gang that was refused.
type help int

const (
	// helpRoom: room came free, or hosts became eligible. It may help any gang.
	helpRoom help = iota
	// helpVolumes: a claim, a volume or a kind of storage came or changed.
	helpVolumes
	// helpDevices: a claim to devices, devices or their classes did.
	helpDevices
	// helpNeighbours: other pods came or changed, which some must be near.
	helpNeighbours

	helps
)

// epochs count the changes of each kind.
type epochs [helps]uint64

// differ tells whether a change of these kinds lies between the two.
func (e epochs) differ(other epochs, kinds [helps]bool) bool {
	for kind, counts := range kinds {
		if counts && e[kind] != other[kind] {
			return true
		}
	}
	return false
}

// needs is what a refused gang may be helped by.
type needs struct {
	help [helps]bool
	// claims are the volume claims that its pods name.
	claims map[types.NamespacedName]bool
	// partly: a part of its minimum has nodes, and wants the rest.
	partly bool
	// alike is the same for gangs to which the planner gives the same answer on
	// the same cluster; empty when that cannot be told.
	alike string
	// again is when to try it again though nothing helps it: it may move then. Zero
	// for no such time.
	again time.Duration
}

// needsOf reads them from the pods that were refused.
func (p *Plugin) needsOf(g gathered) needs {
	n := needs{partly: g.running > 0 && g.wanted > 0}
	n.help[helpRoom] = true
	n.again = p.untilMove(g)
	for _, role := range g.roles {
		spec := role.Pods[0].Spec
		n.help[helpNeighbours] = n.help[helpNeighbours] || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0
		n.help[helpDevices] = n.help[helpDevices] || len(spec.ResourceClaims) > 0
		for _, pod := range role.Pods {
			n.addVolumes(pod)
		}
	}
	n.help[helpVolumes] = n.help[helpVolumes] || len(n.claims) > 0
	if g.running > 0 || n.help[helpVolumes] || n.help[helpDevices] || n.help[helpNeighbours] {
		return n
	}
	if repelling, err := p.handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList(); err == nil && len(repelling) == 0 {
		n.alike = g.kind()
	}
	return n
}

func (n *needs) addVolumes(pod *v1.Pod) {
	for _, volume := range pod.Spec.Volumes {
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = pod.Name + "-" + volume.Name
		case volume.CSI != nil:
			n.help[helpVolumes] = true
		}
		if name != "" {
			if n.claims == nil {
				n.claims = map[types.NamespacedName]bool{}
			}
			n.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
		}
	}
}

// anyHelp is what a gang needs of which the planner knows nothing to be missing.
var anyHelp = needs{help: [helps]bool{true, true, true, true}}

// kind is a gang without its names: all that the planner and the filters see
// of it. A pod with a nominated node has room of its own, and is like no other;
// and where some pods repel others, labels count that are each gang's own.
func (g gathered) kind() string {
	if _, linked := g.group.Annotations[tutti.GPULinkAnnotation]; linked {
		return "" // other things help it (links.go)
	}
	type like struct {
		Type        string
		Pods        int
		Annotations map[string]string // which say what Kueue asks
		Spec        v1.PodSpec
	}
	all := struct {
		Namespace string
		Wishes    map[string]string
		Group     any
		Roles     []like
	}{Namespace: g.key.Namespace, Wishes: maps.Clone(g.group.Annotations), Group: g.group.Spec}
	for _, role := range g.roles {
		for _, pod := range role.Pods {
			if pod.Status.NominatedNodeName != "" {
				return ""
			}
		}
		all.Roles = append(all.Roles, like{role.Type, len(role.Pods), role.Pods[0].Annotations, comparable(role.Pods[0].Spec)})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// comparable is a pod's spec without what no filter reads and differs from gang
// to gang: its group's name, and what its containers run.
func comparable(spec v1.PodSpec) v1.PodSpec {
	spec.SchedulingGroup, spec.Hostname, spec.Subdomain, spec.ServiceAccountName, spec.DeprecatedServiceAccount = nil, "", "", "", ""
	spec.Volumes, spec.ImagePullSecrets, spec.HostAliases = nil, nil, nil
	spec.Containers = bare(spec.Containers)
	spec.InitContainers = bare(spec.InitContainers)
	return spec
}

// bare containers have their requests and ports left.
func bare(containers []v1.Container) []v1.Container {
	list := make([]v1.Container, len(containers))
	for i, c := range containers {
		list[i] = v1.Container{Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	}
	return list
}

// changed is called when something may fit that did not.
func (g *gate) changed() { g.helped(helpRoom, nil) }

// helped is called when something changed that may help refused gangs: all of
// those that need such, or that concerns says. O(gangs that nothing has helped
// since they were refused).
func (g *gate) helped(kind help, concerns func(needs) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epochs[kind]++
	g.moved[kind] = g.clock.Now()
	for key, gang := range g.line.idle {
		if gang.needs.help[kind] && (concerns == nil || concerns(gang.needs)) {
			gang.stale = true
			g.lookAfter(key, gang, gang.retryAfter(lastTurn))
		}
	}
}

// claimChanged is called when a volume claim came or changed: the gang that
// names it waits for nothing else, and is tried at once.
func (g *gate) claimChanged(claim types.NamespacedName) {
	g.helped(helpVolumes, func(n needs) bool { return n.claims[claim] })
}
