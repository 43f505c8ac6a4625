// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/whatif"
)

// plannedRounds is how many random jobs are planned and then created.
const plannedRounds = 12

// kubectl runs kubectl tutti in the scene's namespace and returns what it
// prints, on both streams together if that is all that is looked at.
func (s *scene) kubectl(args ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join("..", "..", "bin", "kubectl-tutti"),
		append(args, "--kubeconfig", s.plane.Kubeconfig, "-n", s.namespace)...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

func (s *scene) says(want []string, args ...string) {
	s.t.Helper()
	stdout, stderr, err := s.kubectl(args...)
	if err != nil {
		s.t.Fatalf("kubectl tutti %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stdout, text) {
			s.t.Errorf("kubectl tutti %s says\n%s\nwant %q", strings.Join(args, " "), stdout, text)
		}
	}
}

func (s *scene) manifest(job *kubeflowv1.TFJob) string {
	s.t.Helper()
	job = job.DeepCopy()
	job.APIVersion, job.Kind = kubeflowv1.SchemeGroupVersion.String(), kubeflowv1.TFJobKind
	data, err := yaml.Marshal(job)
	must(s.t, err)
	path := filepath.Join(s.t.TempDir(), "job.yaml")
	must(s.t, os.WriteFile(path, data, 0o600))
	return path
}

// TestPlanIsWhatTheSchedulerThenDoes: jobs of random sizes and wishes are
// planned, then created, on a cluster that fills.
func TestPlanIsWhatTheSchedulerThenDoes(t *testing.T) {
	s := newScene(t, shared)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range plannedRounds {
		j := job(fmt.Sprintf("j%d", i), workers(int32(1+random.IntN(12)), int64(1+random.IntN(8))))
		j = annotated(j, tuttiapi.ServicesAnnotation, tuttiapi.ServicesPerJob)
		if random.IntN(2) == 0 {
			j = annotated(j, tuttiapi.RequiredTopologyAnnotation, "rack")
		}
		stdout, stderr, err := s.kubectl("plan", "-f", s.manifest(j), "-o", "json")
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		var outcomes []whatif.Outcome
		if err := json.Unmarshal([]byte(stdout), &outcomes); err != nil || len(outcomes) != 1 {
			t.Fatalf("%v in %s", err, stdout)
		}
		plan := outcomes[0]
		must(t, s.createJob(t.Context(), j))
		if !plan.Placed {
			s.eventually(t.Context(), j.Name+" is refused as planned: "+plan.Message, s.refused(j.Name, len(plan.Pods), plan.Message))
			continue
		}
		s.eventually(t.Context(), j.Name+" is bound as planned", s.bound(j.Name, len(plan.Pods)))
		pods, err := s.plane.Pods(t.Context(), s.namespace, j.Name)
		must(t, err)
		planned, is := map[string]string{}, map[string]string{}
		for _, pod := range plan.Pods {
			planned[pod.Name] = pod.Node
		}
		for _, pod := range pods {
			is[pod.Name] = pod.Spec.NodeName
		}
		if !maps.Equal(planned, is) {
			t.Errorf("round %d: planned %v, is %v", i, planned, is)
		}
	}
}

func TestKubectlTuttiExplainsAWaitingJob(t *testing.T) {
	s := newScene(t, shared)
	large := annotated(job("large", workers(20, 8)), tuttiapi.RequiredTopologyAnnotation, "rack")
	must(t, s.createJob(t.Context(), large))
	s.eventually(t.Context(), "large is refused", s.refused("large", 20))
	s.says([]string{"tfjob " + s.namespace + "/large waits", "because", "without tutti.dev/required-topology it would start"}, "why", "large")
	s.says([]string{"podgroup " + s.namespace + "/large waits"}, "why", "podgroup/large")
	s.says([]string{"pod " + s.namespace + "/large-worker-0 waits"}, "why", "pod", "large-worker-0")
	s.says([]string{"the cluster", "rack", "LARGEST GANG OF 1-GPU PODS"}, "top")

	file := filepath.Join(t.TempDir(), "cluster.yaml")
	s.says(nil, "snapshot", "-f", file)
	verdict, err := s.plane.Verdict(t.Context(), s.namespace, "large")
	must(t, err)
	s.says([]string{"wait", verdict.Message}, "replay", file)
	s.says([]string{"without tutti.dev/required-topology it would start"}, "why", "large", "--from", file)
	anonymous := filepath.Join(t.TempDir(), "anonymous.yaml")
	s.says(nil, "snapshot", "--anonymize", "-f", anonymous)
	data, err := os.ReadFile(anonymous)
	must(t, err)
	for _, name := range []string{s.namespace, "large", "n001"} {
		if bytes.Contains(data, []byte(name)) {
			t.Errorf("the anonymous snapshot holds %q", name)
		}
	}
	s.says([]string{"wait"}, "replay", anonymous)
}

// TestKubectlTuttiTellsFailureFromWaiting: of jobs that fail, and of what a suspended one would do.
func TestKubectlTuttiTellsFailureFromWaiting(t *testing.T) {
	s := newScene(t, shared)
	where := "tfjob " + s.namespace + "/"
	invalid := job("invalid", workers(0, 1))
	s.says([]string{where + "invalid would fail: ", "nothing would ever run"}, "plan", "-f", s.manifest(invalid))
	must(t, s.createJob(t.Context(), invalid))
	s.eventually(t.Context(), "it fails", s.state("invalid", kubeflowv1.JobFailed))
	s.says([]string{where + "invalid has failed", "nothing would ever run"}, "why", "invalid")

	small, large := job("small", workers(2, 8)), job("large", workers(100, 8))
	for _, j := range []*kubeflowv1.TFJob{small, large, invalid} {
		j.Spec.RunPolicy.Suspend = new(true)
	}
	s.says([]string{where + "small is suspended; resumed now, it would start: placed 2 pods", "NODE", "small-worker-1"}, "plan", "-f", s.manifest(small))
	s.says([]string{where + "large is suspended; resumed now, it would wait: "}, "plan", "-f", s.manifest(large))
	s.says([]string{where + "invalid would fail: "}, "plan", "-f", s.manifest(invalid))

	// As kubectl get prints several.
	items := []string{}
	for _, path := range []string{s.manifest(large), s.manifest(invalid)} {
		data, err := os.ReadFile(path)
		must(t, err)
		item, err := yaml.YAMLToJSON(data)
		must(t, err)
		items = append(items, string(item))
	}
	list := filepath.Join(t.TempDir(), "list.json")
	must(t, os.WriteFile(list, []byte(`{"apiVersion":"v1","kind":"List","items":[`+strings.Join(items, ",")+`]}`), 0o600))
	s.says([]string{where + "large is suspended", where + "invalid would fail"}, "plan", "-f", list)
}

// TestKubectlTuttiIsSilentAboutWhatDoesNotMatter: where no configuration is deployed the built-in one is taken, and nodes carry its levels.
func TestKubectlTuttiIsSilentAboutWhatDoesNotMatter(t *testing.T) {
	s := newScene(t, shared)
	if _, stderr, err := s.kubectl("top"); err != nil || stderr != "" {
		t.Errorf("%v: %q, want no word beside the table", err, stderr)
	}
	// Who may list little is told what is missing, and not that this cluster, as most, has no PodGroups of its own.
	roles := s.plane.Client.RbacV1()
	_, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.namespace},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: s.namespace}},
	}, metav1.CreateOptions{})
	must(t, err)
	if _, stderr, err := s.kubectl("top", "--as", s.namespace); err != nil || !strings.Contains(stderr, "PodGroup, NodeTopology") {
		t.Errorf("%v: %q, want a note of the CRD's PodGroups alone", err, stderr)
	}
}

