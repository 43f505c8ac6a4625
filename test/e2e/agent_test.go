// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/topology"
)

const (
	// linkRounds is on all nodes together.
	linkRounds = 102
	plugins    = "/var/lib/kubelet/device-plugins/"
	// unhealthyFile and describedFile are gpusim's.
	unhealthyFile = plugins + "gpusim.unhealthy"
	describedFile = plugins + "gpusim.yaml"
	nvlink        = "nvlink"
)

// TestLinksThatKubeletsGive: on a board with a switch, a mesh and bridged pairs
// pods without a wish take some GPUs, and then one that wants NVLink comes. The
// kubelet, whose plugin chooses with chance, gives it GPUs that are connected.
func TestLinksThatKubeletsGive(t *testing.T) {
	long(t)
	broken := shared.brokenPromises(t)
	t.Run("rounds", func(t *testing.T) {
		// How the first pods of a round may share GPUs of a node. What is left after
		// them is always linked behind a switch, and sometimes elsewhere.
		first := map[string][][]int64{
			workers[0]: {{}, {1}, {2}, {1, 2}, {3, 1}, {6}},
			workers[1]: {{}, {1}, {2}, {1, 1}, {4}, {2, 4}, {6}},
			workers[2]: {{6}, {2, 4}, {4, 2}, {2, 2, 2}, {3, 3}, {1, 1, 4}},
		}
		for i, node := range workers {
			t.Run(node, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				random := rand.New(rand.NewPCG(uint64(i), 1))
				// Rounds in which nothing can be promised do not count.
				done, skipped := 0, 0
				for done < linkRounds/len(workers) && skipped < 3*linkRounds {
					if s.linkRound(node, done+skipped, first[node][random.IntN(len(first[node]))], random) {
						done++
					} else {
						skipped++
					}
				}
				t.Logf("%d pods got the links that they were promised; in %d rounds none could be promised", done, skipped)
			})
		}
	})
	if now := shared.brokenPromises(t); now != broken {
		t.Errorf("the scheduler counts %g broken promises, %g before", now, broken)
	}
}

// linkRound is false when what the first pods left has no links for certain.
func (s *scene) linkRound(node string, round int, first []int64, random *rand.Rand) bool {
	s.t.Helper()
	var jobs []string
	taken := 0
	for i, gpus := range first {
		name := fmt.Sprintf("any-%d-%d", round, i)
		s.create(onNode(gpuGang(name, forever, 1, gpus), node))
		s.runs(name + "-worker-0")
		jobs, taken = append(jobs, name), taken+int(gpus)
	}
	var object *v1alpha1.NodeTopology
	s.eventually("the agent of "+node+" tells of all pods", func(ctx context.Context) (err error) {
		if object, err = s.topology(ctx, node); err == nil && (len(object.Status.Free) != 8-taken || len(object.Status.Given) != len(first)) {
			err = fmt.Errorf("%d GPUs are free and %d pods have some; want %d, %d", len(object.Status.Free), len(object.Status.Given), 8-taken, len(first))
		}
		return err
	})
	model, positions := s.board(object)
	var sizes []int64
	for size := 2; size <= len(object.Status.Free); size++ {
		if alwaysLinked(model, setOf(positions, object.Status.Free), size) {
			sizes = append(sizes, int64(size))
		}
	}
	if len(sizes) > 0 {
		name, gpus := fmt.Sprintf("linked-%d", round), sizes[random.IntN(len(sizes))]
		s.create(linked(onNode(gpuGang(name, forever, 1, gpus), node)))
		s.runs(name + "-worker-0")
		if got := s.given(node, name+"-worker-0"); len(got) != int(gpus) || !isLinked(model, setOf(positions, got)) {
			s.t.Errorf("round %d: on %s, of which %v were free, the kubelet gave %v to a pod that was promised %d linked GPUs", round, node, object.Status.Free, got, gpus)
		}
		jobs = append(jobs, name)
	}
	if len(jobs) > 0 {
		s.vanish(jobs...)
	}
	return len(sizes) > 0
}

// TestUnhealthyGPUsAreNotPlannedWith: of four pairs, halves of all are left, and
// then one pair whole.
func TestUnhealthyGPUsAreNotPlannedWith(t *testing.T) {
	long(t)
	s := newScene(t)
	node := workers[2] // pairs 0-2, 1-3, 4-5, 6-7
	t.Cleanup(func() { must(t, s.setUnhealthy(context.WithoutCancel(t.Context()), node)) })
	free := func(want ...int) func(context.Context) error {
		return func(ctx context.Context) error {
			object, err := s.topology(ctx, node)
			if err != nil {
				return err
			}
			var got []int
			_, positions := s.board(object)
			for _, uuid := range object.Status.Free {
				got = append(got, positions[uuid])
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				err = fmt.Errorf("the GPUs %v are free, want %v", got, want)
			}
			return err
		}
	}
	must(t, s.setUnhealthy(t.Context(), node, 0, 1, 4, 6))
	s.eventually("halves are free", free(2, 3, 5, 7))
	s.create(linked(onNode(gpuGang("pair", forever, 1, 2), node)))
	s.eventually("the pair is told why it waits", func(ctx context.Context) error {
		pods, err := s.gang(ctx, "pair", 1)
		if err == nil && !strings.Contains(unschedulable(&pods[0]), "NVLink-connected") {
			err = fmt.Errorf("pod %s is told %q", pods[0].Name, unschedulable(&pods[0]))
		}
		return err
	})
	must(t, s.setUnhealthy(t.Context(), node, 0, 1, 2, 3, 4, 5))
	s.runs("pair-worker-0")
	object, err := s.topology(t.Context(), node)
	must(t, err)
	_, positions := s.board(object)
	if got := setOf(positions, s.given(node, "pair-worker-0")); got != 1<<6|1<<7 {
		t.Errorf("the kubelet gave it %v, want 6 and 7", got)
	}
	must(t, s.setUnhealthy(t.Context(), node))
	s.eventually("six are free again", free(0, 1, 2, 3, 4, 5))
	s.vanish("pair")
}

// TestBrokenPromiseIsTold: while the agent does not look, a pod is placed for the
// one pair that is free, and then their bridge fails.
func TestBrokenPromiseIsTold(t *testing.T) {
	long(t)
	s := newScene(t)
	node := workers[2]
	before := s.brokenPromises(t)
	s.create(onNode(gpuGang("others", forever, 1, 6), node))
	s.runs("others-worker-0")
	var object *v1alpha1.NodeTopology
	s.eventually("a pair is free", func(ctx context.Context) (err error) {
		if object, err = s.topology(ctx, node); err == nil && (len(object.Status.Free) != 2 || len(object.Status.Given) != 1) {
			err = fmt.Errorf("the GPUs %v are free", object.Status.Free)
		}
		return err
	})
	must(t, command(t.Context(), "", "docker", "exec", node, "pkill", "-STOP", "-f", "^/tutti-agent"))
	s.create(linked(onNode(gpuGang("pair", forever, 1, 2), node)))
	s.runs("pair-worker-0")

	_, positions := s.board(object)
	pair := setOf(positions, object.Status.Free)
	failed := &v1alpha1.NodeTopology{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeTopology"}, ObjectMeta: metav1.ObjectMeta{Name: node}}
	write := func(ctx context.Context, spec v1alpha1.NodeTopologySpec) error {
		failed.Spec = spec
		text, err := yaml.Marshal(failed)
		if err != nil {
			return err
		}
		return command(ctx, string(text), "docker", "exec", "-i", node, "tee", describedFile)
	}
	t.Cleanup(func() { must(t, write(context.WithoutCancel(t.Context()), object.Spec)) })
	spec := object.Spec.DeepCopy()
	for i := range spec.Links {
		if link := &spec.Links[i]; pair == 1<<link.From|1<<link.To {
			link.NVLinks = 0
		}
	}
	must(t, write(t.Context(), *spec))
	must(t, kill(t.Context(), node, "^/tutti-agent")) // the next one reads the file
	s.eventually("the pod is told", func(ctx context.Context) error {
		events, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=pair-worker-0,reason=GPULinkBroken"})
		if err == nil && (len(events.Items) != 1 || events.Items[0].Type != corev1.EventTypeWarning) {
			err = fmt.Errorf("events %v", events.Items)
		}
		return err
	})
	if now := s.brokenPromises(t); now != before+1 {
		t.Errorf("the scheduler counts %g broken promises, want %g", now, before+1)
	}
	s.vanish("pair", "others")
}

// linked asks for NVLink between the GPUs of each pod.
func linked(job *kubeflowv1.TFJob) *kubeflowv1.TFJob {
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, tuttiapi.GPULinkAnnotation, nvlink)
	return job
}

