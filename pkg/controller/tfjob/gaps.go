// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// dropSurplus removes what is beyond the number of replicas.
func dropSurplus(p *plan, v *view) {
	wanted := map[string]bool{}
	for _, s := range v.slots() {
		wanted[s.name(v.job)] = true
	}
	for _, pod := range staying(sorted(v.pods)) {
		if !wanted[pod.Name] {
			p.deletePods = append(p.deletePods, pod)
		}
	}
	addressed := map[string]bool{}
	for _, a := range v.addresses() {
		addressed[a.name] = true
	}
	for _, service := range staying(sorted(v.services)) {
		if !addressed[service.Name] {
			p.deleteServices = append(p.deleteServices, service)
		}
	}
}

// fillGaps asks for what is missing. A PodGroup or service on its way out holds up what comes after it: its name has to become free
// first.
func fillGaps(p *plan, v *view, counts []roleCount, options Options, now time.Time) {
	if totalReplicas(v.roles) == 0 {
		return
	}
	if options.PodGroups != nil && !fillGroup(p, v, counts, options.PodGroups) {
		return
	}
	if fillServices(p, v) {
		fillPods(p, v, counts, now)
	}
}

// fillGroup tells whether the rest may follow. A job does not start in a gang that is another's. One that has run goes on: its pods are
// members of whatever PodGroup has their gang's name, and are placed by what that one says; that is less than they were promised, and more
// than being deleted one by one and never made again.
func fillGroup(p *plan, v *view, counts []roleCount, kind *PodGroupKind) bool {
	is, want := v.groups[v.job.Name], kind.write(gangOf(v, counts))
	switch {
	case is == nil && !v.isAsked(creation(kindPodGroup, v.job.Name)):
		p.createGroup = want
	case is == nil:
		return !v.taken[creation(kindPodGroup, v.job.Name)] || hasRun(&p.status)
	case is.GetDeletionTimestamp() != nil:
		return kind.isHeld && slices.ContainsFunc(sorted(v.pods), func(pod *corev1.Pod) bool { return !hasEnded(pod) })
	default:
		p.patchGroup = kind.patch(is, want)
	}
	return true
}

// fillServices tells whether the rest may follow. A job does not start at an address that is another's; one that has run goes on, for
// somebody may have taken a service out of it.
func fillServices(p *plan, v *view) bool {
	free := true
	for _, a := range v.addresses() {
		service := v.services[a.name]
		free = free && (service == nil || service.DeletionTimestamp == nil) && (!v.taken[creation(kindService, a.name)] || hasRun(&p.status))
		if service == nil && !v.isAsked(creation(kindService, a.name)) {
			p.createServices = append(p.createServices, a)
		}
	}
	return free
}

func fillPods(p *plan, v *view, counts []roleCount, now time.Time) {
	for i := range counts {
		h := counts[i].history
		for index := range counts[i].role.replicas {
			s := slot{counts[i].role, index}
			name := s.name(v.job)
			if v.pods[name] == nil && !v.isAsked(creation(kindPod, name)) && h.mayRun(index, now) {
				p.createPods = append(p.createPods, newcomer{s, h.restarts[index].Attempt})
			}
		}
	}
}
