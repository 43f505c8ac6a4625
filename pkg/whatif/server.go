// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/tutti-project/tutti/pkg/snapshot"
)

// server answers the requests of clients in this process as the API server of
// the world would. It is an http.RoundTripper: nothing listens, and no request
// can reach a cluster. It serves what Tutti's programs ask for: get, list,
// watch, create, update, patch, delete and the subresources status and binding,
// in JSON. It neither defaults nor validates: the objects come from an API
// server that has.
type server struct {
	store *store
	// created may change a pod before it is stored; deleted is told of every pod
	// that is deleted.
	created func(pod *unstructured.Unstructured) error
	deleted func(pod *unstructured.Unstructured)
}

// request is what a URL asks for.
type request struct {
	kind        snapshot.Kind
	key         types.NamespacedName // Name is empty for a collection
	subresource string
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if answer, ok := discover(path); ok {
		return respond(r, http.StatusOK, answer), nil
	}
	target, ok := parse(path)
	if !ok {
		if isEvents(path) && r.Method != http.MethodGet {
			return echo(r) // nobody reads the events of this world
		}
		return failed(r, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, r.URL.Path, "the world of a snapshot has no such kind", 0, true)), nil
	}
	answer, status, err := s.serve(r, target)
	switch {
	case err != nil:
		return failed(r, err), nil
	case answer == nil:
		return s.watch(r, target), nil
	}
	return respond(r, status, answer), nil
}

// parse understands /api/v1/… and /apis/group/version/….
func parse(path []string) (request, bool) {
	var gv schema.GroupVersion
	switch {
	case len(path) >= 3 && path[0] == "api":
		gv, path = schema.GroupVersion{Version: path[1]}, path[2:]
	case len(path) >= 4 && path[0] == "apis":
		gv, path = schema.GroupVersion{Group: path[1], Version: path[2]}, path[3:]
	default:
		return request{}, false
	}
	var target request
	if path[0] == "namespaces" && len(path) > 2 {
		target.key.Namespace, path = path[1], path[2:]
	}
	for _, k := range snapshot.Kinds {
		if k.Resource != gv.WithResource(path[0]) {
			continue
		}
		target.kind = k
		if len(path) > 1 {
			target.key.Name = path[1]
		}
		if len(path) > 2 {
			target.subresource = path[2]
		}
		return target, true
	}
	return request{}, false
}

func isEvents(path []string) bool {
	return len(path) > 2 && (path[len(path)-1] == "events" || path[len(path)-2] == "events")
}

// serve answers all but watches, for which it returns nil.
func (s *server) serve(r *http.Request, target request) (answer any, status int, err error) {
	switch {
	case r.Method == http.MethodGet && target.key.Name != "":
		o, ok := s.store.get(target.kind.Resource, target.key)
		if !ok {
			return nil, 0, notFound(target)
		}
		return o.Object, http.StatusOK, nil
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return nil, 0, nil
	case r.Method == http.MethodGet:
		answer, err := s.list(r, target)
		return answer, http.StatusOK, err
	case r.Method == http.MethodDelete && target.key.Name != "":
		answer, err := s.delete(r, target)
		return answer, http.StatusOK, err
	}
	return s.write(r, target)
}

// write answers requests with a body.
func (s *server) write(r *http.Request, target request) (answer any, status int, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the request: %w", err)
	}
	switch {
	case r.Method == http.MethodPost && target.subresource == "binding":
		answer, err := s.bind(target, body)
		return answer, http.StatusCreated, err
	case r.Method == http.MethodPost && target.key.Name == "":
		answer, err := s.create(target, body)
		return answer, http.StatusCreated, err
	case r.Method == http.MethodPut:
		answer, err := s.update(target, body)
		return answer, http.StatusOK, err
	case r.Method == http.MethodPatch:
		answer, err := s.patch(target, r.Header.Get("Content-Type"), body)
		return answer, http.StatusOK, err
	}
	return nil, 0, apierrors.NewMethodNotSupported(target.kind.Resource.GroupResource(), r.Method)
}

