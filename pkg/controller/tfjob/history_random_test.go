// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

var histories = flag.Int("histories", 300, "how many random histories of jobs are tried")

// life is a job in a world without a network: what decide plans happens, and in between pods live and die, users change their minds
// and time goes by.
type life struct {
	t    *testing.T
	rng  *rand.Rand
	now  time.Time
	log  []string
	made int

	job      *kubeflowv1.TFJob
	pods     map[string]*corev1.Pod
	services map[string]*corev1.Service
	groups   map[string]podGroup

	told      map[types.UID]time.Time // pods that the controller told to go, and when
	onCommand map[types.UID]bool      // those that ended then
	succeeded map[string]bool         // whatever a reconcile has seen succeed
}

// Whatever happens to a job, the decisions about it keep these rules:
//
//	H1 terminal is absorbing, and there is one terminal condition
//	H2 completionTime if and only if terminal
//	H3 counts equal pods
//	H4 never two pods for one identity
//	H5 an index that has succeeded is never run again, and one that ended because the controller told it to go has not succeeded
//	H6 the same world, the same decision; and a second look at it changes nothing
//	H7 nothing is created for a job that has ended, is suspended or cannot be run
//	H8 one condition per type, Running and Restarting never both, state is the last that holds
//	H9 faults are never forgotten, and a job beyond its limits does not go on
//	H10 only what is there is deleted, and what is to go already is let go
//	H11 an edit ends no job that has run
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(*histories) {
		if testing.Short() && seed == 30 {
			return
		}
		l := newLife(t, seed)
		for range 80 {
			for range 1 + l.rng.IntN(3) {
				l.happen()
			}
			l.look()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, l.log)
			}
		}
	}
}

func newLife(t *testing.T, seed uint64) *life {
	l := &life{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: testTime,
		pods: map[string]*corev1.Pod{}, services: map[string]*corev1.Service{}, groups: map[string]podGroup{},
		told: map[types.UID]time.Time{}, onCommand: map[types.UID]bool{}, succeeded: map[string]bool{},
	}
	l.job = makeJob(replicas(worker, int32(l.rng.IntN(4)), l.restartPolicy()))
	for _, kind := range []kubeflowv1.ReplicaType{ps, chief, evaluator} {
		if l.rng.IntN(3) == 0 {
			replicas(kind, int32(l.rng.IntN(2)), l.restartPolicy())(l.job)
		}
	}
	for _, edit := range []func(){l.editLimits, l.editPolicies} {
		if l.rng.IntN(2) == 0 {
			edit()
		}
	}
	return l
}

func (l *life) restartPolicy() kubeflowv1.RestartPolicy {
	return []kubeflowv1.RestartPolicy{"", "Never", "OnFailure", "Always", "ExitCode", "ExitCode"}[l.rng.IntN(6)]
}

func (l *life) editLimits() {
	policy := &l.job.Spec.RunPolicy
	policy.BackoffLimit, policy.ActiveDeadlineSeconds, policy.TTLSecondsAfterFinished = nil, nil, nil
	if l.rng.IntN(2) == 0 {
		policy.BackoffLimit = new(int32(l.rng.IntN(5)))
	}
	if l.rng.IntN(4) == 0 {
		policy.ActiveDeadlineSeconds = new(int64(l.rng.IntN(900)))
	}
	if l.rng.IntN(2) == 0 {
		policy.TTLSecondsAfterFinished = new(int32(l.rng.IntN(600)))
	}
}

func (l *life) editPolicies() {
	l.job.Spec.RunPolicy.CleanPodPolicy = new([]kubeflowv1.CleanPodPolicy{"", "All", "Running", "None"}[l.rng.IntN(4)])
	l.job.Spec.SuccessPolicy = new([]kubeflowv1.SuccessPolicy{"", "AllWorkers"}[l.rng.IntN(2)])
	l.job.Spec.EnableDynamicWorker = l.rng.IntN(2) == 0
}

