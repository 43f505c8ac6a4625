// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/topology"
	"github.com/tutti-project/tutti/pkg/whatif"
)

// leaseTerm is how old a lease may be before nobody holds it.
const leaseTerm = 30 * time.Second

// membersOf are the gang's pods that have not ended, in the order of their names.
func membersOf(s *snapshot.Snapshot, gang types.NamespacedName) []*unstructured.Unstructured {
	var members []*unstructured.Unstructured
	for _, pod := range s.Of("Pod") {
		if snapshot.GangOf(pod) == gang && !snapshot.HasEnded(pod) {
			members = append(members, pod)
		}
	}
	slices.SortFunc(members, func(a, b *unstructured.Unstructured) int { return topology.CompareNatural(a.GetName(), b.GetName()) })
	return members
}

// endedOf are those that have.
func endedOf(s *snapshot.Snapshot, gang types.NamespacedName) []*unstructured.Unstructured {
	var ended []*unstructured.Unstructured
	for _, pod := range s.Of("Pod") {
		if snapshot.GangOf(pod) == gang && snapshot.HasEnded(pod) {
			ended = append(ended, pod)
		}
	}
	return ended
}

// ofEnded tells how a pod ended that did.
func ofEnded(pod *unstructured.Unstructured) (State, []string) {
	if snapshot.PhaseOf(pod) == v1.PodSucceeded {
		return Finished, []string{fmt.Sprintf("pod %s has succeeded", pod.GetName())}
	}
	because := []string{"pod " + pod.GetName() + " failed"}
	for _, field := range []string{"reason", "message"} {
		if text, _, _ := unstructured.NestedString(pod.Object, "status", field); text != "" {
			because = append(because, text)
		}
	}
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	for _, status := range statuses {
		fields, _ := status.(map[string]any)
		code, ok, _ := unstructured.NestedInt64(fields, "state", "terminated", "exitCode")
		if ok && code != 0 {
			ended := fmt.Sprintf("container %v ended with exit code %d", fields["name"], code)
			if why, _, _ := unstructured.NestedString(fields, "state", "terminated", "reason"); why != "" && why != "Error" {
				ended += " (" + why + ")"
			}
			because = append(because, ended)
		}
	}
	return Failed, []string{fmt.Sprintf("%s; kubectl logs %s -n %s shows what it said", strings.Join(because, ", "), pod.GetName(), pod.GetNamespace())}
}

func waiting(pods []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *unstructured.Unstructured) bool { return snapshot.NodeOf(pod) != "" })
}

func (f Facts) explainGang(answer *Answer, gang types.NamespacedName) (*Answer, error) {
	members := membersOf(f.Snapshot, gang)
	ended := endedOf(f.Snapshot, gang)
	if len(members) > 0 && len(waiting(members)) == 0 {
		f.explainBound(answer, members)
		return answer, nil
	}
	if len(members) == 0 && len(ended) > 0 {
		answer.State = Finished
		for _, pod := range ended {
			if state, because := ofEnded(pod); state == Failed {
				answer.State, answer.Because = Failed, append(answer.Because, because...)
			}
		}
		return answer, nil
	}
	answer.State = Waits
	answer.Because = f.obstacles(gang, members, ended)
	if len(answer.Because) > 0 {
		return answer, nil
	}
	return answer, f.ask(answer, whatif.Target{Gang: gang})
}