func onNode(job *kubeflowv1.TFJob, node string) *kubeflowv1.TFJob {
	return each(job, func(replicas *kubeflowv1.ReplicaSpec) {
		replicas.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	})
}

// runs waits until a pod's containers run.
func (s *scene) runs(name string) {
	s.t.Helper()
	s.eventually("pod "+name+" runs", func(ctx context.Context) error {
		pod, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && (pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil) {
			err = fmt.Errorf("it is %s: %s %s", pod.Status.Phase, unschedulable(pod), pod.Status.Message)
		}
		return err
	})
}

// topology is what a node's agent says; an error while it sees nothing.
func (s *scene) topology(ctx context.Context, node string) (*v1alpha1.NodeTopology, error) {
	object, err := s.tutti.TopologyV1alpha1().NodeTopologies().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == v1alpha1.NodeTopologyReady && condition.Status != metav1.ConditionTrue {
			return nil, errors.New(condition.Message)
		}
	}
	return object, nil
}

func (s *scene) board(object *v1alpha1.NodeTopology) (*topology.GPUs, map[string]int) {
	s.t.Helper()
	read, err := board.Of(&object.Spec)
	must(s.t, err)
	model, err := read.Model()
	must(s.t, err)
	return model, read.Positions()
}

func setOf(positions map[string]int, uuids []string) (set topology.Set) {
	for _, uuid := range uuids {
		set |= 1 << positions[uuid]
	}
	return set
}

func isLinked(model *topology.GPUs, set topology.Set) bool {
	demand, err := topology.ParseDemand(nvlink)
	return err == nil && model.Satisfies(set, demand)
}

// alwaysLinked tries every choice of so many GPUs.
func alwaysLinked(model *topology.GPUs, free topology.Set, size int) bool {
	for set := range model.All() + 1 {
		if set&free == set && set.Len() == size && !isLinked(model, set) {
			return false
		}
	}
	return true
}

// given asks the kubelet of a node which GPUs a pod has.
func (s *scene) given(node, pod string) []string {
	s.t.Helper()
	simulators, err := s.client.CoreV1().Pods("kube-system").List(s.t.Context(), metav1.ListOptions{LabelSelector: "app=gpusim", FieldSelector: "spec.nodeName=" + node})
	must(s.t, err)
	for _, simulator := range simulators.Items {
		if !podReady(&simulator) {
			continue
		}
		output, err := exec.CommandContext(s.t.Context(), "kubectl", "-n", "kube-system", "exec", simulator.Name, "--", "/gpusim", "-given").Output()
		must(s.t, err)
		for line := range bytes.Lines(output) {
			if fields := strings.Fields(string(line)); fields[0] == s.namespace+"/"+pod {
				return fields[1:]
			}
		}
	}
	return nil
}

func (s *scene) setUnhealthy(ctx context.Context, node string, gpus ...int) error {
	if len(gpus) == 0 {
		return command(ctx, "", "docker", "exec", node, "rm", "-f", unhealthyFile)
	}
	return command(ctx, strings.Trim(fmt.Sprint(gpus), "[]"), "docker", "exec", "-i", node, "tee", unhealthyFile)
}

// brokenPromises is tutti_link_promises_total{result="broken"} of all schedulers,
// read as Prometheus would.
func (c *cluster) brokenPromises(t *testing.T) (total float64) {
	t.Helper()
	const reader = "tutti-e2e-metrics"
	must(t, command(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tutti-metrics-reader}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: kube-system}]
`, reader), "kubectl", "apply", "-f", "-"))
	token, err := exec.CommandContext(t.Context(), "kubectl", "-n", "kube-system", "create", "token", reader).Output()
	must(t, err)
	pods, err := c.client.CoreV1().Pods("tutti-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=tutti-scheduler"})
	must(t, err)
	for _, pod := range pods.Items {
		text, err := exec.CommandContext(t.Context(), "docker", "exec", controlPlane, "curl", "-sSkf",
			"-H", "Authorization: Bearer "+strings.TrimSpace(string(token)), "https://"+pod.Status.PodIP+":10259/metrics").Output()
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, `tutti_link_promises_total{result="broken"} `); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				must(t, err)
				total += n
			}
		}
	}
	return total
}
