// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// A gang's owner is told what it lacks when it has lacked the same for
// firstTell, then twice that, up to lastTell: pods that are just being created
// are nothing to talk about, and slow ones not worth a word each.
const (
	firstTell = time.Second
	lastTell  = time.Minute
)

// lack is why a gang cannot be tried.
type lack struct{ kind, text string }

// The kinds of lack: of each, an event is sent once.
const (
	lacksGroup     = "group"
	lacksPods      = "pods"
	lacksConsent   = "scheduling gates"
	lacksPriority  = "priority"
	lacksScheduler = "scheduler"
)

// found is what the gate sees of a gang when it looks.
type found struct {
	group    *schedulingv1beta1.PodGroup // nil when there is none
	pods     []*v1.Pod                   // without a node, and not being deleted
	complete bool
	lack     lack
	// since is when the last of the pods was created.
	since time.Time
}

// complete tells whether the gang can be tried at all and, if not, what it
// lacks. What is missing comes as an event.
func (g *gate) complete(key types.NamespacedName) found {
	var f found
	groups := g.handle.PodGroupManager()
	state, err := groups.PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return f
	}
	members := slices.Clone(state.ScheduledPods())
	exist := len(live(members))
	for _, pod := range state.UnscheduledPods() {
		members = append(members, pod)
		if pod.DeletionTimestamp == nil {
			f.pods = append(f.pods, pod)
			if pod.CreationTimestamp.After(f.since) {
				f.since = pod.CreationTimestamp.Time
			}
		}
	}
	if len(f.pods) > 0 && slices.MinFunc(f.pods, byName).Spec.SchedulerName != g.profile {
		return found{} // another profile's gang, and another gate's
	}
	f.group, err = groups.PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		f.group = nil
		if len(f.pods) > 0 {
			f.lack = lack{lacksGroup, fmt.Sprintf("the pod belongs to gang %s, but there is no PodGroup of that name in namespace %s: create it, or take the pod out of the gang", key.Name, key.Namespace)}
		}
		return f
	}
	exist += len(f.pods)
	if quorum := quorumOf(f.group); exist < quorum {
		f.lack = lack{lacksPods, fmt.Sprintf("waiting for pods: %d exist, and the gang's minimum is %d", exist, quorum)}
		if held := f.group.Annotations[tutti.HeldPodsAnnotation]; held != "" {
			f.lack = lack{lacksConsent, fmt.Sprintf("%d pods can start, and the gang's minimum is %d: %s have scheduling gates, and the gang waits until those are gone", exist, quorum, held)}
		}
		return f
	}
	if len(f.pods) > 0 {
		f.lack = disagree(f.group, g.profile, members)
	}
	f.complete = len(f.pods) > 0 && f.lack.text == ""
	if len(f.pods) == 0 { // no cycle would tell that the minimum is met again
		g.report.runs(f.group, tally{placed: exist, all: exist}, "")
	}
	return f
}

// timeoutOf is how long the gang may wait before it goes behind others; zero
// for ever.
func timeoutOf(group *schedulingv1beta1.PodGroup) time.Duration {
	seconds, err := strconv.Atoi(group.Annotations[tutti.ScheduleTimeoutAnnotation])
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (g *gated) deadline() time.Time { return g.waits.Add(g.timeout) }

// overdue tells whether the gang has waited longer than it should.
func (g *gate) overdue(gang *gated) bool {
	return gang.timeout > 0 && !gang.waits.IsZero() && !g.clock.Now().Before(gang.deadline())
}
