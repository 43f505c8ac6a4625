// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package gangtopology is the scheduler plugin that decides where gangs go.
// The engine, kube-scheduler's pod-group cycle, pops a whole group and commits
// its minimum or none; this plugin plans the group once and pins every pod:
//
//	PreEnqueue         gate.go      is the gang complete, and worth another try? (lack.go, help.go, line.go)
//	PlacementGenerate  generate.go  plan: one placement, the plan's nodes, or why not
//	PreFilter, Filter  pin.go       each pod on its one node, all in-tree filters run there
//	Permit, PreBind    barrier.go   nothing binds before the quorum is reserved and ready (rounds.go)
//	PreScore, Score    score.go     a single pod where gangs lose least
//	PostFilter         postfilter.go  who is evicted, if that lets a gang or a pod start (victims.go, evict.go, remains.go)
//
// The algorithm is pkg/placement's; this package gathers for it and acts on
// its decision.
package gangtopology

import (
	"context"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/tutti-project/tutti/pkg/clusterview"
)

// Name of the plugin in scheduler profiles.
const Name = "GangTopology"

// Verdict tells the world what was decided for a group. It must not block.
type Verdict func(group *schedulingv1beta1.PodGroup, condition metav1.Condition)

// Plugin is one profile's instance.
type Plugin struct {
	handle  framework.Framework
	gate    *gate
	builder *clusterview.Builder // used by the scheduling thread alone
	report  *reporter
	rooms   *rooms
	rounds  rounds
	evictor *evictor
	remains *remains
	budgets policylisters.PodDisruptionBudgetLister
	volumes *clusterview.Volumes
	linked  *linked
	meter   *meter
	guard   *guard
	// promises to pods whose GPUs are not known yet.
	promises *promises
	// whatIf is the plan that the engine plays through for PodGroupPostFilter.
	whatIf *plan
}

var (
	_ fwk.PreEnqueuePlugin         = &Plugin{}
	_ fwk.EnqueueExtensions        = &Plugin{}
	_ fwk.PlacementGeneratePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin          = &Plugin{}
	_ fwk.FilterPlugin             = &Plugin{}
	_ fwk.PreScorePlugin           = &Plugin{}
	_ fwk.ScorePlugin              = &Plugin{}
	_ fwk.SignPlugin               = &Plugin{}
	_ fwk.ReservePlugin            = &Plugin{}
	_ fwk.PermitPlugin             = &Plugin{}
	_ fwk.PreBindPlugin            = &Plugin{}
	_ fwk.PodGroupPostFilterPlugin = &Plugin{}
	_ fwk.PostFilterPlugin         = &Plugin{}
)

// Factory makes the plugin for the scheduler's registry. topologies informs of
// NodeTopology objects; nil where the API server has none.
// leads is closed when this process is the one that schedules: one that only
// stands by knows all and does nothing.
func Factory(verdict Verdict, events record.EventRecorder, topologies cache.SharedIndexInformer, leads <-chan struct{}) frameworkruntime.PluginFactory {
	events = leading{events, leads}
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := argsFrom(object)
		if err != nil {
			return nil, err
		}
		// Handle offers no PreFilter; the framework that the engine passes has it.
		whole, ok := handle.(framework.Framework)
		if !ok {
			return nil, fmt.Errorf("plugin %s: the scheduler's handle is a %T, not a framework", Name, handle)
		}
		registerMetrics()
		meter := newMeter(whole.ProfileName(), handle.SharedInformerFactory().Core().V1().Nodes().Lister())
		census, err := newCensus(meter, args.levels(), handle.SharedInformerFactory())
		if err != nil {
			return nil, err
		}
		guard := newGuard(whole.ProfileName(), handle.SharedInformerFactory().Core().V1().Nodes().Lister(), census.podsOn, events)
		census.avoided = guard.count
		scraped.add(census)
		context.AfterFunc(ctx, func() { scraped.remove(census) })
		report := newReporter(meter.hears(verdict), events, tellPods(ctx, handle.ClientSet()))
		p := &Plugin{
			handle:  whole,
			gate:    newGate(handle, whole.ProfileName(), report),
			builder: clusterview.NewBuilder(args.levels()),
			report:  report,
			meter:   meter,
			guard:   guard,
			evictor: newEvictor(handle.ClientSet(), handle.SharedInformerFactory().Core().V1().Pods().Lister(), handle.PodGroupManager(), events),
			budgets: handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister(),
			volumes: &clusterview.Volumes{
				Claims:  handle.SharedInformerFactory().Core().V1().PersistentVolumeClaims().Lister(),
				Volumes: handle.SharedInformerFactory().Core().V1().PersistentVolumes().Lister(),
			},
		}
		p.rooms = newRooms(whole, p.gate.clock)
		p.remains = newRemains(p.evictor, handle, p.gate.clock, p.gate.hurry)
		p.gate.goes = func(key types.NamespacedName) bool { return p.remains.goes(key) || p.rounds.of(key) != nil }
		p.linked = &linked{gate: p.gate}
		p.promises = newPromises(events, p.gate.clock)
		if topologies != nil {
			known, err := p.watchTopologies(topologies)
			if err != nil {
				return nil, err
			}
			p.builder.Follow(known, p.gate.clock.Now)
			if err := p.promises.watch(handle.SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
				return nil, err
			}
		}
		roomsKnown, err := p.watch(handle.SharedInformerFactory().Core().V1().Pods().Informer())
		if err != nil {
			return nil, err
		}
		if err := p.remains.watch(handle.SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
			return nil, err
		}
		if err := guard.watch(handle.SharedInformerFactory().Core().V1().Pods().Informer()); err != nil {
			return nil, err
		}
		if err := guard.watchRejected(ctx, handle.ClientSet()); err != nil {
			return nil, err
		}
		if err := p.gate.watch(handle.SharedInformerFactory()); err != nil {
			return nil, err
		}
		go p.meter.run(ctx)
		go p.run(ctx, leads, roomsKnown)
		return p, nil
	}
}

// run stands by until this process leads, and then does what only one of them may do,
// until ctx ends.
func (p *Plugin) run(ctx context.Context, leads <-chan struct{}, roomsKnown cache.InformerSynced) {
	until, lead := context.WithCancel(ctx)
	defer lead()
	go p.rooms.standBy(until)
	select {
	case <-leads:
	case <-ctx.Done():
		return
	}
	lead()
	if !cache.WaitForCacheSync(ctx.Done(), roomsKnown) {
		return
	}
	go p.gate.run(ctx)
	go p.guard.run(ctx, p.gate.changed)
	go p.rooms.run(ctx, p.gate.changed)
	p.remains.run(ctx)
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }
