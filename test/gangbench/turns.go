// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-project/tutti/test/bench"
	"github.com/tutti-project/tutti/test/controlplane"
)

// limit of one turn. A scheduler that needs longer has that as its time.
const limit = 10 * time.Minute

// measured and filling name the gangs of a turn.
const (
	measured = "gang"
	filling  = "low"
)

func (s *stage) contenders(c benchCase) []bench.Contender[result] {
	list := []bench.Contender[result]{
		{Name: "tutti", Run: func(ctx context.Context, label string) (result, error) {
			return s.scheduled(ctx, c.name+"-"+label, c.load, s.tutti())
		}},
		{Name: "upstream", Run: func(ctx context.Context, label string) (result, error) {
			return s.scheduled(ctx, c.name+"-"+label, c.load, s.upstream())
		}},
	}
	for _, inFlight := range c.loops {
		list = append(list, bench.Contender[result]{Name: loopName(inFlight), Run: func(ctx context.Context, label string) (result, error) {
			return s.bindOnly(ctx, c.name+"-"+label, c.load, inFlight)
		}})
	}
	return list
}

// scheduled is one turn of a scheduler.
func (s *stage) scheduled(ctx context.Context, namespace string, l load, d dialect) (result, error) {
	if err := s.createNamespace(ctx, namespace); err != nil {
		return result{}, err
	}
	defer s.remove(namespace)
	if l.evicting {
		if err := s.fill(ctx, namespace, l, d); err != nil {
			return result{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := s.watch(ctx, namespace, l.total())
	if err != nil {
		return result{}, err
	}
	var scheduler *controlplane.Process
	launch := func() (err error) {
		scheduler, err = d.start()
		return err
	}
	ready := func() error { return s.isAtWork(ctx, namespace, d.name) }
	pods := func() error { return s.createPods(ctx, namespace, measured, l, d, l.evicting) }
	groups := func() error { return s.createGroups(ctx, namespace, measured, l, d, l.evicting) }
	var before []func() error
	var after []func() error
	since := w.started
	switch {
	case l.live:
		before, after = []func() error{launch, ready}, []func() error{pods, groups}
	case l.gangs == 1:
		before, after = []func() error{launch, pods, ready}, []func() error{groups}
	default:
		before, after = []func() error{pods, groups}, []func() error{launch}
		if !l.evicting {
			since = w.first
		}
	}
	took, bound, err := w.time(ctx, before, after, since)
	if scheduler != nil {
		scheduler.Stop()
	}
	if err != nil {
		return result{}, errors.Join(err, s.plane.Failure())
	}
	r := result{took: took, bound: bound, of: l.total()}
	r.cpu, r.peak = scheduler.Used()
	return r, nil
}

// isAtWork returns when the scheduler has bound a pod, which is taken away again.
func (s *stage) isAtWork(ctx context.Context, namespace, scheduler string) error {
	const name = "first"
	pods := s.client.CoreV1().Pods(namespace)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: scheduler, TerminationGracePeriodSeconds: new(int64(0)), Containers: []v1.Container{{Name: "c", Image: "example.com/c:1"}},
	}}
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := s.plane.Eventually(ctx, limit, func(ctx context.Context) error {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = fmt.Errorf("%s has bound no pod", scheduler)
		}
		return err
	})
	if err != nil {
		return err
	}
	return pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))
}

// fill takes all nodes with gangs of the same size that may be evicted.
func (s *stage) fill(ctx context.Context, namespace string, l load, d dialect) error {
	low := l
	low.gangs = s.nodes / l.pods
	return errors.Join(
		s.createGroups(ctx, namespace, filling, low, d, false),
		s.createPods(ctx, namespace, filling, low, d, false),
		s.bindAll(ctx, namespace, filling, low, createsInFlight),
	)
}

// bindOnly is one turn of a loop that decides nothing.
func (s *stage) bindOnly(ctx context.Context, namespace string, l load, inFlight int) (result, error) {
	if err := s.createNamespace(ctx, namespace); err != nil {
		return result{}, err
	}
	defer s.remove(namespace)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w, err := s.watch(ctx, namespace, l.total())
	if err != nil {
		return result{}, err
	}
	nobody := dialect{shape: func(p *v1.Pod, _ string, _ load) { p.Spec.SchedulerName = "nobody" }}
	took, bound, err := w.time(ctx,
		[]func() error{func() error { return s.createPods(ctx, namespace, measured, l, nobody, false) }},
		[]func() error{func() error { return s.bindAll(ctx, namespace, measured, l, inFlight) }}, w.started)
	return result{took: took, bound: bound, of: l.total()}, err
}

// watcher sees the measured pods of a namespace being bound.
type watcher struct {
	want int
	done chan struct{}
	// began is when the clock started.
	began time.Time

	mu    sync.Mutex
	bound map[string]bool
	// oldest and newest are when a pod was seen bound.
	oldest, newest time.Time
}

func (s *stage) watch(ctx context.Context, namespace string, pods int) (*watcher, error) {
	w := &watcher{want: pods, done: make(chan struct{}), bound: map[string]bool{}}
	informer := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object.(*v1.Pod)) },
		UpdateFunc: func(_, object any) { w.see(object.(*v1.Pod)) },
	})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, ctx.Err()
	}
	return w, nil
}

func (w *watcher) see(pod *v1.Pod) {
	if pod.Spec.NodeName == "" || !strings.HasPrefix(pod.Name, measured+"-") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bound[pod.Name] {
		return
	}
	w.newest = time.Now()
	if len(w.bound) == 0 {
		w.oldest = w.newest
	}
	w.bound[pod.Name] = true
	if len(w.bound) == w.want {
		close(w.done)
	}
}

func (w *watcher) last() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// started and first are the moments from which a turn may count.
func (w *watcher) started() time.Time { return w.began }

func (w *watcher) first() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.oldest.IsZero() {
		return w.began
	}
	return w.oldest
}

// time does what comes before, starts the clock, does what comes after, and waits
// for the last binding; how many there were says whether it came in time.
func (w *watcher) time(ctx context.Context, before, after []func() error, since func() time.Time) (took time.Duration, bound int, err error) {
	err = inOrder(before)
	w.began = time.Now()
	if err == nil {
		err = inOrder(after)
	}
	if err != nil {
		return 0, 0, err
	}
	end := time.Now
	select {
	case <-w.done:
		end = w.last
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return 0, 0, context.Cause(ctx)
		}
	}
	w.mu.Lock()
	bound = len(w.bound)
	w.mu.Unlock()
	return end().Sub(since()), bound, nil
}

func inOrder(steps []func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
