// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/topology"
)

// Anonymize returns the snapshot with other names: of objects, namespaces,
// labels, images, devices. Equal names stay equal, and their order stays, since
// the planner goes by both. What stays as it is: the words of the APIs, amounts,
// times, resource names, and the label keys of Kubernetes, of vendors of
// devices, of Tutti and of the levels given.
func (s *Snapshot) Anonymize(levels []topology.Level) *Snapshot {
	a := anonymizer{names: map[string]string{}, keys: map[string]bool{}}
	for _, level := range levels {
		for _, label := range level.NodeLabels {
			a.keys[label] = true
		}
	}
	// Twice: once to learn all names, once to replace them by their rank.
	for _, o := range s.Objects {
		a.object(o.DeepCopy())
	}
	order := slices.SortedFunc(maps.Keys(a.names), topology.CompareNatural)
	for i, name := range order {
		a.names[name] = fmt.Sprintf("x%0*d", len(fmt.Sprint(len(order))), i)
	}
	a.known = true
	next := &Snapshot{Unread: s.Unread, Taken: s.Taken}
	for _, o := range s.Objects {
		renamed := o.DeepCopy()
		a.object(renamed)
		if o.GetKind() == "NodeTopology" {
			a.fingerprint(o, renamed, s.Of("Pod"))
		}
		next.Objects = append(next.Objects, renamed)
	}
	return next
}

type anonymizer struct {
	names map[string]string
	known bool            // names are final
	keys  map[string]bool // label keys that stay
}

// words are the fields whose values are the API's own, or say when and how much.
var words = map[string]bool{
	"apiVersion": true, "kind": true, "type": true, "status": true, "reason": true, "phase": true, "operator": true, "effect": true,
	"protocol": true, "restartPolicy": true, "dnsPolicy": true, "preemptionPolicy": true, "schedulerName": true, "qosClass": true,
	"volumeMode": true, "accessModes": true, "whenUnsatisfiable": true, "nodeAffinityPolicy": true, "nodeTaintsPolicy": true,
	"creationTimestamp": true, "deletionTimestamp": true, "resourceVersion": true, "volumeBindingMode": true, "reclaimPolicy": true,
	"persistentVolumeReclaimPolicy": true, "cleanPodPolicy": true, "successPolicy": true, "apiGroup": true, "architecture": true,
	"operatingSystem": true, "clusterIP": true, "managementState": true, "fsType": true,
}

// amounts are the maps from resource names to quantities.
var amounts = map[string]bool{"requests": true, "limits": true, "allocatable": true, "capacity": true, "minResources": true, "overhead": true, "hard": true, "used": true, "allocatedResources": true}

// selectors are the maps from label keys to label values.
var selectors = map[string]bool{"labels": true, "nodeSelector": true, "matchLabels": true, "selector": true, "annotations": true}

// plainLabels are labels whose values are no names.
var plainLabels = map[string]bool{"kubernetes.io/os": true, "kubernetes.io/arch": true, "training.kubeflow.org/replica-index": true, "training.kubeflow.org/replica-type": true, "training.kubeflow.org/job-role": true}

var plain = regexp.MustCompile(`^(|true|false|-?[0-9.]+([eE][0-9]+)?([munkKMGTPE]i?)?|[0-9]{4}-[0-9]{2}-[0-9]{2}T.*)$`)

// ownDomains end the domains of label keys that say nothing of a cluster.
var ownDomains = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "kubeflow.org", "tutti.dev", "nvidia.com", "amd.com", "intel.com", "run.ai"}

func (a *anonymizer) object(o *unstructured.Unstructured) {
	if o.GetKind() == "NodeTopology" {
		// The links are words; the devices' identities are names.
		a.nodeTopology(o.Object)
		return
	}
	a.walk("", o.Object)
}

// walk replaces the strings below a field.
func (a *anonymizer) walk(field string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		a.fields(field, v)
	case []any:
		for i := range v {
			v[i] = a.walk(field, v[i])
		}
	case string:
		return a.text(field, v)
	}
	return value
}

func (a *anonymizer) fields(field string, object map[string]any) {
	switch {
	case amounts[field]:
		return
	case selectors[field]:
		for key, value := range maps.Clone(object) {
			delete(object, key)
			if text, ok := value.(string); ok {
				value = a.label(field, key, text)
			} else {
				value = a.walk(key, value)
			}
			if value != nil {
				object[a.key(key)] = value
			}
		}
		return
	}
	delete(object, "message") // conditions quote names
	for key, value := range object {
		object[key] = a.walk(key, value)
	}
}

