// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// Wishes is what is asked of a gang's placement, whoever's words it was asked in:
// Tutti's annotations on the group, Kueue's on the group or its pods, or a native
// group's own constraint.
type Wishes map[string]wish // by Tutti's annotation

type wish struct {
	value string
	// in says where it was asked, for messages.
	in string
}

// kueueWords are Kueue's annotations that mean the same as Tutti's. It writes
// them on pods; the levels are node labels.
var kueueWords = map[string]string{
	tutti.KueueRequiredTopologyAnnotation:      tutti.RequiredTopologyAnnotation,
	tutti.KueuePreferredTopologyAnnotation:     tutti.PreferredTopologyAnnotation,
	tutti.KueueSliceRequiredTopologyAnnotation: tutti.SliceTopologyAnnotation,
	tutti.KueueSliceSizeAnnotation:             tutti.SliceSizeAnnotation,
}

// WishesOf collects them. native is the level of a native group's constraint,
// empty for none. A constraint is the whole gang's: pods that bear Kueue's
// annotations speak for those that do not. Who asks for two things at once, or
// for something unknown, gets an error that says so.
func WishesOf(annotations map[string]string, native string, pods []*v1.Pod) (Wishes, error) {
	w := Wishes{}
	if err := known(annotations); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, ownAnnotations) {
			w[key] = wish{annotations[key], "annotation " + key}
		}
	}
	if err := w.addKueue(annotations, ""); err != nil {
		return nil, err
	}
	if native != "" {
		if err := w.add(tutti.RequiredTopologyAnnotation, native, "spec.schedulingConstraints.topology"); err != nil {
			return nil, err
		}
	}
	for _, pod := range pods {
		if err := w.addKueue(pod.Annotations, " of pod "+pod.Name); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// addKueue reads the annotations of the group or of a pod.
func (w Wishes) addKueue(annotations map[string]string, of string) error {
	for key, value := range annotations {
		if !strings.HasPrefix(key, tutti.KueuePodSetPrefix) {
			continue
		}
		if own, same := kueueWords[key]; same {
			if err := w.add(own, value, "annotation "+key+of); err != nil {
				return err
			}
		} else if strings.Contains(key, "topology") && key != tutti.KueueUnconstrainedTopologyAnnotation || strings.Contains(key, "slice") {
			return fmt.Errorf("annotation %s%s is unknown; of Kueue's are known %s", key, of,
				strings.Join(append(slices.Sorted(maps.Keys(kueueWords)), tutti.KueueUnconstrainedTopologyAnnotation), ", "))
		}
	}
	return nil
}

func (w Wishes) add(own, value, in string) error {
	if other, asked := w[own]; asked && other.value != value {
		return fmt.Errorf("%s says %q and %s says %q: take one of them away", other.in, other.value, in, value)
	} else if !asked {
		w[own] = wish{value, in}
	}
	return nil
}

// of is the value asked under Tutti's annotation.
func (w Wishes) of(own string) (value string, asked bool) {
	wish, asked := w[own]
	return wish.value, asked
}

// in names where it was asked or, if it was not, where it can be.
func (w Wishes) in(own string) string {
	if wish, asked := w[own]; asked {
		return wish.in
	}
	return "annotation " + own
}
