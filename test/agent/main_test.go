// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent tests what the agent publishes, who may publish it, and what
// gangs get by it: on a real API server, with simulated nodes of several kinds of
// machines whose GPUs are described in a file.
package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"
	"sigs.k8s.io/yaml"

	topologyv1alpha1 "github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

const patience = 30 * time.Second

// machineLabel tells the nodes' kinds apart.
const machineLabel = "example.com/machine"

// stage is what the tests share.
var stage struct {
	*controlplane.ControlPlane
	dir        string
	groups     podgroups.Interface
	topologies tutti.Interface
	nodes      []node
}

// node is a simulated one: its machine is a file of pkg/topology/testdata/hosts.
type node struct {
	name, machine string
	gpus          int64
	clique        int64 // 0 for none
}

// machinesOf the cluster: meshes, bridged pairs, switches, two sockets of four
// without links between GPUs, and two racks of 18 trays, each a clique.
func machinesOf() (nodes []node) {
	for i := range 3 {
		nodes = append(nodes, node{name: fmt.Sprintf("v%d", i+1), machine: "dgx-1v", gpus: 8})
		nodes = append(nodes, node{name: fmt.Sprintf("p%d", i+1), machine: "a100-pcie-8", gpus: 8})
		nodes = append(nodes, node{name: fmt.Sprintf("h%d", i+1), machine: "hgx-h100", gpus: 8})
	}
	for i := range 2 {
		nodes = append(nodes, node{name: fmt.Sprintf("l%d", i+1), machine: "l40s-8", gpus: 8})
	}
	for i := range 18 {
		nodes = append(nodes, node{name: fmt.Sprintf("a%02d", i+1), machine: "gb200-tray", gpus: 4, clique: 1})
		nodes = append(nodes, node{name: fmt.Sprintf("b%02d", i+1), machine: "gb200-tray", gpus: 4, clique: 2})
	}
	return nodes
}

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "tutti-agent-", start))
}

func start(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	stage.ControlPlane, stage.dir, stage.nodes = plane, dir, machinesOf()
	steps := []func() error{
		func() (err error) { stage.groups, err = podgroups.NewForConfig(plane.Config); return err },
		func() (err error) { stage.topologies, err = tutti.NewForConfig(plane.Config); return err },
		func() error { return plane.InstallAgent(ctx) },
		func() error { return createNodes(ctx) },
		func() error { _, err := plane.StartScheduler(); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			plane.Stop()
			return nil, err
		}
	}
	return plane, nil
}

