// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot holds the objects of a cluster that placement depends on,
// at one moment, as values and as a file. The file is a YAML List, as kubectl
// prints one: it can be read, edited and applied.
package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"
)

// Kind is a kind of object that placement depends on.
type Kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// GVK is the kind with its group and version.
func (k Kind) GVK() schema.GroupVersionKind { return k.Resource.GroupVersion().WithKind(k.Kind) }

// String is for people; no two kinds have one.
func (k Kind) String() string {
	if k == NativePodGroup {
		return k.Kind + " of " + k.Resource.Group
	}
	return k.Kind
}

func kind(group, version, resource, name string, namespaced bool) Kind {
	return Kind{Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Kind: name, Namespaced: namespaced}
}

// Kinds are all of them: what the scheduler watches, and the jobs.
var Kinds = []Kind{
	kind("", "v1", "namespaces", "Namespace", false),
	kind("", "v1", "nodes", "Node", false),
	kind("", "v1", "pods", "Pod", true),
	kind("", "v1", "services", "Service", true),
	kind("", "v1", "replicationcontrollers", "ReplicationController", true),
	kind("", "v1", "persistentvolumes", "PersistentVolume", false),
	kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
	kind("apps", "v1", "replicasets", "ReplicaSet", true),
	kind("apps", "v1", "statefulsets", "StatefulSet", true),
	kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
	kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false),
	kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
	kind("storage.k8s.io", "v1", "csinodes", "CSINode", false),
	kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", false),
	kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true),
	kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false),
	kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false),
	kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false),
	kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true),
	kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true),
	NativePodGroup,
	kind("topology.tutti.dev", "v1alpha1", "nodetopologies", "NodeTopology", false),
	kind("kubeflow.org", "v1", "tfjobs", "TFJob", true),
}

// Served are the kinds to read of a cluster: all, but native PodGroups only where
// it has them. That most clusters have none is no gap in what is known of them.
func Served(client discovery.ServerResourcesInterface) []Kind {
	list, err := client.ServerResourcesForGroupVersion(NativePodGroup.Resource.GroupVersion().String())
	isOne := func(r metav1.APIResource) bool { return r.Name == NativePodGroup.Resource.Resource }
	if apierrors.IsNotFound(err) || err == nil && !slices.ContainsFunc(list.APIResources, isOne) {
		return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k == NativePodGroup })
	}
	return Kinds // if that is not known, listing them tells
}

// KindOf finds the kind of an object; false for one that placement does not
// depend on.
func KindOf(gvk schema.GroupVersionKind) (Kind, bool) {
	for _, k := range Kinds {
		if k.GVK() == gvk {
			return k, true
		}
	}
	return Kind{}, false
}

// Snapshot is a cluster at one moment.
type Snapshot struct {
	Objects []*unstructured.Unstructured
	// Taken is when; zero if the file does not say.
	Taken time.Time
	// Unread are kinds that the reader may not list, or that the cluster does
	// not have: the plan knows none of their objects.
	Unread []string
}

// Of lists the objects of one kind; PodGroup is two of them.
func (s *Snapshot) Of(name string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, o := range s.Objects {
		if o.GetKind() == name {
			found = append(found, o)
		}
	}
	return found
}

// takenAnnotation of the file says when the snapshot was taken.
const takenAnnotation = "tutti.dev/taken"

// pageSize bounds the answers of one list request.
const pageSize = 500

// Take reads these kinds of a cluster, one after another: objects that change
// meanwhile may not fit together. progress is told each kind before it is read.
// Nodes and pods must be readable; what else is not is noted in Unread.
func Take(ctx context.Context, client dynamic.Interface, kinds []Kind, now time.Time, progress func(kind string)) (*Snapshot, error) {
	s := &Snapshot{Taken: now}
	for _, k := range kinds {
		progress(k.String())
		lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(k.Resource).List(ctx, options)
		})
		lister.PageSize = pageSize
		err := lister.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			o, ok := object.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("a list of %s holds a %T", k.Resource.Resource, object)
			}
			o.SetGroupVersionKind(k.GVK())
			trim(o)
			s.Objects = append(s.Objects, o)
			return nil
		})
		needed := k.Kind == "Node" || k.Kind == "Pod"
		switch {
		case err == nil:
		case !needed && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)):
			s.Unread = append(s.Unread, k.String())
		default:
			return nil, fmt.Errorf("listing %s: %w", k.Resource.GroupResource(), err)
		}
	}
	return s, nil
}

// Read reads a file that Write wrote, or any YAML or JSON list of such objects.
// Kinds that placement does not depend on are left out.
func Read(r io.Reader) (*Snapshot, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	var list struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	unmarshal := func(data []byte, v any) error { return yaml.Unmarshal(data, v) }
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data) {
		unmarshal = json.Unmarshal // JSON is YAML too, but quicker to read as what it is
	}
	if err := unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("this is no snapshot: %w", err)
	}
	if list.Kind != "List" {
		return nil, fmt.Errorf("this is no snapshot: its kind is %q, not List; kubectl tutti snapshot writes one", list.Kind)
	}
	s := &Snapshot{}
	if text, ok := list.Metadata.Annotations[takenAnnotation]; ok {
		if s.Taken, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, fmt.Errorf("this is no snapshot: %s: %w", takenAnnotation, err)
		}
	}
	for i, item := range list.Items {
		o := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(item, &o.Object); err != nil {
			return nil, fmt.Errorf("this is no snapshot: item %d: %w", i, err)
		}
		if _, ok := KindOf(o.GroupVersionKind()); !ok {
			continue
		}
		if o.GetName() == "" {
			return nil, fmt.Errorf("this is no snapshot: item %d, a %s, has no name", i, o.GetKind())
		}
		s.Objects = append(s.Objects, o)
	}
	return s, nil
}

// Write writes the snapshot.
func (s *Snapshot) Write(w io.Writer) error {
	items := make([]any, len(s.Objects))
	for i, o := range s.Objects {
		items[i] = o.Object
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if !s.Taken.IsZero() {
		list["metadata"] = map[string]any{"annotations": map[string]any{takenAnnotation: s.Taken.UTC().Format(time.RFC3339)}}
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding the snapshot: %w", err)
	}
	_, err = w.Write(data)
	return err
}