// obstacles are what keeps the scheduler from trying.
func (f Facts) obstacles(gang types.NamespacedName, members, ended []*unstructured.Unstructured) []string {
	group := f.Snapshot.GroupOf(gang)
	if group == nil {
		return []string{f.groupless(gang, members)}
	}
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if minimum, field := snapshot.MinimumOf(group); int64(len(members)+succeeded(group, ended)) < minimum {
		by := "by the label scheduling.x-k8s.io/pod-group: "
		if snapshot.IsNative(group) {
			by = "by their spec.schedulingGroup.podGroupName: "
		}
		add("%d of the %d pods exist that its %s asks for; pods belong to it %s%s", len(members), minimum, field, by, gang.Name)
	}
	var gated, foreign []string
	gates, schedulers := map[string]bool{}, map[string]bool{}
	for _, pod := range waiting(members) {
		list, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates")
		for _, gate := range list {
			if fields, ok := gate.(map[string]any); ok {
				gates[fmt.Sprint(fields["name"])] = true
			}
		}
		if len(list) > 0 {
			gated = append(gated, pod.GetName())
		}
		if name := snapshot.SchedulerOf(pod); !slices.Contains(f.Schedulers, name) {
			foreign = append(foreign, pod.GetName())
			schedulers[name] = true
		}
	}
	if len(gated) > 0 {
		add("scheduling gates hold %s: %s; who set them takes them off", some(gated), keysOf(gates))
	}
	if len(foreign) > 0 {
		add("schedulerName of %s is %s; Tutti places the pods of %s", some(foreign), keysOf(schedulers), strings.Join(f.Schedulers, ", "))
	}
	return append(found, f.absent()...)
}

// groupless tells what is wrong with pods of a group that the snapshot does not have.
func (f Facts) groupless(gang types.NamespacedName, members []*unstructured.Unstructured) string {
	belong := fmt.Sprintf("its pods belong to PodGroup %s, which ", gang)
	for _, k := range snapshot.Kinds {
		if k.Kind == snapshot.NativePodGroup.Kind && slices.Contains(f.Snapshot.Unread, k.String()) {
			return belong + "could not be read, since you may not list podgroups." + k.Resource.Group + " or the cluster has none"
		}
	}
	if slices.ContainsFunc(members, func(pod *unstructured.Unstructured) bool { return snapshot.NativeGangOf(pod) != "" }) {
		return belong + "does not exist; create it: what a pod names in spec.schedulingGroup stays"
	}
	return belong + "does not exist; create it, or take the label scheduling.x-k8s.io/pod-group off the pods"
}

// succeeded counts the pods that have: their places in the gang are filled. Those
// older than the group were of an earlier one of its name.
func succeeded(group *unstructured.Unstructured, ended []*unstructured.Unstructured) int {
	n := 0
	born := group.GetCreationTimestamp()
	for _, pod := range ended {
		if created := pod.GetCreationTimestamp(); snapshot.PhaseOf(pod) == v1.PodSucceeded && !created.Before(&born) {
			n++
		}
	}
	return n
}

// absent tells that no scheduler is at work.
func (f Facts) absent() []string {
	switch {
	case f.Renewed == nil:
	case f.Renewed.IsZero():
		return []string{"tutti-scheduler has no lease: is it running (kubectl -n tutti-system get deployment tutti-scheduler)?"}
	case f.Now.Sub(*f.Renewed) > leaseTerm:
		return []string{fmt.Sprintf("tutti-scheduler has not renewed its lease for %s: is it running (kubectl -n tutti-system get deployment tutti-scheduler)?", f.Now.Sub(*f.Renewed).Round(time.Second))}
	}
	return nil
}

func (f Facts) explainPod(answer *Answer, pod *unstructured.Unstructured) (*Answer, error) {
	if snapshot.NodeOf(pod) != "" {
		f.explainBound(answer, []*unstructured.Unstructured{pod})
		return answer, nil
	}
	answer.State = Waits
	if name := snapshot.SchedulerOf(pod); !slices.Contains(f.Schedulers, name) {
		answer.Because = []string{fmt.Sprintf("its schedulerName is %s; Tutti places the pods of %s", name, strings.Join(f.Schedulers, ", "))}
		return answer, nil
	}
	if gates, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates"); len(gates) > 0 {
		answer.Because = []string{"scheduling gates hold it; who set them takes them off"}
		return answer, nil
	}
	if answer.Because = f.absent(); len(answer.Because) > 0 {
		return answer, nil
	}
	return answer, f.ask(answer, whatif.Target{Pod: snapshot.KeyOf(pod)})
}

// explainBound tells why pods that have their nodes do not run.
func (f Facts) explainBound(answer *Answer, pods []*unstructured.Unstructured) {
	answer.State = Runs
	for _, pod := range pods {
		if snapshot.PhaseOf(pod) == v1.PodRunning {
			continue
		}
		answer.State = Starts
		reason := "its containers do not run yet"
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, status := range statuses {
			fields, _ := status.(map[string]any)
			if why, ok, _ := unstructured.NestedString(fields, "state", "waiting", "reason"); ok {
				reason = fmt.Sprintf("container %v waits: %s", fields["name"], why)
			}
		}
		answer.Because = append(answer.Because, fmt.Sprintf("pod %s is on node %s, and %s", pod.GetName(), snapshot.NodeOf(pod), reason))
	}
}

// constraint is where a native group says in its spec which domain it must be in.
const constraint = "spec.schedulingConstraints.topology"

// wishes are what a gang may do without: annotations, and that.
var wishes = []string{constraint, tutti.RequiredTopologyAnnotation, tutti.SliceTopologyAnnotation, tutti.GPULinkAnnotation, tutti.UniformGPUsAnnotation}

// ask puts the question to the scheduler and, after a no, tries what would help.
func (f Facts) ask(answer *Answer, target whatif.Target) error {
	outcome, err := f.Run(f.Snapshot, target, false)
	if err != nil {
		return err
	}
	answer.Outcome = outcome
	if outcome.Placed {
		answer.Because = []string{"there is room for it now: " + outcome.Message + "; the scheduler is about to place it, or gangs before it wait for the same room"}
		return nil
	}
	answer.Because = []string{outcome.Message}
	group := f.Snapshot.GroupOf(target.Gang)
	for _, wish := range wishes {
		if group == nil || !wants(group, wish) {
			continue
		}
		other, err := f.Run(without(f.Snapshot, group, wish), target, false)
		if err != nil {
			return err
		}
		switch {
		case other.Placed:
			answer.Help = append(answer.Help, fmt.Sprintf("%s it would start: %s", lessOf(wish), other.Message))
		case other.Soon && !outcome.Soon:
			answer.Help = append(answer.Help, fmt.Sprintf("%s it would start soon: %s", lessOf(wish), other.Message))
		}
	}
	with, err := f.Run(f.Snapshot, target, true)
	if err != nil {
		return err
	}
	if (with.Placed || with.Soon) && len(with.Evicted) > 0 {
		answer.Help = append(answer.Help, fmt.Sprintf("it may evict pods of lower priority, and would start then: %s; evicted: %s", with.Message, listed(with.Evicted)))
	}
	return nil
}

// wants tells whether the group makes this wish, by its words or by default.
func wants(group *unstructured.Unstructured, wish string) bool {
	switch wish {
	case tutti.UniformGPUsAnnotation:
		return true
	case constraint:
		return snapshot.ConstraintOf(group) != ""
	}
	return group.GetAnnotations()[wish] != ""
}

func lessOf(wish string) string {
	if wish == tutti.UniformGPUsAnnotation {
		return "with " + wish + `: "false"`
	}
	return "without " + wish
}

// without is the snapshot in which the group does not make this wish.
func without(s *snapshot.Snapshot, group *unstructured.Unstructured, wish string) *snapshot.Snapshot {
	easier := group.DeepCopy()
	annotations := easier.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, wish)
	switch wish {
	case tutti.UniformGPUsAnnotation:
		annotations[wish] = "false"
	case constraint:
		unstructured.RemoveNestedField(easier.Object, "spec", "schedulingConstraints")
	case tutti.SliceTopologyAnnotation:
		delete(annotations, tutti.SliceSizeAnnotation)
	}
	easier.SetAnnotations(annotations)
	next := *s
	next.Objects = slices.Clone(s.Objects)
	for i, o := range next.Objects {
		if o == group {
			next.Objects[i] = easier
		}
	}
	return &next
}

// some lists a few names and counts the rest.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

func listed(pods []types.NamespacedName) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.String()
	}
	return some(names)
}

func keysOf(set map[string]bool) string {
	var keys []string
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}