func TestKubectlTuttiOnWrongInput(t *testing.T) {
	s := newScene(t, shared)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"why"}, "give one name"},
		{[]string{"why", "nobody"}, "there is no TFJob, PodGroup or Pod nobody in namespace " + s.namespace},
		{[]string{"why", "deployment/x"}, `"deployment" is no kind that is scheduled here`},
		{[]string{"plan"}, "give the manifests to plan with -f FILE"},
		{[]string{"plan", "-f", "/no/such/file"}, "no such file"},
		{[]string{"top", "--level", "row"}, "the levels that nodes of this cluster carry are"},
		{[]string{"replay", "main_test.go"}, "this is no snapshot"},
		{[]string{"top", "-o", "xml"}, "want json or yaml"},
		{[]string{"top", "--resource", "amd.com/gpu"}, "no node has amd.com/gpu; what nodes have is cpu, memory, nvidia.com/gpu, pods"},
		{[]string{"top", "here"}, `takes flags alone, and was given "here"; see kubectl tutti top --help`},
		{[]string{"top", "--racks"}, "unknown flag: --racks; see kubectl tutti top --help"},
		{[]string{"snapshto"}, `there is no command "snapshto"; did you mean snapshot?; kubectl tutti --help lists them`},
		{[]string{"describe"}, `there is no command "describe"; kubectl tutti --help lists them`},
		{[]string{"ui", "--address", "here"}, "want an IP address"},
		{[]string{"ui", "--address", "0.0.0.0"}, "is not a loopback address: name with --accept-host"},
		{[]string{"ui", "--snapshot", "main_test.go"}, "this is no snapshot"},
		{[]string{"ui", "-f", "/no/such/file"}, "no such file"},
	} {
		_, stderr, err := s.kubectl(tc.args...)
		if err == nil || !strings.Contains(stderr, tc.want) {
			t.Errorf("kubectl tutti %s: %v, says %q, want %q", strings.Join(tc.args, " "), err, stderr, tc.want)
		}
	}
	bad := job("Bad_Name", workers(1, 1))
	if _, stderr, err := s.kubectl("plan", "-f", s.manifest(bad)); err == nil || !strings.Contains(stderr, "the API server refuses TFJob Bad_Name") {
		t.Errorf("%v: %s", err, stderr)
	}
}
