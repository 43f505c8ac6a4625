// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/topology"
)

// What is computed when somebody asks for it.
var (
	pendingGangs = metrics.NewDesc("tutti_pending_gangs",
		"Gangs that wait, by the reason that they were last told (that of their condition GangPlaced).",
		[]string{"profile", "reason"}, nil, metrics.ALPHA, "")
	avoidedNodes = metrics.NewDesc("tutti_avoided_nodes",
		"Nodes that are avoided now after a conflict with another scheduler.",
		[]string{"profile"}, nil, metrics.ALPHA, "")
	freeDevices = metrics.NewDesc("tutti_free_devices",
		"Free devices on nodes that are ready and not cordoned, by whether they are in domains of the level of which no device is in use (whole) or in others (broken).",
		[]string{"profile", "level", "resource", "domain"}, nil, metrics.ALPHA, "")
	largestFree = metrics.NewDesc("tutti_largest_free_devices",
		"The most free devices in one domain of the level: a gang that asks for more finds no such domain.",
		[]string{"profile", "level", "resource"}, nil, metrics.ALPHA, "")
)

// scraped collects them from all profiles of this process.
var scraped = &scrape{}

type scrape struct {
	metrics.BaseStableCollector

	mu       sync.Mutex
	profiles []*census
}

func (s *scrape) add(c *census) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles = append(s.profiles, c)
}

func (s *scrape) remove(c *census) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles = slices.DeleteFunc(s.profiles, func(other *census) bool { return other == c })
}

// DescribeWithStability implements metrics.StableCollector.
func (s *scrape) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- pendingGangs
	descriptions <- avoidedNodes
	descriptions <- freeDevices
	descriptions <- largestFree
}

// CollectWithStability implements metrics.StableCollector.
func (s *scrape) CollectWithStability(values chan<- metrics.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.profiles {
		c.collect(values)
	}
}

// roomAge is how old the answer about free devices may be: to look costs some
// ten milliseconds on 5,000 nodes, and several may ask.
const roomAge = 15 * time.Second

// census counts what one profile sees.
type census struct {
	meter   *meter
	levels  []topology.Level
	avoided func() int // nodes
	groups  func(types.NamespacedName, types.UID) bool
	nodes   func() ([]*v1.Node, error)
	podsOn  func(node string) []*v1.Pod

	rooms []clusterview.LevelRoom
	asOf  time.Time
}

// byNode is the index of pods by the node that they are bound to.
const byNode = Name + "/node"

func newCensus(m *meter, levels []topology.Level, factory informers.SharedInformerFactory) (*census, error) {
	pods := factory.Core().V1().Pods().Informer().GetIndexer()
	if _, has := pods.GetIndexers()[byNode]; !has {
		if err := pods.AddIndexers(cache.Indexers{byNode: nodeOf}); err != nil {
			return nil, fmt.Errorf("indexing pods by node: %w", err)
		}
	}
	groups := factory.Scheduling().V1beta1().PodGroups().Lister()
	nodes := factory.Core().V1().Nodes().Lister()
	return &census{
		meter: m, levels: levels,
		groups: func(key types.NamespacedName, uid types.UID) bool {
			group, err := groups.PodGroups(key.Namespace).Get(key.Name)
			return err == nil && group.UID == uid
		},
		nodes: func() ([]*v1.Node, error) { return nodes.List(labels.Everything()) },
		podsOn: func(node string) []*v1.Pod {
			objects, err := pods.ByIndex(byNode, node)
			if err != nil {
				return nil // there is no such index: a mistake of this file
			}
			on := make([]*v1.Pod, len(objects))
			for i, object := range objects {
				on[i] = object.(*v1.Pod)
			}
			return on
		},
	}, nil
}

func nodeOf(object any) ([]string, error) {
	if pod := object.(*v1.Pod); pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func (c *census) collect(values chan<- metrics.Metric) {
	profile := c.meter.profile
	pending := c.meter.pending(c.groups)
	for _, reason := range tutti.PendingReasons {
		values <- metrics.NewLazyConstMetric(pendingGangs, metrics.GaugeValue, float64(pending[reason]), profile, reason)
	}
	values <- metrics.NewLazyConstMetric(avoidedNodes, metrics.GaugeValue, float64(c.avoided()), profile)
	if now := c.meter.clock.Now(); now.Sub(c.asOf) > roomAge {
		nodes, err := c.nodes()
		if err != nil {
			klog.Background().Error(err, "Could not list nodes for the metrics")
			return
		}
		c.rooms, c.asOf = clusterview.RoomByLevel(c.levels, nodes, c.podsOn), now
	}
	for _, room := range c.rooms {
		values <- metrics.NewLazyConstMetric(freeDevices, metrics.GaugeValue, float64(room.Whole), profile, room.Level, room.Resource, "whole")
		values <- metrics.NewLazyConstMetric(freeDevices, metrics.GaugeValue, float64(room.Broken), profile, room.Level, room.Resource, "broken")
		values <- metrics.NewLazyConstMetric(largestFree, metrics.GaugeValue, float64(room.Largest), profile, room.Level, room.Resource)
	}
}