// editImpossibly makes a job that cannot be run, or takes that back; or it adds and removes a role.
func (l *life) editImpossibly() {
	switch l.rng.IntN(4) {
	case 0:
		l.job.Annotations = map[string]string{"tutti.dev/completion": "?"}
	case 1:
		l.job.Annotations = nil
	case 2:
		for _, spec := range l.job.Spec.TFReplicaSpecs {
			spec.Template.Spec.PriorityClassName = []string{"low", "high"}[l.rng.IntN(2)]
		}
	case 3:
		if l.job.Spec.TFReplicaSpecs[evaluator] == nil {
			replicas(evaluator, 1, l.restartPolicy())(l.job)
			// What it did before it was taken out of the job is forgotten.
			maps.DeleteFunc(l.succeeded, func(name string, _ bool) bool { return strings.Contains(name, "-evaluator-") })
		} else {
			delete(l.job.Spec.TFReplicaSpecs, evaluator)
		}
	}
	l.note("edited: annotations %v, roles %d", l.job.Annotations, len(l.job.Spec.TFReplicaSpecs))
}

// happen is one thing that the controller does not do.
func (l *life) happen() {
	l.now = l.now.Add(time.Duration(l.rng.IntN(20)) * time.Second)
	switch n := l.rng.IntN(20); n {
	case 0:
		l.now = l.now.Add(time.Duration(l.rng.IntN(1000)) * time.Second)
		l.note("time goes by")
	case 1:
		l.job.Spec.RunPolicy.Suspend = new(!ptr.Deref(l.job.Spec.RunPolicy.Suspend, false))
		l.note("suspend %v", *l.job.Spec.RunPolicy.Suspend)
	case 2:
		for _, t := range replicaTypes {
			spec := l.job.Spec.TFReplicaSpecs[t]
			if spec == nil {
				continue
			}
			spec.Replicas = new(max(0, *spec.Replicas+int32(l.rng.IntN(3))-1))
		}
		if chiefs := l.job.Spec.TFReplicaSpecs[chief]; chiefs != nil {
			chiefs.Replicas = new(min(1, *chiefs.Replicas))
		}
		l.note("scaled")
	case 3:
		l.editLimits()
		l.note("other limits")
	case 4:
		if l.rng.IntN(4) == 0 {
			l.editPolicies()
			l.note("other policies")
		}
	case 5:
		l.editImpossibly()
	default:
		if names := sortedNames(l.pods); len(names) > 0 {
			l.live(l.pods[names[l.rng.IntN(len(names))]])
		}
	}
}

func sortedNames(pods map[string]*corev1.Pod) []string {
	var names []string
	for _, pod := range sorted(pods) {
		names = append(names, pod.Name)
	}
	return names
}

// live is one step in the life of a pod.
func (l *life) live(old *corev1.Pod) {
	pod := old.DeepCopy()
	l.pods[pod.Name] = pod
	ended := hasEnded(pod)
	switch n := l.rng.IntN(10); {
	case pod.DeletionTimestamp != nil && ended:
		delete(l.pods, pod.Name)
	case pod.DeletionTimestamp != nil && pod.Status.Phase == running && n < 3: // whatever its policy
		pod.Status.Phase = []corev1.PodPhase{succeeded, failed}[l.rng.IntN(2)]
		endedAt(map[corev1.PodPhase]int32{succeeded: 0, failed: 143}[pod.Status.Phase], l.now)(pod)
	case n == 9 && pod.DeletionTimestamp == nil: // by a drain, a collector, a user
		going(l.now)(pod)
	case ended:
	default:
		l.work(pod, n)
	}
	if _, told := l.told[pod.UID]; told && hasEnded(pod) && !ended {
		l.onCommand[pod.UID] = true
	}
	l.note("%s is %s, going %v", pod.Name, pod.Status.Phase, pod.DeletionTimestamp != nil)
}

// work is what a pod does by itself that has not ended.
func (l *life) work(pod *corev1.Pod, n int) {
	switch {
	case pod.Status.Phase == pending:
		pod.Status.Phase = running
		if n == 0 {
			pod.Status.Phase, pod.Status.Reason = failed, "OutOfcpu"
		}
	case n < 3 && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
		pod.Status.Phase = succeeded
		endedAt(0, l.now.Add(-time.Second))(pod)
	case n < 5:
		pod.Status.Phase = failed
		exited([]int32{1, 127, 128, 137, 0}[l.rng.IntN(5)])(pod)
	case n < 7 && pod.Spec.RestartPolicy != corev1.RestartPolicyNever:
		restarted(containerRestarts(pod) + 1)(pod)
		pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[len(pod.Status.ContainerStatuses)-1:]
	}
}

func (l *life) view() *view {
	v := &view{stored: l.job, pods: l.pods, services: l.services, groups: l.groups, open: map[entry]bool{}, taken: map[entry]bool{}}
	v.going = map[types.UID]departure{}
	for _, pod := range l.pods {
		if told, ok := l.told[pod.UID]; ok {
			v.going[pod.UID] = departure{pod, true, told}
		}
	}
	v.job, v.problems = canonical(l.job)
	v.roles = rolesFrom(v.job)
	v.perJob = perJobServices(v, testOptions)
	return v
}

