// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tutti-project/tutti/pkg/snapshot"
)

// selection is which objects of a kind a client wants, and how much of them.
type selection struct {
	namespace    string
	labels       labels.Selector
	fields       fields.Selector
	metadataOnly bool
}

func selectionOf(r *http.Request, target request) (selection, error) {
	query := r.URL.Query()
	s := selection{namespace: target.key.Namespace, metadataOnly: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	var err error
	if s.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	if s.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	return s, nil
}

func (s selection) wants(o *unstructured.Unstructured) bool {
	if s.namespace != "" && o.GetNamespace() != s.namespace {
		return false
	}
	set := fields.Set{}
	for _, requirement := range s.fields.Requirements() {
		set[requirement.Field], _, _ = unstructured.NestedString(o.Object, strings.Split(requirement.Field, ".")...)
	}
	return s.labels.Matches(labels.Set(o.GetLabels())) && s.fields.Matches(set)
}

func (s selection) form(o *unstructured.Unstructured) map[string]any {
	if !s.metadataOnly {
		return o.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.Object["metadata"]}
}

func (s *server) list(r *http.Request, target request) (map[string]any, error) {
	selection, err := selectionOf(r, target)
	if err != nil {
		return nil, err
	}
	objects, version := s.store.list(target.kind.Resource)
	items := []any{}
	for _, o := range objects {
		if selection.wants(o) {
			items = append(items, selection.form(o))
		}
	}
	list := map[string]any{
		"apiVersion": target.kind.Resource.GroupVersion().String(), "kind": target.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}, "items": items,
	}
	if selection.metadataOnly {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return list, nil
}

// watch streams changes until the client goes. With sendInitialEvents it begins
// with all objects and a bookmark after them.
func (s *server) watch(r *http.Request, target request) *http.Response {
	selection, err := selectionOf(r, target)
	if err != nil {
		return failed(r, err)
	}
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(s.stream(r, target, selection, writer)) }()
	return response(r, http.StatusOK, reader)
}

func (s *server) stream(r *http.Request, target request, selection selection, w io.Writer) error {
	encoder := json.NewEncoder(w)
	send := func(kind watch.EventType, object map[string]any) error {
		return encoder.Encode(map[string]any{"type": kind, "object": object})
	}
	query := r.URL.Query()
	version, _ := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if query.Get("sendInitialEvents") == "true" {
		var objects []*unstructured.Unstructured
		objects, version = s.store.list(target.kind.Resource)
		for _, o := range objects {
			if selection.wants(o) {
				if err := send(watch.Added, selection.form(o)); err != nil {
					return err
				}
			}
		}
		mark := &unstructured.Unstructured{Object: map[string]any{}}
		mark.SetGroupVersionKind(target.kind.GVK())
		mark.SetResourceVersion(strconv.FormatInt(version, 10))
		mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		if err := send(watch.Bookmark, selection.form(mark)); err != nil {
			return err
		}
	}
	for {
		changes, grown := s.store.after(version)
		for _, c := range changes {
			version = c.version
			if c.resource != target.kind.Resource {
				continue
			}
			kind := c.kind
			if !selection.wants(c.object) {
				if kind != watch.Modified {
					continue
				}
				kind = watch.Deleted // it may have been wanted before; clients bear a deletion of what they do not know
			}
			if err := send(kind, selection.form(c.object)); err != nil {
				return err
			}
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return io.EOF
		}
	}
}

// discover answers what kinds there are.
func discover(path []string) (any, bool) {
	switch {
	case len(path) == 1 && path[0] == "version":
		return map[string]any{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}, true
	case len(path) == 2 && path[0] == "api":
		return resources(schema.GroupVersion{Version: path[1]})
	case len(path) == 3 && path[0] == "apis":
		return resources(schema.GroupVersion{Group: path[1], Version: path[2]})
	}
	return nil, false
}

func resources(gv schema.GroupVersion) (any, bool) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String()}
	for _, k := range snapshot.Kinds {
		if k.Resource.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.Resource.Resource, Kind: k.Kind, Namespaced: k.Namespaced, Verbs: metav1.Verbs{"get", "list", "watch"}})
		}
	}
	return list, len(list.APIResources) > 0
}
