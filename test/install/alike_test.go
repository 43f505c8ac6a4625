// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// alike finds names that differ between the ways to install: kustomize's of the
// ConfigMap ends in a hash, and images are called as the user says.
var alike = regexp.MustCompile(`(?:registry\.example/tutti/)?(tutti-scheduler-config|tutti-scheduler|tutti-controller)(?:-[a-z0-9]{10}\b|:dev\b|:v1\b)`)

// ownMarks are what each way, and the API server, leaves on an object.
var ownMarks = [][]string{
	{"status"},
	{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
	{"metadata", "labels", "app.kubernetes.io/managed-by"}, {"metadata", "labels", "helm.sh/chart"},
	{"metadata", "annotations", "helm.sh/resource-policy"},
	{"metadata", "annotations", "meta.helm.sh/release-name"}, {"metadata", "annotations", "meta.helm.sh/release-namespace"},
	{"spec", "template", "metadata", "annotations", "checksum/config"},
	{"spec", "clusterIP"}, {"spec", "clusterIPs"},
}

// bare is the object without them, and without maps that they leave empty.
func bare(o *unstructured.Unstructured) map[string]any {
	if o.GetKind() == "Namespace" { // Helm's has labels of its own
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", "name")
		unstructured.RemoveNestedField(o.Object, "metadata", "labels", "app.kubernetes.io/part-of")
	}
	for _, path := range ownMarks {
		unstructured.RemoveNestedField(o.Object, path...)
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}, {"spec", "template", "metadata", "annotations"}} {
		if entries, ok, _ := unstructured.NestedMap(o.Object, path...); ok && len(entries) == 0 {
			unstructured.RemoveNestedField(o.Object, path...)
		}
	}
	return o.Object
}