// label is the value of a label or annotation; annotations that are not ours go.
func (a *anonymizer) label(field, key, value string) any {
	if field == "annotations" {
		if !strings.HasPrefix(key, "tutti.dev/") {
			return nil
		}
		if strings.HasSuffix(key, "-topology") {
			return a.topologyKey(value)
		}
		return value
	}
	if plainLabels[key] || plain.MatchString(value) {
		return value
	}
	return a.name(value)
}

func (a *anonymizer) text(field, value string) string {
	switch {
	case words[field], plain.MatchString(value), strings.HasSuffix(field, "Time"):
		return value
	case field == "key", field == "topologyKey", field == "matchLabelKeys":
		return a.key(value)
	}
	return a.name(value)
}

// topologyKey is a level's name, which is no label key, or a label key.
func (a *anonymizer) topologyKey(value string) string {
	if !strings.Contains(value, "/") {
		return value
	}
	return a.key(value)
}

// key is a label key.
func (a *anonymizer) key(key string) string {
	domain, _, prefixed := strings.Cut(key, "/")
	known := a.keys[key] || key == "metadata.name"
	for _, own := range ownDomains {
		known = known || (prefixed && (domain == own || strings.HasSuffix(domain, "."+own)))
	}
	if known {
		return key
	}
	return a.name(key)
}

func (a *anonymizer) name(name string) string {
	if !a.known {
		a.names[name] = ""
		return name
	}
	return a.names[name]
}

func (a *anonymizer) nodeTopology(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		a.fields("metadata", metadata)
	}
	for _, part := range []string{"spec", "status"} {
		if fields, ok := object[part]; ok {
			a.identities(fields)
		}
	}
}

// identities replaces what tells one device or machine from another.
func (a *anonymizer) identities(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			text, isText := value.(string)
			list, isList := value.([]any)
			switch {
			case key == "message":
				delete(v, key)
			case isText && identity[key]:
				v[key] = a.name(text)
			case isList && identity[key]:
				for i, element := range list {
					if text, ok := element.(string); ok {
						list[i] = a.name(text)
					}
				}
				a.identities(list)
			default:
				a.identities(value)
			}
		}
	case []any:
		for _, element := range v {
			a.identities(element)
		}
	}
}

var identity = map[string]bool{"uuid": true, "clusterUUID": true, "namespace": true, "pod": true, "free": true, "gpus": true}

// fingerprint makes the object's fingerprint that of the same pods by their new
// names. One that fits no pods of the node stays, and fits none.
func (a *anonymizer) fingerprint(object, renamed *unstructured.Unstructured, pods []*unstructured.Unstructured) {
	print, _, _ := unstructured.NestedString(object.Object, "status", "fingerprint")
	var holders []*unstructured.Unstructured
	for _, pod := range pods {
		if NodeOf(pod) == object.GetName() && holdsGPUs(pod) {
			holders = append(holders, pod)
		}
	}
	started := func(pod *unstructured.Unstructured) string {
		at, _, _ := unstructured.NestedString(pod.Object, "status", "startTime")
		return at
	}
	slices.SortFunc(holders, func(a, b *unstructured.Unstructured) int { return strings.Compare(started(b), started(a)) })
	var old, own []string
	for _, pod := range holders {
		old = append(old, pod.GetNamespace()+"/"+pod.GetName())
		own = append(own, a.name(pod.GetNamespace())+"/"+a.name(pod.GetName()))
	}
	for newer := range len(holders) + 1 {
		if v1alpha1.FingerprintOf(old[newer:]) == print {
			_ = unstructured.SetNestedField(renamed.Object, v1alpha1.FingerprintOf(own[newer:]), "status", "fingerprint")
			return
		}
	}
}

func holdsGPUs(pod *unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, container := range containers {
		for _, field := range []string{"requests", "limits"} {
			amounts, _ := at(container, "resources", field)
			resources, _ := amounts.(map[string]any)
			for name := range resources {
				if strings.HasPrefix(name, "nvidia.com/") {
					return true
				}
			}
		}
	}
	return false
}
