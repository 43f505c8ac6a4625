// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangfaults

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

// gang is one job as the run made it.
type gang struct {
	name      string
	pods      int
	minimum   int
	elastic   bool  // the job names its minimum itself
	gpus      int64 // of each pod
	important bool
	rack      bool // all in one rack
	deleted   bool
}

// run is one history.
type run struct {
	plane     *controlplane.ControlPlane
	jobs      tutti.Interface
	world     int
	seed      uint64
	namespace string
	rng       *rand.Rand
	// quiet: nothing happens but to the scheduler, so nothing excuses it.
	quiet bool
	gangs map[string]*gang
	*observer
	lines []string
}

func newRun(plane *controlplane.ControlPlane, world, number int, seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 3))
	return &run{plane: plane, world: world, seed: seed, rng: rng, namespace: fmt.Sprintf("run-%d", number),
		quiet: rng.IntN(3) == 0, gangs: map[string]*gang{}}
}

func (r *run) tell(format string, args ...any) {
	r.lines = append(r.lines, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// story is what happened, in the order of time.
func (r *run) story() string {
	lines := slices.Clone(r.lines)
	if r.observer != nil {
		lines = append(lines, r.observer.told()...)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// live plays the history and judges it. The nodes are as before afterwards, unless
// it failed.
func (r *run) live(ctx context.Context, counts *counts) error {
	var err error
	if r.jobs, err = tutti.NewForConfig(r.plane.Config); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	if _, err := r.plane.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	if r.observer, err = observe(ctx, r.plane.Client, r.namespace); err != nil {
		return err
	}
	defer r.observer.stop()
	for range 4 + r.rng.IntN(6) {
		if err := r.step(ctx, counts); err != nil {
			return fmt.Errorf("making a history: %w", err)
		}
		time.Sleep(time.Duration(r.rng.IntN(500)) * time.Millisecond)
	}
	r.tell("the history is over")
	if err := r.settles(ctx, counts); err != nil {
		return err
	}
	err = r.until(ctx, func(ctx context.Context) error {
		pods, err := r.plane.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return r.observer.caughtUp(pods.Items)
	})
	if err != nil {
		return err
	}
	if broken := r.observer.verdict(r); len(broken) > 0 {
		return fmt.Errorf("%s", strings.Join(broken, "\n"))
	}
	counts.evictions.Add(int64(r.observer.evictions()))
	return r.clear(ctx)
}

// step is one thing that happens. In a quiet cluster gangs come, and that is all.
func (r *run) step(ctx context.Context, counts *counts) error {
	kind := r.rng.IntN(10)
	if r.quiet || len(r.gangs) == 0 {
		kind = 0
	}
	switch kind {
	default:
		counts.gangs.Add(1)
		return r.create(ctx)
	case 4:
		return r.end(ctx)
	case 5, 6:
		counts.deletions.Add(1)
		return r.deletePod(ctx)
	case 7:
		counts.edits.Add(1)
		return r.edit(ctx)
	case 8:
		counts.cordons.Add(1)
		return r.cordon(ctx)
	case 9:
		counts.nodes.Add(1)
		return r.replaceNode(ctx)
	}
}

func (r *run) create(ctx context.Context) error {
	g := &gang{
		name: fmt.Sprintf("g%d", len(r.gangs)), pods: 1 + r.rng.IntN(6), gpus: int64(1 + r.rng.IntN(gpusPerNode)),
		important: r.rng.IntN(3) == 0, rack: r.rng.IntN(3) == 0,
	}
	g.minimum = g.pods
	if g.elastic = r.rng.IntN(4) == 0; g.elastic {
		g.minimum = 1 + r.rng.IntN(g.pods)
	}
	r.gangs[g.name] = g
	r.tell("create %+v", *g)
	_, err := r.jobs.KubeflowV1().TFJobs(r.namespace).Create(ctx, r.job(g), metav1.CreateOptions{})
	return err
}

func (r *run) job(g *gang) *kubeflowv1.TFJob {
	spec := corev1.PodSpec{
		NodeSelector: map[string]string{controlplane.SpineLabel: fmt.Sprintf("s%d", r.world+1)},
		Containers: []corev1.Container{{Name: "tensorflow", Image: "example.com/train:1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{controlplane.GPU: *resource.NewQuantity(g.gpus, resource.DecimalSI)},
		}}},
	}
	if g.important {
		spec.PriorityClassName = important
	}
	job := &kubeflowv1.TFJob{
		ObjectMeta: metav1.ObjectMeta{Name: g.name, Annotations: map[string]string{tuttiapi.ServicesAnnotation: tuttiapi.ServicesPerJob}},
		Spec: kubeflowv1.TFJobSpec{TFReplicaSpecs: map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{
			kubeflowv1.TFJobReplicaTypeWorker: {
				Replicas: new(int32(g.pods)), RestartPolicy: kubeflowv1.RestartPolicyExitCode, Template: corev1.PodTemplateSpec{Spec: spec},
			},
		}},
	}
	if g.rack {
		job.Annotations[tuttiapi.RequiredTopologyAnnotation] = "rack"
	}
	if g.elastic {
		job.Spec.RunPolicy.SchedulingPolicy = &kubeflowv1.SchedulingPolicy{MinAvailable: new(int32(g.minimum))}
	}
	return job
}

// any is one of the gangs that were not deleted; nil if there is none.
func (r *run) any() *gang {
	var there []*gang
	for _, name := range slices.Sorted(maps.Keys(r.gangs)) {
		if g := r.gangs[name]; !g.deleted {
			there = append(there, g)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return there[r.rng.IntN(len(there))]
}

func (r *run) end(ctx context.Context) error {
	g := r.any()
	if g == nil {
		return nil
	}
	g.deleted = true
	r.tell("delete gang %s", g.name)
	return r.jobs.KubeflowV1().TFJobs(r.namespace).Delete(ctx, g.name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

func (r *run) deletePod(ctx context.Context) error {
	g := r.any()
	if g == nil {
		return nil
	}
	name := fmt.Sprintf("%s-worker-%d", g.name, r.rng.IntN(g.pods))
	r.tell("delete pod %s", name)
	err := r.plane.Client.CoreV1().Pods(r.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// edit gives a gang another size.
func (r *run) edit(ctx context.Context) error {
	g := r.any()
	if g == nil {
		return nil
	}
	g.pods = 1 + r.rng.IntN(6)
	g.minimum = min(g.minimum, g.pods)
	if !g.elastic {
		g.minimum = g.pods
	}
	r.tell("edit %s: %d pods, minimum %d", g.name, g.pods, g.minimum)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job, err := r.jobs.KubeflowV1().TFJobs(r.namespace).Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker].Replicas = new(int32(g.pods))
		if g.elastic {
			job.Spec.RunPolicy.SchedulingPolicy.MinAvailable = new(int32(g.minimum))
		}
		_, err = r.jobs.KubeflowV1().TFJobs(r.namespace).Update(ctx, job, metav1.UpdateOptions{})
		return err
	})
}

func (r *run) node() string {
	return fmt.Sprintf("n%03d", r.world*racks*nodesPerRack+r.rng.IntN(racks*nodesPerRack)+1)
}

// cordon closes a node, or opens it again.
func (r *run) cordon(ctx context.Context) error {
	name := r.node()
	node, err := r.plane.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.tell("cordon %s: %t", name, !node.Spec.Unschedulable)
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, !node.Spec.Unschedulable)
	_, err = r.plane.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// replaceNode takes a node away with its pods, as a lost machine goes in the end,
// and brings another of its name a while later.
func (r *run) replaceNode(ctx context.Context) error {
	name := r.node()
	r.tell("delete node %s", name)
	if err := r.plane.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	pods, err := r.plane.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(r.rng.IntN(500)) * time.Millisecond)
	for i := range pods.Items {
		err := r.plane.Client.CoreV1().Pods(r.namespace).Delete(ctx, pods.Items[i].Name, *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	time.Sleep(time.Duration(r.rng.IntN(500)) * time.Millisecond)
	// What was bound to it in the meantime is lost too.
	pods, err = r.plane.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		err := r.plane.Client.CoreV1().Pods(r.namespace).Delete(ctx, pods.Items[i].Name, *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	var number int
	if _, err := fmt.Sscanf(name, "n%d", &number); err != nil {
		return err
	}
	r.tell("another node %s", name)
	machines := controlplane.Machines{Spines: r.world + 1, RacksPerSpine: racks, NodesPerRack: nodesPerRack, GPUsPerNode: gpusPerNode}
	_, err = r.plane.Client.CoreV1().Nodes().Create(ctx, machines.Node(number-1), metav1.CreateOptions{})
	return err
}

// clear takes the gangs away and opens all nodes.
func (r *run) clear(ctx context.Context) error {
	if err := r.jobs.KubeflowV1().TFJobs(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for i := range racks * nodesPerRack {
		name := fmt.Sprintf("n%03d", r.world*racks*nodesPerRack+i+1)
		if _, err := r.plane.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return r.until(ctx, func(ctx context.Context) error {
		pods, err := r.plane.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods do not go", len(pods.Items))
		}
		return err
	})
}

// until asks check again and again until it is nil; its last error is the
// result when the limit is over.
func (r *run) until(ctx context.Context, check func(context.Context) error) error {
	for end := time.Now().Add(limit); ; {
		err := check(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s: %w", limit, err)
		}
		time.Sleep(300 * time.Millisecond)
	}
}
