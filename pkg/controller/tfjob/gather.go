// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// view is one job and what exists for it, as a reconcile sees it. It is read-only.
type view struct {
	stored   *kubeflowv1.TFJob // as in the cache
	job      *kubeflowv1.TFJob // in canonical form
	problems []string          // why it cannot be run
	roles    []role

	// What is owned by the job, by name. An object that was asked to go bears a deletionTimestamp here, even if the cache does not
	// show it yet.
	pods     map[string]*corev1.Pod
	services map[string]*corev1.Service
	groups   map[string]podGroup

	// perJob: one service stands for all pods.
	perJob bool

	// Objects at the edge of the job, see claims.go: orphans to adopt, strays to release, and what has a name that the job needs.
	// Names that any of them has are taken.
	adopt, strays, foreign []claimed
	taken                  map[entry]bool

	// departed are pods that are gone, by name, as far as this controller has seen them go; going are those of pods that were told to, by
	// UID. See departures.go.
	departed map[string]departure
	going    map[types.UID]departure

	// refused is what the API server said of an object of the job's as it is now: that no such object can exist.
	refused string
	// told is what the job has been told about.
	told map[string]bool

	// open is what the API server was asked for and the caches do not show.
	open map[entry]bool
}

// gather reads caches and the ledger only.
func (c *Controller) gather(stored *kubeflowv1.TFJob, now time.Time) (*view, error) {
	v := &view{
		stored: stored, taken: map[entry]bool{}, open: c.ledger.open(stored.UID, now),
		refused: c.ledger.refusal(stored.UID, stored.Generation), told: c.ledger.toldOf(stored.UID),
	}
	v.job, v.problems = canonical(stored)
	v.roles = rolesFrom(v.job)
	var err error
	if v.pods, err = owned[*corev1.Pod](c.pods, v, kindPod, now); err != nil {
		return nil, err
	}
	c.ledger.attend(v)
	if v.services, err = owned[*corev1.Service](c.services, v, kindService, now); err != nil {
		return nil, err
	}
	if v.groups, err = owned[podGroup](c.groups, v, kindPodGroup, now); err != nil {
		return nil, err
	}
	v.perJob = perJobServices(v, c.options)
	if len(v.problems) > 0 {
		return v, nil
	}
	err = c.claim(v)
	if isFinished(&stored.Status) {
		v.adopt, v.foreign = nil, nil // it needs no names any more
	}
	return v, err
}

// isAsked tells whether there is no use in asking for an object: it was asked for, or its name is taken.
func (v *view) isAsked(e entry) bool { return v.open[e] || v.taken[e] }

func owned[T dependent](objects cache.Indexer, v *view, kind string, now time.Time) (map[string]T, error) {
	if objects == nil {
		return nil, nil
	}
	items, err := objects.ByIndex(byController, string(v.stored.UID))
	if err != nil {
		return nil, fmt.Errorf("looking up the objects of kind %s that belong to TFJob %s/%s: %w", kind, v.stored.Namespace, v.stored.Name, err)
	}
	found := make(map[string]T, len(items))
	labels := jobLabels(v.job)
	for _, item := range items {
		o := item.(T)
		if kind != kindPodGroup && !hasLabels(o, labels) {
			if o.GetDeletionTimestamp() == nil {
				v.strays = append(v.strays, claimed{kind, o})
			}
			continue
		}
		if o.GetDeletionTimestamp() == nil && v.open[deletion(kind, o.GetUID())] {
			o = o.DeepCopyObject().(T)
			o.SetDeletionTimestamp(&metav1.Time{Time: now})
		}
		found[o.GetName()] = o
	}
	return found, nil
}

// dependent is an object that a job may own.
type dependent interface {
	metav1.Object
	runtime.Object
}

// byController is the index of objects by the UID of their controller.
const byController = "controller"

var indexers = cache.Indexers{byController: func(obj any) ([]string, error) {
	if o, ok := obj.(metav1.Object); ok {
		if ref := metav1.GetControllerOf(o); ref != nil {
			return []string{string(ref.UID)}, nil
		}
	}
	return nil, nil
}}
