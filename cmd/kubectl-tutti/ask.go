// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/inventory"
	"github.com/tutti-project/tutti/pkg/page"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/whatif"
	"github.com/tutti-project/tutti/pkg/why"
)

// asker answers the page what a gang would get, as kubectl tutti plan and why do.
type asker struct {
	*environment
	config  *schedulerconfig.KubeSchedulerConfiguration
	drafts  []*unstructured.Unstructured
	cluster func(context.Context) (*snapshot.Snapshot, error)
}

func (a *asker) plan(ctx context.Context, ref page.Reference, preempt bool) (*page.Plan, error) {
	s, err := a.cluster(ctx)
	if err != nil {
		return nil, err
	}
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if job := a.created(s, ref, key); job != nil {
		s = with(s, []*unstructured.Unstructured{job})
		return a.ask(ctx, s, whatif.Target{Job: key}, preempt)
	}
	if !slices.Contains([]string{"TFJob", "PodGroup", "Pod"}, ref.Kind) {
		return nil, fmt.Errorf("a %s is not placed by Tutti", ref.Kind)
	}
	subject, err := why.Find(s, []string{ref.Kind}, key)
	if err != nil {
		return nil, err
	}
	facts, err := a.facts(ctx, s, a.config, subject)
	if err != nil {
		return nil, err
	}
	answer, err := why.Explain(facts, subject)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.Outcome == nil: // no scheduler is in question
		return &page.Plan{Message: fmt.Sprintf("it %s: %s", answer.State, strings.Join(answer.Because, "; ")), Help: answer.Help}, nil
	case preempt && !answer.Outcome.Placed:
		return a.ask(ctx, s, answer.Outcome.Target, preempt)
	}
	plan := a.planOf(s, answer.Outcome)
	plan.Message, plan.Help = strings.Join(answer.Because, "; "), answer.Help
	return plan, nil
}

// created is the job to be planned as if it were created now, and resumed: a draft, or one that
// does not wait with all its pods.
func (a *asker) created(s *snapshot.Snapshot, ref page.Reference, key types.NamespacedName) *unstructured.Unstructured {
	if ref.Kind != "TFJob" {
		return nil
	}
	for _, draft := range a.drafts {
		if snapshot.KeyOf(draft) == key {
			return draft
		}
	}
	for _, job := range s.Of("TFJob") {
		if snapshot.KeyOf(job) != key {
			continue
		}
		if slices.Contains(whatif.Waiting(s, schedulersOf(a.config)), key) {
			return nil
		}
		job = job.DeepCopy()
		unstructured.RemoveNestedField(job.Object, "status")
		unstructured.RemoveNestedField(job.Object, "spec", "runPolicy", "suspend")
		return job
	}
	return nil
}

func (a *asker) ask(ctx context.Context, s *snapshot.Snapshot, target whatif.Target, preempt bool) (*page.Plan, error) {
	outcome, err := played(ctx, s, target, whatif.Options{Config: a.config, Preempt: preempt, Now: a.now})
	if err != nil {
		return nil, err
	}
	return a.planOf(s, outcome), nil
}

func (a *asker) planOf(s *snapshot.Snapshot, o *whatif.Outcome) *page.Plan {
	plan := &page.Plan{Placed: o.Placed, Failed: o.Failed, Message: o.Message}
	resource := inventory.ResourceOf(s)
	for _, pod := range o.Pods {
		plan.Pods = append(plan.Pods, page.PlannedPod{Name: pod.Name, Role: pod.Role, Node: pod.Node, Running: pod.Running, GPUs: pod.Requests[resource]})
	}
	for _, pod := range o.Evicted {
		plan.Evicted = append(plan.Evicted, page.Evicted{Namespace: pod.Namespace, Name: pod.Name})
	}
	return plan
}

// facts are what why answers from.
func (e *environment) facts(ctx context.Context, s *snapshot.Snapshot, config *schedulerconfig.KubeSchedulerConfiguration, subject why.Subject) (why.Facts, error) {
	facts := why.Facts{
		Snapshot: s, Now: e.now(), Schedulers: schedulersOf(config),
		Run: func(s *snapshot.Snapshot, target whatif.Target, preempt bool) (*whatif.Outcome, error) {
			return whatif.Run(ctx, s, target, whatif.Options{Config: config, Preempt: preempt, Now: e.now})
		},
	}
	return facts, e.addLive(ctx, &facts, subject, engine.LeaseOf(config))
}

// schedulersOf are the names by which pods ask for this scheduler.
func schedulersOf(config *schedulerconfig.KubeSchedulerConfiguration) []string {
	var names []string
	for _, profile := range config.Profiles {
		names = append(names, profile.SchedulerName)
	}
	return names
}
