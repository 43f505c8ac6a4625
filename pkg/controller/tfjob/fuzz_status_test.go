// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// statuses are what a job may have been left with: by this controller, in all stages, and by training-operator.
var statuses = []string{
	`{}`,
	`{"conditions":[{"type":"Created","status":"True","reason":"TFJobCreated"}],"replicaStatuses":{"Worker":null,"PS":{}},"startTime":"2026-03-01T11:00:00Z"}`,
	`{"state":"Running","conditions":[{"type":"Created","status":"True"},{"type":"Running","status":"True","lastTransitionTime":"2026-03-01T11:00:00Z"}],
	  "replicaStatuses":{"Worker":{"active":1,"succeeded":1,"succeededIndexes":"0,2-9999999","restarts":[
	    {"index":1,"attempt":2147483647,"faults":2147483647,"containerRestarts":3,"inARow":2147483647,"lastFailureTime":"2026-03-01T11:59:00Z"},{"index":-1,"attempt":-5,"inARow":-3}]}},
	  "startTime":"2026-03-01T11:00:00Z"}`,
	`{"conditions":[{"type":"Suspended","status":"True"},{"type":"Restarting","status":"True"},{"type":"Running","status":"True"}],"lastReconcileTime":"2026-03-01T11:00:00Z"}`,
	`{"conditions":[{"type":"Succeeded","status":"True"},{"type":"Failed","status":"True"}],"replicaStatuses":{"Worker":null,"worker":{"active":-1},"X":{}}}`,
	`{"conditions":[{"type":"Failed","status":"True","reason":"TFJobFailed"}],"completionTime":"2026-03-01T11:00:00Z","replicaStatuses":{"PS":null}}`,
}

// FuzzStoredStatus: whatever a job's status says, the controller does not panic and comes to rest, and what ends has a time of its end.
func FuzzStoredStatus(f *testing.F) {
	for seed := range uint64(seedsPerDocument) {
		for _, status := range statuses {
			f.Add(seed, []byte(status))
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, document []byte) {
		var tree map[string]any
		if utiljson.Unmarshal(document, &tree) != nil || tree == nil {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		for range min(seed, uint64(rng.IntN(5))) {
			change1(rng, tree)
		}
		changed, err := json.Marshal(tree)
		if err != nil {
			return
		}
		policies := []kubeflowv1.CleanPodPolicy{kubeflowv1.CleanPodPolicyAll, kubeflowv1.CleanPodPolicyRunning, kubeflowv1.CleanPodPolicyNone}
		job := makeJob(replicas(ps, 1), replicas(worker, 3, kubeflowv1.RestartPolicyExitCode), cleaning(policies[seed%3]), limit(int32(seed%4)))
		if utiljson.Unmarshal(changed, &job.Status) != nil {
			return // no API server would store it
		}
		what := fmt.Sprintf("policy %s, limit %d, status %s", policies[seed%3], seed%4, changed)
		w := newWorldOf(t, anyKind(seed))
		w.put(resJobs, job)
		if !w.rests() {
			t.Fatalf("no rest; conditions %v, last writes %v; %s", describe(w.job().Status), last10(w.writes), what)
		}
		status := w.job().Status
		if isFinished(&status) && status.CompletionTime == nil {
			t.Errorf("finished at no time; %s", what)
		}
		if findCondition(&status, kubeflowv1.JobCreated) == nil && !isFinished(&status) {
			t.Errorf("never created; %s", what)
		}
	})
}
