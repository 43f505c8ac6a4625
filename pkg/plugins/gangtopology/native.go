// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"maps"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
)

// wishesOf is what a group asks, as annotations: a native group may say in its
// spec which domain it must be in.
func wishesOf(group *schedulingv1beta1.PodGroup) (map[string]string, error) {
	if group.Spec.SchedulingConstraints == nil || len(group.Spec.SchedulingConstraints.Topology) == 0 {
		return group.Annotations, nil
	}
	key := group.Spec.SchedulingConstraints.Topology[0].Key // the API allows one
	if other, asked := group.Annotations[tutti.RequiredTopologyAnnotation]; asked && other != key {
		return nil, fmt.Errorf("annotation %s is %q, and spec.schedulingConstraints.topology says %q: take one of them away",
			tutti.RequiredTopologyAnnotation, other, key)
	}
	wishes := maps.Clone(group.Annotations)
	if wishes == nil {
		wishes = map[string]string{}
	}
	wishes[tutti.RequiredTopologyAnnotation] = key
	return wishes, nil
}
