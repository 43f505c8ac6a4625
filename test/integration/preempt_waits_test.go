// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
)

// TestGangSaysThatItWaitsForPodsThatGoAnyway: nobody is evicted for it, and its
// verdict does not say so.
func TestGangSaysThatItWaitsForPodsThatGoAnyway(t *testing.T) {
	s := newScene(t, shared)
	there := map[string]string{corev1.LabelHostname: "n001"}
	leaves := single("leaves", "", 8)
	leaves.Spec.NodeSelector = there
	leaves.Annotations = map[string]string{"demo.tutti.dev/stop-after": "5s"}
	must(t, s.createPod(t.Context(), leaves))
	pods := s.plane.Client.CoreV1().Pods(s.namespace)
	s.eventually(t.Context(), "a pod runs", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "leaves", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	must(t, pods.Delete(t.Context(), "leaves", metav1.DeleteOptions{}))
	next := job("next", workers(1, 8))
	for _, r := range next.Spec.TFReplicaSpecs {
		r.Template.Spec.NodeSelector = there
	}
	must(t, s.createJob(t.Context(), next))
	s.eventually(t.Context(), "the next one waits for it", s.condition("next", metav1.ConditionFalse, tuttiapi.PreemptingReason,
		"waiting in host n001", "until pods that are being deleted there are gone"))
	s.eventually(t.Context(), "then it starts", s.bound("next", 1))
}
