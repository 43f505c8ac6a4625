// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// rejections are the kubelet's reasons for pods that it does not admit because
// the node is otherwise than the scheduler took it to be; and OutOf<resource>.
var rejections = []string{"UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError", "NodePorts", "NodeAffinity"}

// Rejected tells whether the kubelet did not admit a pod that was bound to it.
func Rejected(pod *v1.Pod) bool {
	reason := pod.Status.Reason
	return pod.Status.Phase == v1.PodFailed && (slices.Contains(rejections, reason) || strings.HasPrefix(reason, "OutOf"))
}

// Overcommitted names the first resource of which the pods ask for more than the
// node has to give, or none. Mirrors of static pods, which no scheduler places,
// are counted too.
func Overcommitted(node *v1.Node, pods []*v1.Pod) string {
	asked := map[string]int64{}
	for _, pod := range pods {
		for name, n := range RequestOf(pod) {
			asked[name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		has := node.Status.Allocatable[v1.ResourceName(name)]
		if asked[name] > valueOf(name, has) {
			return name
		}
	}
	return ""
}
