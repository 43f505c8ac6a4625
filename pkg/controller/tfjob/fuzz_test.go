// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package tfjob

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// seedsPerDocument is how many changed versions of every document the normal test run tries.
const seedsPerDocument = 25

// FuzzStoredJob gives the controller jobs as an API server would store that has only a schema of types: documents good and bad,
// with random changes. The controller must not panic, and must come to rest: the job runs, is over, is suspended, or says in a
// condition why it cannot be run.
func FuzzStoredJob(f *testing.F) {
	documents := seedDocuments(f)
	for seed := range uint64(seedsPerDocument) {
		for _, document := range documents {
			f.Add(seed, document)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, document []byte) {
		job := storedJob(seed, document)
		if job == nil {
			return // no API server would store it
		}
		w := newWorldOf(t, anyKind(seed))
		w.put(resJobs, job)
		if !w.rests() {
			t.Fatalf("no rest; conditions %v, last writes %v, job:\n%s", describe(w.job().Status), last10(w.writes), text(t, job))
		}
		if isManagedElsewhere(job) {
			return
		}
		checkRest(t, w, job)
	})
}

// seedDocuments are the cases of the API's own tests, refused ones included, and the samples.
func seedDocuments(f *testing.F) [][]byte {
	var documents [][]byte
	for _, pattern := range []string{
		"../../apis/kubeflow/v1/testdata/*/*.yaml", "../../apis/kubeflow/v1/testdata/validation/*/*.yaml", "../../../manifests/samples/*.yaml",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.Contains(file, "exponent") {
				continue // the schema keeps these out, since no client could decode them in its lifetime
			}
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for document := range strings.SplitSeq(string(data), "\n---\n") {
				if asJSON, err := yaml.YAMLToJSON([]byte(document)); err == nil && strings.Contains(document, "TFJob") {
					documents = append(documents, asJSON)
				}
			}
		}
	}
	return documents
}

// storedJob is a changed document as the controller's client decodes it, or nil if it has a value of the wrong type.
func storedJob(seed uint64, document []byte) *kubeflowv1.TFJob {
	var tree map[string]any
	if utiljson.Unmarshal(document, &tree) != nil || tree == nil {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for range min(seed, uint64(rng.IntN(5))) { // the first version of a document is the document
		change1(rng, tree)
	}
	changed, err := json.Marshal(tree)
	if err != nil {
		return nil
	}
	job := &kubeflowv1.TFJob{}
	if utiljson.Unmarshal(changed, job) != nil {
		return nil
	}
	job.TypeMeta, job.Status = kubeflowv1.TFJob{}.TypeMeta, kubeflowv1.JobStatus{}
	fresh := makeJob()
	fresh.Annotations, fresh.Spec = job.Annotations, job.Spec
	for _, spec := range fresh.Spec.TFReplicaSpecs {
		// Hundreds of pods show nothing that a few do not.
		if spec != nil && spec.Replicas != nil && *spec.Replicas > 20 && *spec.Replicas < maxReplicas {
			*spec.Replicas = 20
		}
	}
	for _, spec := range fresh.Spec.ReplicaSpecs {
		if spec.Replicas != nil && *spec.Replicas > 20 && *spec.Replicas < maxReplicas {
			*spec.Replicas = 20
		}
	}
	return fresh
}

// Values that a field may be given. What is of the wrong type for it is sorted out by decoding.
var (
	words = []any{"", "x", "Never", "ExitCode", "none", "PS", "worker", "tensorflow", "tfjob-port", "-", "a/b", "é", "A B", "$(X)",
		strings.Repeat("long", 80), "0", nil}
	numbers = []any{int64(-1), int64(0), int64(1), int64(2), int64(11), int64(2222), int64(65536), int64(1<<31 - 1), int64(-1 << 31), nil}
	keys    = []string{"Worker", "worker", "WORKER", "Chief", "Master", "PS", "Evaluator", "Workers", "", "runPolicy", "cleanPodPolicy", "replicas",
		"restartPolicy", "suspend", "template", "spec", "containers", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds",
		"schedulingPolicy", "minAvailable", "managedBy", "successPolicy", "enableDynamicWorker", "replicaSpecs", "ports", "name"}
)

// change1 changes one random place of a document.
func change1(rng *rand.Rand, tree any) any {
	descend := rng.IntN(4) > 0
	switch node := tree.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(node))
		if len(names) == 0 || rng.IntN(8) == 0 {
			node[keys[rng.IntN(len(keys))]] = any1(rng, node)
			return node
		}
		name := names[rng.IntN(len(names))]
		switch {
		case descend:
			node[name] = change1(rng, node[name])
		case rng.IntN(2) == 0:
			delete(node, name)
		default:
			node[keys[rng.IntN(len(keys))]] = node[name]
		}
		return node
	case []any:
		switch {
		case len(node) == 0:
			return []any{any1(rng, node)}
		case descend:
			i := rng.IntN(len(node))
			node[i] = change1(rng, node[i])
			return node
		case rng.IntN(2) == 0:
			return node[1:]
		}
		return append(node, node[0])
	case string:
		return words[rng.IntN(len(words))]
	case bool:
		return !node
	}
	return any1(rng, tree)
}

