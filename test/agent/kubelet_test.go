// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/tutti-project/tutti/pkg/board"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/topology"
	"github.com/tutti-project/tutti/test/controlplane"
)

// kubelet gives the pods of a node GPUs as the worst of device plugins would: any
// that are free. It tells of them as the kubelet does.
type kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	node  string
	model *topology.GPUs

	mu     sync.Mutex
	random *rand.Rand
	pods   map[string]held // by namespace/name
}

type held struct {
	namespace, name string
	gpus            topology.Set
}

func startKubelet(t *testing.T, node string, seed uint64) (*kubelet, string) {
	t.Helper()
	read, err := board.Of(&described(t, node)[0].Spec)
	must(t, err)
	model, err := read.Model()
	must(t, err)
	k := &kubelet{node: node, model: model, random: rand.New(rand.NewPCG(seed, 0)), pods: map[string]held{}}
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return k, socket
}

func (k *kubelet) ids(set topology.Set) []*podresourcesv1.ContainerDevices {
	devices := &podresourcesv1.ContainerDevices{ResourceName: string(controlplane.GPU)}
	for i := range k.model.Count() {
		if set&(1<<i) != 0 {
			devices.DeviceIds = append(devices.DeviceIds, machines.UUID(k.node, i))
		}
	}
	return []*podresourcesv1.ContainerDevices{devices}
}

func (k *kubelet) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	return &podresourcesv1.AllocatableResourcesResponse{Devices: k.ids(k.model.All())}, nil
}

func (k *kubelet) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answer := &podresourcesv1.ListPodResourcesResponse{}
	for _, pod := range k.pods {
		answer.PodResources = append(answer.PodResources, &podresourcesv1.PodResources{
			Namespace: pod.namespace, Name: pod.name,
			Containers: []*podresourcesv1.ContainerResources{{Name: "main", Devices: k.ids(pod.gpus)}},
		})
	}
	return answer, nil
}

// admit gives the node's new pods their GPUs and takes those of gone ones back. It
// returns what new ones got.
func (k *kubelet) admit(pods []corev1.Pod) map[string]topology.Set {
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod.Namespace+"/"+pod.Name] = true
	}
	taken := topology.Set(0)
	for key, pod := range k.pods {
		if !there[key] {
			delete(k.pods, key)
			continue
		}
		taken |= pod.gpus
	}
	got := map[string]topology.Set{}
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		if _, ok := k.pods[key]; ok {
			continue
		}
		var free []int
		for i := range k.model.Count() {
			if taken&(1<<i) == 0 {
				free = append(free, i)
			}
		}
		wanted := int(pod.Spec.Containers[0].Resources.Limits.Name(controlplane.GPU, "").Value())
		if wanted > len(free) {
			continue // as a kubelet refuses it
		}
		k.random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
		set := topology.Set(0)
		for _, i := range free[:wanted] {
			set |= 1 << i
		}
		taken |= set
		k.pods[key], got[pod.Name] = held{pod.Namespace, pod.Name, set}, set
	}
	return got
}

// TestPromisesHoldWhicheverGPUsTheKubeletGives: on a mesh, on bridged pairs and
// behind a switch pods come and go, some for linked GPUs and some for any, and the
// kubelets give any that are free. Agents report as they do on nodes, some
// seconds late. Whoever was bound for linked GPUs has them.
func TestPromisesHoldWhicheverGPUsTheKubeletGives(t *testing.T) {
	const rounds, perRound = 14, 8
	namespace := newNamespace(t)
	kubelets := map[string]*kubelet{}
	for i, node := range []string{"v1", "p1", "h1"} {
		k, socket := startKubelet(t, node, uint64(i))
		kubelets[node] = k
		_ = stage.topologies.TopologyV1alpha1().NodeTopologies().Delete(t.Context(), node, metav1.DeleteOptions{}) // of tests before; may be none
		one, err := stage.StartAgent(t.Context(), node, "--sources=file,podresources", "--file="+file(t, described(t, node)...), "--pod-resources-socket="+socket)
		must(t, err)
		defer one.Stop()
	}
	for _, n := range stage.nodes {
		if n.clique == 0 && kubelets[n.name] == nil {
			cordon(t, n.name, true)
			defer cordon(t, n.name, false)
		}
	}
	w := &watcher{kubelets: kubelets, namespace: namespace}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() { w.watch(ctx); close(done) }()

	random := rand.New(rand.NewPCG(1, 1))
	machineOf := []string{"dgx-1v", "a100-pcie-8", "hgx-h100"}
	for round := range rounds {
		for i := range perRound {
			one := ask{name: fmt.Sprintf("g%d-%d", round, i), pods: 1, machine: machineOf[random.IntN(3)]}
			if random.IntN(2) == 0 {
				one.gpus = 1 + random.Int64N(3)
			} else {
				one.gpus, one.annotations = 2+2*random.Int64N(3), nvlink
			}
			one.create(t, namespace)
		}
		time.Sleep(5 * time.Second) // agents look every five seconds
		w.leave(t, random)
	}
	stop()
	<-done
	t.Logf("%d pods were bound for linked GPUs, %d for any; %d of the first got a part of a board", w.linked, w.others, w.chosen)
	if len(w.broken) > 0 {
		t.Errorf("promises that were broken: %v", w.broken)
	}
	if w.linked < 3 || w.others < 10 {
		t.Error("too few to tell")
	}
}

func cordon(t *testing.T, node string, closed bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	_, err := stage.Client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), node, types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// watcher plays the kubelets and keeps the score.
type watcher struct {
	kubelets               map[string]*kubelet
	namespace              string
	linked, others, chosen int
	broken                 []string
}

// watch looks a few times a second: pods run before their agents know.
func (w *watcher) watch(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := stage.Client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for node, k := range w.kubelets {
			var own []corev1.Pod
			for _, pod := range list.Items {
				if pod.Spec.NodeName == node {
					own = append(own, pod)
				}
			}
			w.count(ctx, k, k.admit(own))
		}
	}
}

func (w *watcher) count(ctx context.Context, k *kubelet, got map[string]topology.Set) {
	for name, set := range got {
		pod, err := stage.Client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			continue
		}
		group, err := stage.groups.SchedulingV1alpha1().PodGroups(w.namespace).Get(ctx, pod.Labels[v1alpha1.PodGroupLabel], metav1.GetOptions{})
		if err != nil {
			continue
		}
		if len(group.Annotations) == 0 {
			w.others++
			continue
		}
		w.linked++
		if set.Len() < k.model.Count() {
			w.chosen++
		}
		if link := topology.Demand(len(topology.Demands()) - 1); !k.model.Satisfies(set, link) {
			w.broken = append(w.broken, fmt.Sprintf("%s on %s got %s", name, k.node, set))
		}
	}
}

// leave deletes a third of the pods that run, and all that wait.
func (w *watcher) leave(t *testing.T, random *rand.Rand) {
	t.Helper()
	pods := stage.Client.CoreV1().Pods(w.namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range list.Items {
		if pod.Spec.NodeName == "" || random.IntN(3) == 0 {
			must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
	}
}