func createNodes(ctx context.Context) error {
	for _, n := range stage.nodes {
		object := controlplane.Machines{NodesPerRack: 1, RacksPerSpine: 1, Spines: 1}.Node(0)
		object.Name = n.name
		object.Labels = map[string]string{corev1.LabelHostname: n.name, machineLabel: n.machine}
		object.Status.Capacity[controlplane.GPU] = *resource.NewQuantity(n.gpus, resource.DecimalSI)
		object.Status.Allocatable = object.Status.Capacity
		if _, err := stage.Client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// described are the NodeTopologies of these nodes; of all without any.
func described(t *testing.T, names ...string) []*topologyv1alpha1.NodeTopology {
	t.Helper()
	var objects []*topologyv1alpha1.NodeTopology
	for _, n := range stage.nodes {
		if len(names) > 0 && !slices.Contains(names, n.name) {
			continue
		}
		object, err := machines.Read("../../pkg/topology/testdata/hosts/"+n.machine, n.name)
		must(t, err)
		object.APIVersion, object.Kind = topologyv1alpha1.SchemeGroupVersion.String(), "NodeTopology"
		object.Status = topologyv1alpha1.NodeTopologyStatus{}
		if n.clique > 0 {
			object.Spec.Fabric = &topologyv1alpha1.Fabric{ClusterUUID: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31", CliqueID: n.clique}
		}
		objects = append(objects, object)
	}
	return objects
}

// file writes them.
func file(t *testing.T, objects ...*topologyv1alpha1.NodeTopology) string {
	t.Helper()
	var text bytes.Buffer
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		must(t, err)
		text.WriteString("---\n")
		text.Write(document)
	}
	path := filepath.Join(t.TempDir(), "topologies.yaml")
	must(t, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}

// publish says what pods of the namespace hold, by index; all others of the node
// are free. It waits a second, as agents do: for the scheduler a pod that was
// admitted in the report's own second came after it.
func publish(t *testing.T, namespace, node string, held map[string][]int) {
	t.Helper()
	time.Sleep(1100 * time.Millisecond)
	object := described(t, node)[0]
	for _, pod := range sorted(held) {
		given := topologyv1alpha1.GivenGPUs{Namespace: namespace, Pod: pod}
		for _, i := range held[pod] {
			given.GPUs = append(given.GPUs, machines.UUID(node, i))
		}
		object.Status.Given = append(object.Status.Given, given)
	}
	must(t, stage.Publish(t.Context(), file(t, object)))
}

func sorted(held map[string][]int) []string {
	var names []string
	for name := range held {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// newNamespace goes with its pods, so that the next test finds all GPUs free.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace, err := stage.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the namespace has its service account", func(ctx context.Context) error {
		_, err := stage.Client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() { empty(t, context.WithoutCancel(t.Context()), namespace.Name) })
	return namespace.Name
}

func empty(t *testing.T, ctx context.Context, namespace string) {
	t.Helper()
	pods := stage.Client.CoreV1().Pods(namespace)
	must(t, stage.groups.SchedulingV1alpha1().PodGroups(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(t, pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	err := stage.Eventually(ctx, patience, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
	must(t, err)
}

// ask is a gang of equal pods, and what it asks for.
type ask struct {
	name        string
	pods        int
	gpus        int64
	machine     string // empty for any
	annotations map[string]string
}

func (a ask) create(t *testing.T, namespace string) {
	t.Helper()
	_, err := stage.groups.SchedulingV1alpha1().PodGroups(namespace).Create(t.Context(), &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: a.annotations},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(a.pods)},
	}, metav1.CreateOptions{})
	must(t, err)
	for i := range a.pods {
		pod := podOf(fmt.Sprintf("%s-%d", a.name, i), a.gpus)
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: a.name}
		pod.Spec.SchedulerName = tuttiapi.SchedulerName
		if a.machine != "" {
			pod.Spec.NodeSelector = map[string]string{machineLabel: a.machine}
		}
		_, err := stage.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		must(t, err)
	}
}

func podOf(name string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/train:1"}}},
	}
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{controlplane.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return pod
}

// pin puts a pod in no gang on a node.
func pin(t *testing.T, namespace, name, node string, gpus int64) {
	t.Helper()
	pod := podOf(name, gpus)
	pod.Spec.NodeName = node
	_, err := stage.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the pod runs", func(ctx context.Context) error {
		pod, err := stage.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
		}
		return err
	})
}

// placed waits until the gang is bound, and returns its nodes in order.
func (a ask) placed(t *testing.T, namespace string) []string {
	t.Helper()
	eventually(t, a.name+" is bound", func(ctx context.Context) error {
		err := stage.Bound(ctx, namespace, a.name, a.pods)
		if err != nil {
			if verdict, why := stage.Verdict(ctx, namespace, a.name); why == nil {
				err = fmt.Errorf("%w: %s", err, verdict.Message)
			}
		}
		return err
	})
	pods, err := stage.Pods(t.Context(), namespace, a.name)
	must(t, err)
	var nodes []string
	for _, pod := range pods {
		nodes = append(nodes, pod.Spec.NodeName)
	}
	slices.Sort(nodes)
	return nodes
}

// refused waits until the gang is refused with these words.
func (a ask) refused(t *testing.T, namespace string, words ...string) {
	t.Helper()
	eventually(t, a.name+" is refused", func(ctx context.Context) error {
		if err := stage.Unbound(ctx, namespace, a.name, a.pods); err != nil {
			return err
		}
		verdict, err := stage.Verdict(ctx, namespace, a.name)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(verdict.Message, word) {
				return fmt.Errorf("%q lacks %q", verdict.Message, word)
			}
		}
		if verdict.Reason != tuttiapi.UnschedulableReason {
			return fmt.Errorf("verdict %s", verdict.Reason)
		}
		return nil
	})
}

func eventually(t *testing.T, name string, check func(context.Context) error) {
	t.Helper()
	if err := stage.Eventually(t.Context(), patience, check); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
