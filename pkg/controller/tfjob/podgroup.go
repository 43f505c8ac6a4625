// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// PodGroupKind is a kind of PodGroup in which a job's gang can be written down. Of either kind there is one per job, of its name.
type PodGroupKind struct {
	// write makes the PodGroup of a gang.
	write func(gang) podGroup
	// change says what of one spec is to be changed into what of another, as operations of a JSON patch.
	change func(is, want podGroup) []operation
	// join makes a pod of a job a member of its gang, beyond the label that pods bear in any case.
	join func(*corev1.Pod, string)
	// isHeld: a PodGroup that was told to go stays as long as pods of the job run.
	isHeld bool

	client func(clients Clients, namespace string) groupClient
	watch  func(clients Clients, namespace string, own func(*metav1.ListOptions)) (factory, cache.SharedIndexInformer)
}

// podGroup is an object of one of the kinds.
type podGroup interface{ dependent }

// groupClient is what the controller needs of a client for one of the kinds.
type groupClient interface {
	client[podGroup]
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (podGroup, error)
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// ownAnnotations are those that a user takes back by removing them from the job. Others may be someone else's on the PodGroup.
const ownAnnotations = "tutti.dev/"

// patch is the JSON patch that turns a PodGroup into what it should be, or nil. It touches neither the status nor what others wrote. If the
// PodGroup has changed since it was read, the answer is a conflict: the resource version is written, because a test operation that fails is
// answered as if the patch were invalid.
func (k *PodGroupKind) patch(is, want podGroup) []byte {
	annotations := maps.Clone(is.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		_, wanted := want.GetAnnotations()[key]
		return strings.HasPrefix(key, ownAnnotations) && !wanted
	})
	annotations = merged(annotations, want.GetAnnotations())

	operations := []operation{{"replace", "/metadata/resourceVersion", is.GetResourceVersion()}}
	if !equality.Semantic.DeepEqual(is.GetAnnotations(), annotations) {
		operations = append(operations, operation{"add", "/metadata/annotations", annotations})
	}
	if !hasLabels(is, want.GetLabels()) {
		operations = append(operations, operation{"add", "/metadata/labels", merged(is.GetLabels(), want.GetLabels())})
	}
	operations = append(operations, k.change(is, want)...)
	if len(operations) == 1 {
		return nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil // strings, numbers and quantities always marshal
	}
	return patch
}

// typedGroups lets a client of one type serve podGroups.
type typedGroups[T podGroup] struct {
	typed interface {
		client[T]
		Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	}
}

func (c typedGroups[T]) Create(ctx context.Context, group podGroup, o metav1.CreateOptions) (podGroup, error) {
	return c.typed.Create(ctx, group.(T), o)
}

func (c typedGroups[T]) Get(ctx context.Context, name string, o metav1.GetOptions) (podGroup, error) {
	return c.typed.Get(ctx, name, o)
}

func (c typedGroups[T]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.typed.Delete(ctx, name, o)
}

func (c typedGroups[T]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (podGroup, error) {
	return c.typed.Patch(ctx, name, kind, patch, o, subresources...)
}
