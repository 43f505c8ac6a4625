// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-project/tutti/pkg/clusterview"
	"github.com/tutti-project/tutti/pkg/placement"
	"github.com/tutti-project/tutti/pkg/topology"
)

// meter measures one profile's gangs. The scheduling thread only counts; what
// takes longer is done by the meter's own goroutine, which misses gangs when it
// is behind rather than hold anybody up.
type meter struct {
	profile string
	clock   clock.PassiveClock
	began   chan start
	ideal   ideal // of the meter's goroutine

	mu sync.Mutex
	// told is what was last said of each gang that is not placed.
	told map[types.UID]toldOf
}

type toldOf struct {
	key    types.NamespacedName
	reason string
}

// start is a gang that begins: its pods by host, and what they ask for.
type start struct {
	tree      *topology.Tree
	hosts     []int
	resources []string
	roles     []placement.Role
	within    placement.Constraint
}

// startsKept bounds the gangs that wait to be measured.
const startsKept = 1024

func newMeter(profile string, nodes corev1listers.NodeLister) *meter {
	m := &meter{profile: profile, clock: clock.RealClock{}, began: make(chan start, startsKept), ideal: ideal{nodes: nodes}, told: map[types.UID]toldOf{}}
	for _, o := range outcomes {
		attempts.WithLabelValues(profile, string(o))
	}
	return m
}

// hears wraps a verdict: it remembers what gangs wait for.
func (m *meter) hears(verdict Verdict) Verdict {
	return func(group *schedulingv1beta1.PodGroup, condition metav1.Condition) {
		m.mu.Lock()
		if condition.Status == metav1.ConditionTrue {
			delete(m.told, group.UID)
		} else {
			m.told[group.UID] = toldOf{key: keyOf(group), reason: condition.Reason}
		}
		m.mu.Unlock()
		verdict(group, condition)
	}
}

// pending counts the gangs that wait by what they were last told, and forgets
// those that are no more.
func (m *meter) pending(exists func(types.NamespacedName, types.UID) bool) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for uid, told := range m.told {
		if !exists(told.key, uid) {
			delete(m.told, uid)
			continue
		}
		counts[told.reason]++
	}
	return counts
}

func (m *meter) attempted(o outcome) {
	if m != nil {
		attempts.WithLabelValues(m.profile, string(o)).Inc()
	}
}

func (m *meter) planned(took time.Duration, placed bool) {
	result := "refused"
	if placed {
		result = "placed"
	}
	planSeconds.WithLabelValues(m.profile, result).Observe(took.Seconds())
}

// placed: so many pods belong to the gang, which had been complete for so long.
func (m *meter) placed(pods int, waited time.Duration) {
	if m == nil {
		return
	}
	m.attempted(outcomePlaced)
	waitSeconds.WithLabelValues(m.profile, sizeClassOf(pods)).Observe(waited.Seconds())
}

// startOf is what there is to measure of a gang that begins with these pods.
func (g gathered) startOf(placed map[types.UID]pin) start {
	s := start{tree: g.hosts.Tree, resources: g.problem.Resources, within: g.problem.Constraint}
	pods := make([]int, len(g.problem.Roles))
	for _, pin := range placed {
		s.hosts = append(s.hosts, pin.host)
		pods[pin.role]++
	}
	for i, role := range g.problem.Roles {
		if pods[i] > 0 {
			s.roles = append(s.roles, placement.Role{Name: role.Name, Pods: pods[i], Minimum: pods[i], Request: role.Request})
		}
	}
	return s
}

func (m *meter) begins(s start) {
	if m == nil {
		return
	}
	select {
	case m.began <- s:
	default:
	}
}

// run measures until ctx ends.
func (m *meter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-m.began:
			m.measure(s)
		}
	}
}

// measure counts domains and compares the level with the best. O(pods x levels)
// and, for a gang like none before it, a plan.
func (m *meter) measure(s start) {
	levels := s.tree.Levels()
	narrowest := 0
	for level := 1; level < len(levels); level++ {
		domains := map[int]bool{}
		for _, host := range s.hosts {
			domains[s.tree.DomainOf(host, level)] = true
		}
		gangDomains.WithLabelValues(m.profile, levels[level]).Observe(float64(len(domains)))
		if len(domains) == 1 {
			narrowest = level
		}
	}
	// A host that is unusable now was used when the gang was placed.
	best := max(narrowest, m.ideal.level(s, m.clock.Now()))
	gangLevels.WithLabelValues(m.profile, levels[narrowest], levels[best]).Inc()
}

// idealAge is how old the ideal's picture of the nodes may be.
const idealAge = time.Minute

// ideal answers what level a gang would reach if it were alone in the cluster.
// Gangs are often alike, so answers are kept as long as the picture is.
type ideal struct {
	nodes corev1listers.NodeLister

	tree    *topology.Tree
	made    time.Time
	answers map[string]int
	// planners by the resources that they count
	planners map[string]*placement.Planner
}

func (i *ideal) level(s start, now time.Time) int {
	if s.tree != i.tree || now.Sub(i.made) > idealAge {
		i.tree, i.made, i.answers, i.planners = s.tree, now, map[string]int{}, map[string]*placement.Planner{}
	}
	var asked strings.Builder
	fmt.Fprint(&asked, s.resources, s.within)
	for _, role := range s.roles {
		fmt.Fprint(&asked, role.Pods, role.Request)
	}
	question := asked.String()
	if level, known := i.answers[question]; known {
		return level
	}
	names := fmt.Sprint(s.resources)
	planner, known := i.planners[names]
	if !known {
		planner = placement.NewPlanner(s.tree, s.resources, clusterview.CapacityOf(s.tree, s.resources, i.nodes))
		i.planners[names] = planner
	}
	problem := planner.Problem()
	problem.Roles, problem.Constraint = s.roles, s.within
	decision := planner.Plan(problem)
	i.answers[question] = decision.Level // of the whole cluster, if nodes have gone meanwhile
	return decision.Level
}