// look is one reconcile: its decision is checked and comes true.
func (l *life) look() {
	v := l.view()
	p := decide(v, testOptions, l.now)
	l.check(v, p)
	again := *l.job
	again.Status = p.status
	l.job = &again
	second := decide(l.view(), testOptions, l.now)
	if !isFinished(&v.stored.Status) && isFinished(&p.status) {
		// The first look after the end cleans up.
	} else if !equality.Semantic.DeepEqual(p.status, second.status) {
		l.t.Errorf("H6 a second look (-first +second):\n%s", cmp.Diff(p.status, second.status))
	}
	if len(second.events) > 0 {
		l.t.Errorf("H6 a second look tells %v", second.events)
	}
	for _, pod := range slices.Concat(p.restartPods, p.deletePods) {
		if pod.Status.Phase == pending {
			delete(l.pods, pod.Name)
			continue
		}
		l.told[pod.UID] = l.now
		told := pod.DeepCopy()
		going(l.now)(told)
		l.pods[pod.Name] = told
	}
	for _, s := range p.deleteServices {
		delete(l.services, s.Name)
	}
	clear(l.groups)
	if p.createGroup != nil || len(p.deleteGroups) == 0 && len(v.groups) > 0 {
		l.groups["j"] = newGroupOf(v)
	}
	for _, a := range p.createServices {
		l.services[a.name] = newService(v, a)
	}
	for _, n := range p.createPods {
		pod, err := newPod(v, n, testOptions)
		if err != nil {
			l.t.Error(err)
		}
		l.made++
		pod.UID = types.UID(fmt.Sprint("uid-", l.made))
		pod.Status.Phase = pending
		l.pods[pod.Name] = pod
		l.note("made %s", pod.Name)
	}
	l.note("%v", describe(p.status))
}

func (l *life) check(v *view, p *plan) {
	t, status := l.t, &p.status
	ended := isFinished(status)
	l.checkEnd(&v.stored.Status, status)
	isSuspended := ptr.Deref(v.job.Spec.RunPolicy.Suspend, false) || isTrue(status, kubeflowv1.JobSuspended)
	if !ended && !isSuspended {
		l.checkCounts(v, status)
	}
	l.checkCreations(v, p, ended || isSuspended || p.complaint != "")
	l.checkComplaint(&v.stored.Status, status)
	if again := decide(v, testOptions, l.now); !equality.Semantic.DeepEqual(p.status, again.status) || !slices.Equal(actions(v, p), actions(v, again)) || p.after != again.after {
		t.Error("H6 the same world, another decision")
	}
	l.checkConditions(status)
	l.checkFaults(v, p, ended || isSuspended)
	for _, pod := range slices.Concat(p.deletePods, p.restartPods) {
		if l.pods[pod.Name] != pod || pod.DeletionTimestamp != nil {
			t.Errorf("H10 %s is to be deleted", pod.Name)
		}
	}
}

func (l *life) checkComplaint(before, status *kubeflowv1.JobStatus) {
	if failure := findCondition(status, kubeflowv1.JobFailed); failure != nil && failure.Reason == kubeflowv1.TFJobFailedValidationReason && hasRun(before) {
		l.t.Errorf("H11 %s", failure.Message)
	}
}

func (l *life) checkEnd(before, status *kubeflowv1.JobStatus) {
	if isFinished(before) && !equality.Semantic.DeepEqual(before.Conditions, status.Conditions) {
		l.t.Errorf("H1 after the end (-before +after):\n%s", cmp.Diff(before.Conditions, status.Conditions))
	}
	if isTrue(status, kubeflowv1.JobSucceeded) && isTrue(status, kubeflowv1.JobFailed) {
		l.t.Error("H1 two ends")
	}
	if isFinished(status) != (status.CompletionTime != nil) {
		l.t.Errorf("H2 ended %v, completionTime %v", isFinished(status), status.CompletionTime)
	}
}

