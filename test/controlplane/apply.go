// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var getOptions = metav1.GetOptions{}

// Objects reads the objects of a YAML or JSON stream.
func Objects(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// ObjectsFromFile reads the objects of a file.
func ObjectsFromFile(path string) ([]*unstructured.Unstructured, error) {
	manifest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objects, err := Objects(manifest)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return objects, nil
}

// Apply writes objects by server-side apply, as `kubectl apply --server-side`
// would. Objects that name no namespace go into the one given.
func (c *ControlPlane) Apply(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		resource, err := c.resource(object, namespace)
		if err != nil {
			return err
		}
		options := metav1.ApplyOptions{FieldManager: "tutti-test", Force: true}
		if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Delete deletes an object and what it owns in the background.
func (c *ControlPlane) Delete(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	resource, err := c.resource(object, namespace)
	if err != nil {
		return err
	}
	return resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// resource is the client for an object's kind and namespace.
func (c *ControlPlane) resource(object *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // perhaps its definition is new
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	if own := object.GetNamespace(); own != "" {
		namespace = own
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// Store creates an object or replaces the one of its name, with strict field
// validation, as kubectl create and replace would. Objects that name no
// namespace go into the one given.
func (c *ControlPlane) Store(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	resource, err := c.resource(object, namespace)
	if err != nil {
		return err
	}
	stored, err := resource.Get(ctx, object.GetName(), getOptions)
	if apierrors.IsNotFound(err) {
		_, err = resource.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	if err != nil {
		return err
	}
	object.SetResourceVersion(stored.GetResourceVersion())
	_, err = resource.Update(ctx, object, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}
