// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/whatif"
)

func newPlan(e *environment) *cobra.Command {
	var path string
	var preempt bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "What would happen to a job, or to a group and its pods, if it were created now.",
		Long: `Plays the manifests through: the controller makes the job's pods and the scheduler
places them, both on a snapshot of the cluster in memory. Jobs are first checked
by the API server in a dry run. A file with TFJobs is planned job by job, each as
if it were alone; pods and PodGroups likewise.`,
		Example: `  kubectl tutti plan -f job.yaml
  kubectl tutti plan -f job.yaml --with-preemption
  kubectl tutti plan -f job.yaml --from cluster.yaml -o yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return errors.New("give the manifests to plan with -f FILE (or -f - for standard input)")
			}
			return e.plan(cmd.Context(), path, preempt)
		},
	}
	cmd.Flags().StringVarP(&path, "filename", "f", "", "the manifests; - is standard input")
	cmd.Flags().BoolVar(&preempt, "with-preemption", false, "also say who would be evicted, if it took that")
	e.addOutput(cmd)
	return cmd
}

func (e *environment) plan(ctx context.Context, path string, preempt bool) error {
	config, err := e.schedulerConfig(ctx)
	if err != nil {
		return err
	}
	objects, err := e.manifests(path)
	if err != nil {
		return err
	}
	s, err := e.cluster(ctx)
	if err != nil {
		return err
	}
	if err := e.dryRun(ctx, objects); err != nil {
		return err
	}
	targets := targetsOf(objects)
	if len(targets) == 0 {
		return fmt.Errorf("%s holds no TFJob, PodGroup or Pod", path)
	}
	s = with(s, objects)
	var outcomes []*whatif.Outcome
	for _, target := range targets {
		outcome, err := played(ctx, s, target, whatif.Options{Config: config, Preempt: preempt, Now: e.now})
		if err != nil {
			return err
		}
		outcomes = append(outcomes, outcome)
	}
	tree, err := e.tree(s, config)
	if err != nil {
		return err
	}
	return e.print(outcomes, func(w io.Writer) error {
		for i, outcome := range outcomes {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printOutcome(w, outcome, tree)
		}
		return nil
	})
}

// manifests reads the file; objects without a namespace get the current one.
func (e *environment) manifests(path string) ([]*unstructured.Unstructured, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	namespace, err := e.namespace()
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(in, 4096)
	var objects []*unstructured.Unstructured
	for n := 1; ; n++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", path, n, err)
		}
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw, &o.Object); err != nil || o.Object == nil {
			continue // an empty document
		}
		found, err := placeable(o, namespace)
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", path, n, err)
		}
		objects = append(objects, found...)
	}
}

// placeable are the object, or the items of a list, that placement depends on; those without a namespace get this one.
func placeable(o *unstructured.Unstructured, namespace string) ([]*unstructured.Unstructured, error) {
	if o.IsList() {
		var all []*unstructured.Unstructured
		err := o.EachListItem(func(item runtime.Object) error {
			found, err := placeable(item.(*unstructured.Unstructured), namespace)
			all = append(all, found...)
			return err
		})
		return all, err
	}
	k, ok := snapshot.KindOf(o.GroupVersionKind())
	if !ok {
		return nil, nil
	}
	if o.GetName() == "" {
		return nil, fmt.Errorf("a %s without a name", o.GetKind())
	}
	if k.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	return []*unstructured.Unstructured{o}, nil
}

// dryRun lets the API server judge and default what would be created. What
// exists already is planned as the file has it.
func (e *environment) dryRun(ctx context.Context, objects []*unstructured.Unstructured) error {
	if e.from != "" {
		return nil
	}
	config, err := e.restConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, o := range objects {
		k, _ := snapshot.KindOf(o.GroupVersionKind())
		resource := client.Resource(k.Resource).Namespace(o.GetNamespace())
		stored, err := resource.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			o.Object = stored.Object
		case apierrors.IsAlreadyExists(err):
		case apierrors.IsForbidden(err):
			fmt.Fprintf(e.err, "note: %s %s is not checked: %v\n", o.GetKind(), o.GetName(), err)
		default:
			return fmt.Errorf("the API server refuses %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// with is the snapshot with the objects in it, in place of what has their names.
// Pods that a planned job or group has already stay out: they would be new.
func with(s *snapshot.Snapshot, objects []*unstructured.Unstructured) *snapshot.Snapshot {
	type id struct {
		kind schema.GroupKind
		key  types.NamespacedName
	}
	idOf := func(o *unstructured.Unstructured) id { return id{o.GroupVersionKind().GroupKind(), snapshot.KeyOf(o)} }
	replaced := map[id]bool{}
	jobs := map[types.NamespacedName]bool{}
	for _, o := range objects {
		replaced[idOf(o)] = true
		if o.GetKind() == "TFJob" {
			jobs[snapshot.KeyOf(o)] = true
		}
	}
	next := &snapshot.Snapshot{Unread: s.Unread}
	for _, o := range s.Objects {
		var owner types.NamespacedName
		if ref := metav1.GetControllerOf(o); ref != nil && ref.Kind == "TFJob" {
			owner = types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}
		}
		if !replaced[idOf(o)] && !jobs[owner] {
			next.Objects = append(next.Objects, o)
		}
	}
	next.Objects = append(next.Objects, objects...)
	return next
}

// played is what would happen; to a job that is suspended, if it were resumed.
func played(ctx context.Context, s *snapshot.Snapshot, target whatif.Target, options whatif.Options) (*whatif.Outcome, error) {
	outcome, err := whatif.Run(ctx, s, target, options)
	if err != nil || !outcome.Suspended {
		return outcome, err
	}
	if outcome, err = whatif.Run(ctx, resumed(s, target.Job), target, options); err != nil {
		return nil, err
	}
	outcome.Suspended = true
	return outcome, nil
}

// resumed is the snapshot in which the job is not suspended.
func resumed(s *snapshot.Snapshot, key types.NamespacedName) *snapshot.Snapshot {
	next := *s
	next.Objects = slices.Clone(s.Objects)
	for i, o := range next.Objects {
		if o.GetKind() == "TFJob" && snapshot.KeyOf(o) == key {
			o = o.DeepCopy()
			unstructured.RemoveNestedField(o.Object, "spec", "runPolicy", "suspend")
			next.Objects[i] = o
		}
	}
	return &next
}

// targetsOf are the jobs, the groups, and the pods in none.
func targetsOf(objects []*unstructured.Unstructured) []whatif.Target {
	var targets []whatif.Target
	groups := snapshot.GroupsOf(objects)
	for _, o := range objects {
		key := snapshot.KeyOf(o)
		switch {
		case o.GetKind() == "TFJob":
			targets = append(targets, whatif.Target{Job: key})
		case groups[key] == o: // of two of one name, that which counts
			targets = append(targets, whatif.Target{Gang: key})
		case o.GetKind() == "Pod" && snapshot.GangOf(o).Name == "":
			targets = append(targets, whatif.Target{Pod: key})
		}
	}
	return targets
}