func (l *life) checkCounts(v *view, status *kubeflowv1.JobStatus) {
	for i := range v.roles {
		r := &v.roles[i]
		var want kubeflowv1.ReplicaStatus
		done := parseIndexes(status.ReplicaStatuses[r.kind].SucceededIndexes)
		for index := range r.replicas {
			l.countOne(&want, l.pods[slot{r, index}.name(v.job)], r.spec.RestartPolicy, done[index])
		}
		got := status.ReplicaStatuses[r.kind]
		if got.Active != want.Active || got.Succeeded != want.Succeeded || got.Failed != want.Failed {
			l.t.Errorf("H3 %s: status says %+v, pods %+v", r.kind, *got, want)
		}
	}
}

// countOne adds what the pod of a slot, which may be nil, counts as.
func (l *life) countOne(want *kubeflowv1.ReplicaStatus, pod *corev1.Pod, policy kubeflowv1.RestartPolicy, done bool) {
	switch {
	case pod == nil && done:
		want.Succeeded++
	case pod == nil:
	case isActive(pod):
		want.Active++
	case pod.Status.Phase == succeeded && policy == kubeflowv1.RestartPolicyAlways:
		want.Failed++
	case pod.Status.Phase == succeeded && !l.onCommand[pod.UID]:
		want.Succeeded++
	case pod.Status.Phase == failed && (policy != kubeflowv1.RestartPolicyNever || !l.onCommand[pod.UID]):
		want.Failed++
	}
}

// checkSuccesses: what counts as succeeded did succeed.
func (l *life) checkSuccesses(v *view, p *plan) {
	for i := range v.roles {
		r := &v.roles[i]
		for name, pod := range l.pods {
			if pod.Labels[kubeflowv1.ReplicaTypeLabel] == r.name && pod.Status.Phase == succeeded &&
				r.spec.RestartPolicy != kubeflowv1.RestartPolicyAlways && !l.onCommand[pod.UID] {
				l.succeeded[name] = true
			}
		}
		if rs := p.status.ReplicaStatuses[r.kind]; rs != nil && r.kind != evaluator { // which may have been another's
			for index := range parseIndexes(rs.SucceededIndexes) {
				if name := (slot{r, index}).name(v.job); !l.succeeded[name] {
					l.t.Errorf("H5 %s counts as succeeded", name)
				}
			}
		}
	}
}

func (l *life) checkCreations(v *view, p *plan, idle bool) {
	l.checkSuccesses(v, p)
	seen := map[string]bool{}
	for _, n := range p.createPods {
		name := n.name(v.job)
		if seen[name] || l.pods[name] != nil {
			l.t.Errorf("H4 a second %s", name)
		}
		seen[name] = true
		if l.succeeded[name] {
			l.t.Errorf("H5 %s has succeeded and is run again", name)
		}
	}
	if idle && (len(p.createPods) > 0 || len(p.createServices) > 0 || p.createGroup != nil || p.patchGroup != nil) {
		l.t.Errorf("H7 %v", actions(v, p))
	}
}

func (l *life) checkConditions(status *kubeflowv1.JobStatus) {
	types := map[kubeflowv1.JobConditionType]bool{}
	var last time.Time
	for _, c := range status.Conditions {
		if types[c.Type] {
			l.t.Errorf("H8 two conditions %s", c.Type)
		}
		types[c.Type] = true
		if c.LastUpdateTime.Time.Before(last) {
			l.t.Errorf("H8 %s changed later than what stands after it", c.Type)
		}
		last = c.LastUpdateTime.Time
	}
	if types[kubeflowv1.JobRunning] && types[kubeflowv1.JobRestarting] {
		l.t.Error("H8 both Running and Restarting")
	}
	if want := stateFrom(status.Conditions); status.State != want {
		l.t.Errorf("H8 state is %s, want %s", status.State, want)
	}
}

func (l *life) checkFaults(v *view, p *plan, idle bool) {
	sum := func(status *kubeflowv1.JobStatus, t kubeflowv1.ReplicaType) (n int32) {
		if rs := status.ReplicaStatuses[t]; rs != nil {
			for _, r := range rs.Restarts {
				n += r.Faults + r.ContainerRestarts
			}
		}
		return n
	}
	for t := range v.job.Spec.TFReplicaSpecs { // a role that was taken out of the job is forgotten
		if sum(&v.stored.Status, t) > sum(&p.status, t) {
			l.t.Errorf("H9 %s has forgotten faults", t)
		}
	}
	if idle {
		return
	}
	if deadline := deadlineOf(&p.status, v.job); backoff(&p.status, v.job) || deadline != nil && !l.now.Before(*deadline) {
		l.t.Error("H9 beyond its limits and going on")
	}
}

func (l *life) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...)+"\n")
}
