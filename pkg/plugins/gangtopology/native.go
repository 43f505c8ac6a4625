// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package gangtopology

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/clusterview"
)

// wishesOf is what a group and its pods ask: a native group may say in its spec
// which domain it must be in.
func wishesOf(group *schedulingv1beta1.PodGroup, pods []*v1.Pod) (clusterview.Wishes, error) {
	if timeout, asked := group.Annotations[tutti.ScheduleTimeoutAnnotation]; asked {
		if n, err := strconv.Atoi(timeout); err != nil || n < 1 {
			return clusterview.Wishes{}, fmt.Errorf("annotation %s: %q is no number of seconds; want a whole number from 1 up", tutti.ScheduleTimeoutAnnotation, timeout)
		}
	}
	native := ""
	if c := group.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
		native = c.Topology[0].Key // the API allows one
	}
	return clusterview.WishesOf(group.Annotations, native, pods)
}
