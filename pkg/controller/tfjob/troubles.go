// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tellTroubles says why pods do not get on: images that cannot be pulled, volumes that are missing, containers that crash again and
// again. A job is told each reason once; that a gang waits for room is told on its PodGroup.
func (c *Controller) tellTroubles(v *view) {
	for _, pod := range staying(sorted(v.pods)) {
		if reason, message := troubleOf(pod); reason != "" && c.ledger.tell(v.job.UID, reason) {
			c.send(v.stored, podInTrouble(pod, reason, message))
		}
	}
}

// waitingIsNormal are the reasons of containers that wait for their turn.
var waitingIsNormal = []string{"", "ContainerCreating", "PodInitializing"}

func troubleOf(pod *corev1.Pod) (reason, message string) {
	if hasEnded(pod) {
		return "", ""
	}
	for _, s := range containerStatuses(pod) {
		if w := s.State.Waiting; w != nil && !slices.Contains(waitingIsNormal, w.Reason) {
			return w.Reason, fmt.Sprintf("container %s: %s", s.Name, w.Message)
		}
	}
	return "", ""
}