func any1(rng *rand.Rand, node any) any {
	switch rng.IntN(6) {
	case 0:
		return map[string]any{}
	case 1:
		return []any{}
	case 2:
		return rng.IntN(2) == 0
	case 3:
		return words[rng.IntN(len(words))]
	case 4:
		return node // within itself, once
	}
	return numbers[rng.IntN(len(numbers))]
}

// rests runs controller and kubelet until the controller has nothing to do any more and no timer that it waits for.
func (w *world) rests() bool {
	quiet := 0
	for range 200 {
		before, writes := w.version, len(w.writes)
		w.deliverAll()
		err := w.reconcile()
		w.obey()
		if w.objects[resJobs]["j"] == nil {
			return true
		}
		quiet++
		if err != nil || before != w.version || writes != len(w.writes) || !w.caughtUp() {
			quiet = 0
		}
		if quiet == 3 {
			return true
		}
		w.clock = w.clock.Add(w.after)
	}
	return false
}

// obey is a kubelet whose pods run once and succeed, also when they are told to go. Under Always they do it only then.
func (w *world) obey() {
	for _, name := range w.podNames() {
		pod := w.objects[resPods][name].(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodRunning:
			w.setPhase(name, corev1.PodSucceeded, endedAt(0, w.clock))
		case pod.DeletionTimestamp != nil:
			w.remove(resPods, name)
		case pod.Status.Phase == corev1.PodPending:
			w.setPhase(name, corev1.PodRunning)
		case pod.Status.Phase == corev1.PodRunning && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways:
			w.setPhase(name, corev1.PodSucceeded, exited(0))
		}
	}
}

// checkRest: what has come to rest says what it is.
func checkRest(t *testing.T, w *world, job *kubeflowv1.TFJob) {
	t.Helper()
	if w.objects[resJobs]["j"] == nil {
		return // its time to live is over
	}
	status := w.job().Status
	failure := findCondition(&status, kubeflowv1.JobFailed)
	switch {
	case findCondition(&status, kubeflowv1.JobCreated) == nil:
		t.Errorf("never created: %s", text(t, job))
	case isFinished(&status) && status.CompletionTime == nil:
		t.Errorf("finished at no time: %s", text(t, job))
	case failure != nil && failure.Message == "":
		t.Errorf("failed and does not say why: %s", text(t, job))
	case isFinished(&status), isTrue(&status, kubeflowv1.JobSuspended):
	case w.job().Status.StartTime != nil && totalReplicas(rolesOf(w.job())) == 0: // it does nothing, as it was told
	case len(w.objects[resPods]) == 0:
		t.Errorf("nothing runs and nothing says why; conditions %v: %s", describe(status), text(t, job))
	}
}

func rolesOf(job *kubeflowv1.TFJob) []role {
	job, _ = canonical(job)
	return rolesFrom(job)
}

func text(t *testing.T, job *kubeflowv1.TFJob) string {
	t.Helper()
	data, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func last10(all []string) []string { return all[max(0, len(all)-10):] }
