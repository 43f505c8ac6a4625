// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// apply shows the controllers a change.
func (w *world) apply(resource string, c change) {
	w.show(w.controller, w.jobs, resource, c)
	if w.standby != nil {
		w.show(w.standby, w.standbys, resource, c)
	}
}

// show does to a controller's caches and handlers what an informer does.
func (w *world) show(controller *Controller, jobs cache.Indexer, resource string, c change) {
	kind := map[string]string{resPods: kindPod, resServices: kindService, resGroups: kindPodGroup}[resource]
	indexer := map[string]cache.Indexer{
		resJobs: jobs, resPods: controller.pods, resServices: controller.services, resGroups: controller.groups,
	}[resource]
	var err error
	switch {
	case c.after == nil:
		err = indexer.Delete(c.before)
		controller.objectGone(kind, c.before)
	case c.before == nil:
		err = indexer.Add(c.after)
		controller.objectChanged(kind, nil, c.after)
	default:
		err = indexer.Update(c.after)
		controller.objectChanged(kind, c.before, c.after)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcile() error {
	var err error
	w.after, err = w.controller.reconcile(w.t.Context(), types.NamespacedName{Namespace: "n", Name: "j"})
	return err
}

// settle runs controller and kubelet until nothing changes any more: pods that wait run, pods that run and have all their peers
// succeed, pods that are deleted end with 0 and go.
func (w *world) settle() {
	w.fault = func(string) fault { return works }
	for range 100 {
		before := w.version + len(w.journal[resPods])
		w.deliverAll()
		if err := w.reconcile(); err != nil {
			w.t.Logf("while settling: %v", err)
		}
		w.kubelet(func(string) bool { return true })
		switch {
		case before != w.version+len(w.journal[resPods]) || !w.caughtUp():
		case w.after == 0:
			return
		default:
			w.clock = w.clock.Add(w.after)
		}
	}
	w.t.Fatalf("the world does not settle; conditions %v, pods %v", describe(w.job().Status), w.podNames())
}

func (w *world) caughtUp() bool {
	for _, resource := range resources {
		if w.seen[resource] < len(w.journal[resource]) {
			return false
		}
	}
	return true
}

// kubelet moves those pods one step on that chosen picks.
func (w *world) kubelet(chosen func(name string) bool) {
	up := map[string]bool{}
	if rs := w.job().Status.ReplicaStatuses[worker]; rs != nil {
		for _, index := range expand(rs.SucceededIndexes) {
			up["j-worker-"+index] = true // has been
		}
	}
	for name, o := range w.objects[resPods] {
		up[name] = o.(*corev1.Pod).Status.Phase != corev1.PodPending
	}
	all := len(up) == 4
	for _, isUp := range up {
		all = all && isUp
	}
	for _, name := range w.podNames() {
		pod := w.objects[resPods][name].(*corev1.Pod)
		switch {
		case !chosen(name):
		case pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodRunning:
			w.setPhase(name, corev1.PodSucceeded, endedAt(0, w.clock))
		case pod.DeletionTimestamp != nil:
			w.takeAway(name)
		case pod.Status.Phase == corev1.PodPending:
			w.setPhase(name, corev1.PodRunning)
		case pod.Status.Phase == corev1.PodRunning && all && strings.Contains(name, "worker"):
			w.setPhase(name, corev1.PodSucceeded, exited(0))
			w.trained[name] = true
		}
	}
}

// gangJob is 1 PS and 3 workers that all have to succeed; what is killed comes back.
func gangJob(policy kubeflowv1.CleanPodPolicy) *kubeflowv1.TFJob {
	return makeJob(replicas(ps, 1, kubeflowv1.RestartPolicyAlways), replicas(worker, 3, kubeflowv1.RestartPolicyExitCode), allWorkers, cleaning(policy))
}

// ofEitherKind are test options with each kind of PodGroup.
var ofEitherKind = map[string]Options{"crd": testOptions, "native": {SchedulerName: "tutti-scheduler", PodGroups: NativePodGroups}}

// anyKind takes turns.
func anyKind(n uint64) Options {
	return ofEitherKind[[]string{"crd", "native"}[n%2]]
}

// wantEnd is how a gangJob ends, whatever happened on the way. (Whether it was ever seen running, and whether its PS ran when the last
// worker succeeded, may differ.)
var wantEnd = map[kubeflowv1.CleanPodPolicy][]string{
	kubeflowv1.CleanPodPolicyRunning: {
		"state Succeeded", "workers {0 3 0}",
		"pods [j-worker-0 j-worker-1 j-worker-2]", "services [j-worker-0 j-worker-1 j-worker-2]", "podgroups []",
	},
	kubeflowv1.CleanPodPolicyAll: {"state Succeeded", "workers {0 3 0}", "pods []", "services []", "podgroups []"},
}

func (w *world) end() []string {
	status := w.job().Status
	lines := []string{fmt.Sprintf("state %s", status.State)}
	if rs := status.ReplicaStatuses[worker]; rs != nil {
		lines = append(lines, fmt.Sprintf("workers {%d %d %d}", rs.Active, rs.Succeeded, rs.Failed))
	}
	for _, resource := range resources[1:] {
		lines = append(lines, fmt.Sprintf("%s %v", resource, slices.Sorted(maps.Keys(w.objects[resource]))))
	}
	return lines
}

// safety fails the test as soon as a write breaks an invariant.
func (w *world) safety(checkRerun bool) func(action string) {
	succeeded := map[string]bool{}
	return func(action string) {
		verb, rest, _ := strings.Cut(action, " ")
		resource, name, _ := strings.Cut(rest, " ")
		if verb == "create" && resource == resPods {
			if missing := 4 - len(w.objects[resServices]); missing > 0 {
				w.t.Errorf("pod %s is created while %d services are missing", name, missing)
			}
			if len(w.objects[resGroups]) == 0 {
				w.t.Errorf("pod %s is created without a group", name)
			}
			index := strings.TrimPrefix(name, "j-worker-")
			if rs := w.job().Status.ReplicaStatuses[worker]; rs != nil && slices.Contains(expand(rs.SucceededIndexes), index) {
				w.t.Errorf("pod %s is created again although the status has its success", name)
			}
			if checkRerun && succeeded[name] {
				w.t.Errorf("pod %s is created again after it succeeded", name)
			}
		}
		if verb == "create" && isFinished(&w.job().Status) {
			w.t.Errorf("%s of a finished job", action)
		}
		if final := w.job().Status; isTrue(&final, kubeflowv1.JobSucceeded) && isTrue(&final, kubeflowv1.JobFailed) {
			w.t.Error("both Succeeded and Failed")
		}
		for name, o := range w.objects[resPods] {
			if o.(*corev1.Pod).Status.Phase == corev1.PodSucceeded {
				succeeded[name] = true
			}
		}
	}
}

func expand(indexes string) []string {
	var all []string
	for _, index := range slices.Sorted(maps.Keys(parseIndexes(indexes))) {
		all = append(all, strconv.Itoa(index))
	}
	return all
}

func TestUndisturbedJob(t *testing.T) {
	for name, options := range ofEitherKind {
		t.Run(name, func(t *testing.T) { undisturbedJob(t, options) })
	}
}

func undisturbedJob(t *testing.T, options Options) {
	const policy = kubeflowv1.CleanPodPolicyRunning
	w := newWorldOf(t, options)
	w.check = w.safety(true)
	w.put(resJobs, gangJob(policy))
	w.settle()
	if diff := cmp.Diff(wantEnd[policy], w.end()); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	creations := map[string]int{}
	for _, action := range w.writes {
		if strings.HasPrefix(action, "create") {
			creations[action]++
		}
	}
	if len(creations) != 9 {
		t.Errorf("created %v", creations)
	}
	for action, n := range creations {
		if n != 1 {
			t.Errorf("%s %d times", action, n)
		}
	}
	// The order of the first writes, where only equals may change places.
	var kinds []string
	for _, action := range w.writes[:10] {
		kinds = append(kinds, strings.Join(strings.Fields(action)[:2], " "))
	}
	want := []string{"update tfjobs", "create podgroups", "create services", "create pods"}
	if diff := cmp.Diff(want, slices.Compact(kinds)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// Kill the controller at every single write of a job's life, before and after the write has its effect.
func TestKilledAtEveryWrite(t *testing.T) {
	const policy = kubeflowv1.CleanPodPolicyRunning
	const writes = 25 // more than an undisturbed job needs
	for _, how := range []fault{killed, forgotten} {
		for at := range writes {
			t.Run(fmt.Sprintf("write %d, fault %d", at, how), func(t *testing.T) {
				w := newWorldOf(t, anyKind(uint64(at)))
				w.check = w.safety(true)
				w.put(resJobs, gangJob(policy))
				n := 0
				for range 12 {
					w.fault = func(string) fault {
						n++
						switch {
						case n-1 < at:
							return works
						case n-1 == at:
							return how
						}
						return forgotten // the dead do not write
					}
					w.deliverAll()
					_ = w.reconcile()
					if n > at {
						break
					}
					w.kubelet(func(string) bool { return true })
				}
				w.start()
				w.settle()
				if diff := cmp.Diff(wantEnd[policy], w.end()); diff != "" {
					t.Errorf("end (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Any call may fail or time out after it took effect, the controller may be killed at any time, caches lag behind by any amount,
// pods are killed and the user suspends the job: in the end it is as if nothing had happened.
func TestRandomFaults(t *testing.T) {
	rounds := uint64(1000)
	if testing.Short() {
		rounds = 30
	}
	for seed := range rounds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			suspends := seed%2 == 1
			// A PS killed at the very end stays under the policy Running, so PS are killed under All only. A success from before a
			// suspension leaves no pod, so there is no telling what Running keeps.
			policy, victims := kubeflowv1.CleanPodPolicyRunning, "j-worker"
			if seed%4 >= 2 || suspends {
				policy, victims = kubeflowv1.CleanPodPolicyAll, "j-"
			}
			w := newWorldOf(t, anyKind(seed/4))
			w.check = w.safety(!suspends)
			w.put(resJobs, gangJob(policy))
			for step := range 60 {
				w.fault = randomFault(seed, step)
				w.disturb(rng, suspends, victims)
			}
			w.edit(func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(false) })
			w.settle()
			if diff := cmp.Diff(wantEnd[policy], w.end()); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if len(w.trained) != 3 {
				t.Errorf("only %v have trained", w.trained)
			}
			// A worker that was killed had to be replaced to succeed, and counts once; a suspension may come before its end is seen. A
			// container's restart counts at most once: nobody may have looked before its pod was gone.
			faults := 0
			for _, r := range w.job().Status.ReplicaStatuses[worker].Restarts {
				faults += int(r.Faults + r.ContainerRestarts)
			}
			if faults > w.killed+w.crashed || faults < w.killed && !suspends {
				t.Errorf("%d workers were killed and %d restarted, %d faults counted", w.killed, w.crashed, faults)
			}
		})
	}
}

func (w *world) disturb(rng *rand.Rand, suspends bool, victims string) {
	switch rng.IntN(12) {
	case 11:
		w.orphan(rng)
	case 10:
		w.collect(rng, victims)
	case 0, 1, 2, 3:
		resource := resources[rng.IntN(len(resources))]
		w.deliver(resource, 1+rng.IntN(4))
	case 4, 5, 6:
		_ = w.reconcile()
	case 7:
		w.kubelet(func(string) bool { return rng.IntN(2) == 0 })
		w.crash(rng)
	case 8:
		w.kill(rng, victims)
	case 9:
		switch {
		case rng.IntN(2) == 0:
			// Another API server may answer, and a new controller's first list may be older than what the old one saw.
			for _, resource := range resources {
				w.seen[resource] = max(0, w.seen[resource]-rng.IntN(4))
			}
			w.start()
		case suspends:
			w.edit(func(job *kubeflowv1.TFJob) { job.Spec.RunPolicy.Suspend = new(rng.IntN(2) == 0) })
		}
	}
}

// crash ends containers that the kubelet restarts.
func (w *world) crash(rng *rand.Rand) {
	for _, name := range w.podNames() {
		pod := w.objects[resPods][name].(*corev1.Pod)
		if pod.Status.Phase != corev1.PodRunning || rng.IntN(4) > 0 {
			continue
		}
		n := containerRestarts(pod) + 1
		w.setPhase(name, corev1.PodRunning, func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }, restarted(n))
		if strings.HasPrefix(name, "j-worker") {
			w.crashed++
		}
	}
}

func (w *world) kill(rng *rand.Rand, victims string) {
	for _, name := range w.podNames() {
		isRunning := w.objects[resPods][name].(*corev1.Pod).Status.Phase == corev1.PodRunning
		if isRunning && strings.HasPrefix(name, victims) && rng.IntN(4) == 0 {
			n := containerRestarts(w.objects[resPods][name].(*corev1.Pod))
			w.setPhase(name, corev1.PodFailed, exited(137), func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].RestartCount = n })
			if strings.HasPrefix(name, "j-worker") {
				w.killed++
			}
		}
	}
}

// orphan takes an object from its job, as a deletion that orphans dependents does.
func (w *world) orphan(rng *rand.Rand) {
	objects := sorted(w.objects[resources[1+rng.IntN(len(resources)-1)]])
	if len(objects) == 0 {
		return
	}
	o := objects[rng.IntN(len(objects))].DeepCopyObject().(apiObject)
	if o.GetDeletionTimestamp() == nil {
		o.SetOwnerReferences(nil)
		w.put(resourceOf(o), o)
	}
}

func resourceOf(o apiObject) string {
	switch o.(type) {
	case *corev1.Pod:
		return resPods
	case *corev1.Service:
		return resServices
	}
	return resGroups
}

// collect deletes the pod of a success that the job's status has, as a pod collector or an autoscaler does. Where the policy keeps
// such pods the end would tell, so it does it only where none are kept.
func (w *world) collect(rng *rand.Rand, victims string) {
	rs := w.job().Status.ReplicaStatuses[worker]
	if victims != "j-" || rs == nil || isFinished(&w.job().Status) {
		return
	}
	for _, index := range expand(rs.SucceededIndexes) {
		name := "j-worker-" + index
		if w.objects[resPods][name] != nil && rng.IntN(2) == 0 {
			w.remove(resPods, name)
		}
	}
}

// randomFault depends on the call alone, so that calls in parallel do not change each other's luck and a seed can be run again.
func randomFault(seed uint64, step int) func(string) fault {
	return func(action string) fault {
		h := fnv.New64a()
		fmt.Fprint(h, seed, step, action)
		switch h.Sum64() % 10 {
		case 0:
			return refused
		case 1:
			return timedOut
		}
		return works
	}
}
