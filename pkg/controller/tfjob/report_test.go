// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tfjobfake "github.com/tutti-project/tutti/pkg/generated/clientset/versioned/fake"
)

// The definition of TFJobs that another program has installed drops fields of the status. That is said once, and costs no loop.
func TestADefinitionThatDropsFieldsIsToldOfOnce(t *testing.T) {
	w := newWorld(t)
	w.clients.TFJobs.(*tfjobfake.Clientset).PrependReactor("update", resJobs, func(a clienttesting.Action) (bool, runtime.Object, error) {
		job := a.(clienttesting.UpdateAction).GetObject().(*kubeflowv1.TFJob).DeepCopy()
		job.Status.State = ""
		for _, rs := range job.Status.ReplicaStatuses {
			rs.SucceededIndexes, rs.Restarts = "", nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if old := w.job(); statusLines(old.Status) != statusLines(job.Status) {
			w.put(resJobs, job) // an API server writes nothing where nothing changes
		}
		return true, job.DeepCopy(), nil
	})
	w.put(resJobs, makeJob(replicas(worker, 2)))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for range 6 {
		w.deliverAll()
		if _, err := w.controller.reconcile(klog.NewContext(t.Context(), logger), types.NamespacedName{Namespace: "n", Name: "j"}); err != nil {
			t.Fatal(err)
		}
	}
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if n := strings.Count(logged, "CustomResourceDefinition is another program's"); n != 1 {
		t.Errorf("told %d times:\n%s", n, logged)
	}
	version := w.version
	w.look()
	if w.version != version || len(w.podNames()) != 2 {
		t.Errorf("it does not rest: version %d and then %d, pods %v", version, w.version, w.podNames())
	}
}