func (s *server) create(target request, body []byte) (map[string]any, error) {
	o, err := decode(body)
	if err != nil {
		return nil, err
	}
	o.SetGroupVersionKind(target.kind.GVK())
	o.SetNamespace(target.key.Namespace)
	if o.GetName() == "" {
		o.SetName(o.GetGenerateName() + string(uuid.NewUUID())[:5])
	}
	if target.kind.Kind == "Pod" {
		if err := s.created(o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	key := snapshot.KeyOf(o)
	created, err := s.store.put(target.kind.Resource, key, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if current != nil {
			return nil, apierrors.NewAlreadyExists(target.kind.Resource.GroupResource(), key.Name)
		}
		o.SetUID(uuid.NewUUID())
		o.SetGeneration(1)
		o.SetCreationTimestamp(metav1.Now())
		if target.kind.Kind == "Pod" {
			if err := unstructured.SetNestedField(o.Object, string(v1.PodPending), "status", "phase"); err != nil {
				return nil, err
			}
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	return created.Object, nil
}

func (s *server) update(target request, body []byte) (map[string]any, error) {
	o, err := decode(body)
	if err != nil {
		return nil, err
	}
	return s.change(target, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if v := o.GetResourceVersion(); v != "" && v != current.GetResourceVersion() {
			return nil, apierrors.NewConflict(target.kind.Resource.GroupResource(), target.key.Name, fmt.Errorf("it has changed"))
		}
		return o, nil
	})
}

func (s *server) patch(target request, contentType string, patch []byte) (map[string]any, error) {
	return s.change(target, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		original, err := json.Marshal(current.Object)
		if err != nil {
			return nil, err
		}
		var patched []byte
		switch types.PatchType(contentType) {
		case types.MergePatchType:
			patched, err = jsonpatch.MergePatch(original, patch)
		case types.StrategicMergePatchType:
			if target.kind.Kind != "Pod" {
				return nil, apierrors.NewBadRequest("strategic patches are for pods here")
			}
			patched, err = strategicpatch.StrategicMergePatch(original, patch, v1.Pod{})
		default:
			return nil, apierrors.NewBadRequest("patches of type " + contentType + " are not served here")
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return decode(patched)
	})
}

// change replaces an object. As in an API server, its identity stays, and a
// request changes either the status or all else.
func (s *server) change(target request, update func(current *unstructured.Unstructured) (*unstructured.Unstructured, error)) (map[string]any, error) {
	changed, err := s.store.put(target.kind.Resource, target.key, func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if current == nil {
			return nil, notFound(target)
		}
		asked, err := update(current.DeepCopy())
		if err != nil {
			return nil, err
		}
		if uid := asked.GetUID(); uid != "" && uid != current.GetUID() {
			return nil, apierrors.NewConflict(target.kind.Resource.GroupResource(), target.key.Name, fmt.Errorf("it is another object of this name"))
		}
		next, other := asked, current
		if target.subresource == "status" {
			next, other = current, asked
		}
		if status, ok := other.Object["status"]; ok {
			next.Object["status"] = status
		} else {
			delete(next.Object, "status")
		}
		next.SetUID(current.GetUID())
		next.SetGroupVersionKind(target.kind.GVK())
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	return changed.Object, nil
}

func (s *server) bind(target request, body []byte) (metav1.Status, error) {
	binding, err := decode(body)
	if err != nil {
		return metav1.Status{}, err
	}
	node, _, _ := unstructured.NestedString(binding.Object, "target", "name")
	_, err = s.store.put(target.kind.Resource, target.key, func(pod *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if pod == nil {
			return nil, notFound(target)
		}
		if now, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); now != "" {
			return nil, apierrors.NewConflict(target.kind.Resource.GroupResource(), target.key.Name, fmt.Errorf("it is bound to node %s", now))
		}
		if uid := binding.GetUID(); uid != "" && uid != pod.GetUID() {
			return nil, apierrors.NewConflict(target.kind.Resource.GroupResource(), target.key.Name, fmt.Errorf("it is another pod of this name"))
		}
		return pod, unstructured.SetNestedField(pod.Object, node, "spec", "nodeName")
	})
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}, err
}

func (s *server) delete(r *http.Request, target request) (map[string]any, error) {
	var options metav1.DeleteOptions
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		if len(body) > 0 {
			if err := json.Unmarshal(body, &options); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
	}
	current, ok := s.store.get(target.kind.Resource, target.key)
	if !ok {
		return nil, notFound(target)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != current.GetUID() {
		return nil, apierrors.NewConflict(target.kind.Resource.GroupResource(), target.key.Name, fmt.Errorf("it is another object of this name"))
	}
	last, ok := s.store.remove(target.kind.Resource, target.key)
	if !ok {
		return nil, notFound(target)
	}
	if target.kind.Kind == "Pod" {
		s.deleted(last)
	}
	return last.Object, nil
}

func notFound(target request) error {
	return apierrors.NewNotFound(target.kind.Resource.GroupResource(), target.key.Name)
}

func decode(body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &o.Object); err != nil {
		return nil, apierrors.NewBadRequest("this is no JSON object: " + err.Error())
	}
	return o, nil
}

func failed(r *http.Request, err error) *http.Response {
	status := apierrors.NewInternalError(err).Status()
	if known, ok := err.(apierrors.APIStatus); ok {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return respond(r, int(status.Code), status)
}

func echo(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return respond(r, http.StatusCreated, json.RawMessage(body)), nil
}

func respond(r *http.Request, status int, answer any) *http.Response {
	body, err := json.Marshal(answer)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(err.Error())
	}
	return response(r, status, io.NopCloser(bytes.NewReader(body)))
}

func response(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}
