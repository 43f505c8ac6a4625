// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// inFlight is how many requests of one job are under way at once. The API server gains nothing from more, and other jobs want
// their share.
const inFlight = 16

// The kinds of objects a job owns, as they are spelled in events.
const (
	kindPod      = "Pod"
	kindService  = "Service"
	kindPodGroup = "PodGroup"
)

// errOutOfDate: the job has changed since it was decided about. Its change is on the way to the cache and brings the job back.
var errOutOfDate = errors.New("the job has changed since the cache saw it")

// act does what a plan says: first what is to go, then what is to come, in the order of N3. A step begins when all requests of the
// one before have succeeded.
func (c *Controller) act(ctx context.Context, v *view, p *plan) error {
	pods := c.clients.Kube.CoreV1().Pods(v.job.Namespace)
	services := c.clients.Kube.CoreV1().Services(v.job.Namespace)

	// A name is another's. The job goes on if it has run, as in fillGroup and fillServices, and asks for the name again later.
	var isTaken atomic.Bool
	passTaken := func(err error) error {
		if errors.Is(err, errTaken) && hasRun(&p.status) {
			isTaken.Store(true)
			return nil
		}
		return err
	}
	steps := []func() error{
		func() error { return c.settleClaims(ctx, v) },
		func() error {
			return each(p.overdue, func(pod *corev1.Pod) error { return c.chase(ctx, v, pods, pod) })
		},
		func() error {
			return each(p.restartPods, func(pod *corev1.Pod) error { return c.restart(ctx, v, pods, pod) })
		},
		func() error {
			return each(p.deletePods, func(pod *corev1.Pod) error { return remove(ctx, c, v, pods, kindPod, pod) })
		},
		func() error {
			return each(p.deleteServices, func(s *corev1.Service) error { return remove(ctx, c, v, services, kindService, s) })
		},
		func() error {
			return each(p.deleteGroups, func(g podGroup) error { return remove(ctx, c, v, c.groupClient(v), kindPodGroup, g) })
		},
		func() error {
			if p.createGroup == nil {
				return nil
			}
			return passTaken(create(ctx, c, v, c.groupClient(v), kindPodGroup, p.createGroup))
		},
		func() error {
			if p.patchGroup == nil {
				return nil
			}
			return c.updateGroup(ctx, v, p.patchGroup)
		},
		func() error {
			return each(p.createServices, func(a address) error {
				return passTaken(create(ctx, c, v, services, kindService, newService(v, a)))
			})
		},
		func() error {
			return each(p.createPods, func(n newcomer) error {
				pod, err := newPod(v, n, c.options)
				if err != nil {
					return err
				}
				return create(ctx, c, v, pods, kindPod, pod)
			})
		},
		func() error {
			if !p.deleteJob {
				return nil
			}
			return c.expire(ctx, v)
		},
		func() error {
			if isTaken.Load() {
				return errTaken
			}
			return nil
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// confirm is N4. A job whose status has just been written needs no further proof.
func (c *Controller) confirm(ctx context.Context, v *view) error {
	live, err := c.clients.TFJobs.KubeflowV1().TFJobs(v.job.Namespace).Get(ctx, v.job.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return errOutOfDate
	case err != nil:
		return fmt.Errorf("reading TFJob %s/%s: %w", v.job.Namespace, v.job.Name, err)
	case live.UID != v.stored.UID || live.ResourceVersion != v.stored.ResourceVersion:
		return errOutOfDate
	}
	return nil
}

// client is what act needs of a typed client.
type client[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// create asks for an object. That it exists already is as good, if it belongs to this job.
func create[T metav1.Object](ctx context.Context, c *Controller, v *view, objects client[T], kind string, o T) error {
	asked := creation(kind, o.GetName())
	c.ledger.enter(v.job.UID, asked, c.now())
	_, err := objects.Create(ctx, o, metav1.CreateOptions{})
	if err == nil {
		c.send(v.stored, created(kind, o.GetName()))
		return nil
	}
	if apierrors.IsAlreadyExists(err) {
		var there T
		if there, err = objects.Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
			if isOwn(there, v.job) {
				return nil
			}
			c.ledger.strike(v.job.UID, asked)
			return c.refuse(ctx, v, claimed{kind, there}, o)
		}
	}
	c.ledger.strike(v.job.UID, asked)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return errNamespaceTerminating
	}
	if apierrors.IsInvalid(err) {
		c.ledger.refuse(v.job.UID, v.stored.Generation, err.Error())
	}
	c.send(v.stored, createFailed(kind, o.GetName(), err))
	return fmt.Errorf("creating %s %s/%s: %w", strings.ToLower(kind), o.GetNamespace(), o.GetName(), err)
}

// refuse deals with an object in the place of the one that is wanted. The caches hold what bears the controller's label, so it bears
// none. A PodGroup of the job's without labels is one that training-operator made, and is brought in step.
func (c *Controller) refuse(ctx context.Context, v *view, o claimed, wanted metav1.Object) error {
	if belongsTo(o.object, v.job) {
		if o.kind == kindPodGroup {
			return c.updateGroup(ctx, v, c.options.PodGroups.patch(o.object.(podGroup), wanted.(podGroup)))
		}
		if err := c.release(ctx, v, o); err != nil {
			return err
		}
	}
	c.tellTaken(v, o.kind, o.object)
	return fmt.Errorf("creating %s %s/%s: %w", strings.ToLower(o.kind), v.job.Namespace, o.object.GetName(), errTaken)
}

// errNamespaceTerminating: nothing can be created any more, and the job itself is about to go.
var errNamespaceTerminating = errors.New("the namespace is being deleted")

// remove deletes an object; that it is gone already, or that its name is another's by now, is as good.
func remove[T metav1.Object](ctx context.Context, c *Controller, v *view, objects client[T], kind string, o T) error {
	uid := o.GetUID()
	asked := deletion(kind, uid)
	c.ledger.enter(v.job.UID, asked, c.now())
	err := objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	switch {
	case err == nil:
		c.send(v.stored, deleted(kind, o.GetName()))
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		c.ledger.strike(v.job.UID, asked) // an informer may have shown it before it was entered
		return nil
	}
	c.ledger.strike(v.job.UID, asked)
	c.send(v.stored, deleteFailed(kind, o.GetName(), err))
	return fmt.Errorf("deleting %s %s/%s: %w", strings.ToLower(kind), o.GetNamespace(), o.GetName(), err)
}

func (c *Controller) restart(ctx context.Context, v *view, pods client[*corev1.Pod], pod *corev1.Pod) error {
	if err := remove(ctx, c, v, pods, kindPod, pod); err != nil {
		return err
	}
	if code, known := exitCode(pod); known {
		c.send(v.stored, exitedWithCode(pod, code))
	}
	c.send(v.stored, podRestarting(pod))
	return nil
}

// expire deletes a job that has outlived its end; the garbage collector takes what it owns.
func (c *Controller) expire(ctx context.Context, v *view) error {
	err := c.clients.TFJobs.KubeflowV1().TFJobs(v.job.Namespace).Delete(ctx, v.job.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &v.job.UID},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	switch {
	case err == nil:
		c.send(v.stored, jobExpired(v.job))
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	}
	c.send(v.stored, deleteFailed("Job", v.job.Name, err))
	return fmt.Errorf("deleting TFJob %s/%s: %w", v.job.Namespace, v.job.Name, err)
}

// groupClient is there where PodGroups are made.
func (c *Controller) groupClient(v *view) groupClient {
	return c.options.PodGroups.client(c.clients, v.job.Namespace)
}

func (c *Controller) updateGroup(ctx context.Context, v *view, patch []byte) error {
	_, err := c.groupClient(v).Patch(ctx, v.job.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("updating pod group %s/%s: %w", v.job.Namespace, v.job.Name, err)
	}
	return nil
}

// each calls do for every item: one at first, and with every success one more at a time, up to inFlight. What every call would fail
// for, such as a quota, fails a few. After a failure it starts no more calls; it returns when all that were started have ended, with all
// their errors.
func each[T any](items []T, do func(T) error) error {
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		next    int
		callers int
		failed  []error
		work    func()
	)
	// mu is held where these are called.
	take := func() (item T, ok bool) {
		if len(failed) > 0 || next == len(items) {
			return item, false
		}
		next++
		return items[next-1], true
	}
	begin := func() {
		if callers < inFlight && next < len(items) {
			callers++
			group.Go(work)
		}
	}
	work = func() {
		mu.Lock()
		defer mu.Unlock()
		for item, ok := take(); ok; item, ok = take() {
			mu.Unlock()
			err := do(item)
			mu.Lock()
			if err != nil {
				failed = append(failed, err)
			} else {
				begin()
			}
		}
	}
	mu.Lock()
	begin()
	mu.Unlock()
	group.Wait()
	return errors.Join(failed...)
}
