// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package rights tests who may do what: controller and scheduler, which run as
// their service accounts, and those who read their metrics.
//
// The tests share one control plane. Its API server keeps an audit log of what
// the two ask, and checks that whoever blocks an owner's deletion may
// do so, which a stock server leaves out.
package rights

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podgroups "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/test/controlplane"
)

const (
	patience   = 30 * time.Second
	controller = "tutti-controller"
	scheduler  = "tutti-scheduler"
	accounts   = "system:serviceaccount:" + controlplane.Namespace + ":"
	policy     = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + accounts + controller + `", "` + accounts + scheduler + `"]
- level: None
`
)

// stage is what the tests share.
var stage struct {
	*controlplane.ControlPlane
	jobs    tutti.Interface
	groups  podgroups.Interface
	audit   string // the file
	metrics string // the URL of the controller's
	// schedulerMetrics is that of the scheduler's.
	schedulerMetrics string
}

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, "tutti-rights-", start))
}

func start(ctx context.Context, dir string) (*controlplane.ControlPlane, error) {
	rules := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
		return nil, err
	}
	stage.audit = filepath.Join(dir, "audit.log")
	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, APIServerArgs: []string{
		"--audit-policy-file=" + rules,
		"--audit-log-path=" + stage.audit,
		"--audit-log-mode=blocking",
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	}})
	if err != nil {
		return nil, err
	}
	stage.ControlPlane = plane
	steps := []func() error{
		func() (err error) { stage.jobs, err = tutti.NewForConfig(plane.Config); return err },
		func() (err error) { stage.groups, err = podgroups.NewForConfig(plane.Config); return err },
		func() error {
			return plane.CreateNodes(ctx, controlplane.Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: 2, GPUsPerNode: 8})
		},
		func() error { return startController(ctx, plane) },
		func() error { return startScheduler(ctx, plane) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			plane.Stop()
			return nil, err
		}
	}
	return plane, nil
}

// startController returns when the controller serves metrics. Its caches are
// filled by lists, as on API servers that cannot stream them.
func startController(ctx context.Context, plane *controlplane.ControlPlane) error {
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	stage.metrics = "https://" + address + "/metrics"
	if _, err := plane.StartController("--metrics-bind-address="+address, "--force-delete-lost-pods-after=1s"); err != nil {
		return err
	}
	return plane.Eventually(ctx, patience, func(context.Context) error {
		_, _, err := get(stage.metrics, "")
		return err
	})
}

// startScheduler returns when the scheduler serves metrics. Its caches too are
// filled by lists.
func startScheduler(ctx context.Context, plane *controlplane.ControlPlane) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	stage.schedulerMetrics = "https://" + address + "/metrics"
	if _, err := plane.StartScheduler("--bind-address="+host, "--secure-port="+port, "--feature-gates=WatchListClient=false"); err != nil {
		return err
	}
	return plane.Eventually(ctx, patience, func(context.Context) error {
		_, _, err := get(stage.schedulerMetrics, "")
		return err
	})
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// get reads a page as the owner of a token, or as nobody.
func get(url, token string) (code int, page string, err error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The controller signs its own certificate.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace, err := stage.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the namespace has its service account", func(ctx context.Context) error {
		_, err := stage.Client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// newJob has one worker, which needs no scheduler and ends as its annotations
// say.
func newJob(name string, annotations map[string]string) *kubeflowv1.TFJob {
	return &kubeflowv1.TFJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: kubeflowv1.TFJobSpec{TFReplicaSpecs: map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaSpec{
			kubeflowv1.TFJobReplicaTypeWorker: {
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
					Spec: corev1.PodSpec{
						NodeName:   "n001",
						Containers: []corev1.Container{{Name: "tensorflow", Image: "example.com/train:1"}},
					},
				},
			},
		}},
	}
}

func create(t *testing.T, namespace string, job *kubeflowv1.TFJob) {
	t.Helper()
	_, err := stage.jobs.KubeflowV1().TFJobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	must(t, err)
}

// edit changes a job however often the controller changes it at the same time.
func edit(t *testing.T, namespace, name string, change func(*kubeflowv1.TFJob)) {
	t.Helper()
	eventually(t, "the job is changed", func(ctx context.Context) error {
		job, err := stage.jobs.KubeflowV1().TFJobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(job)
		_, err = stage.jobs.KubeflowV1().TFJobs(namespace).Update(ctx, job, metav1.UpdateOptions{})
		return err
	})
}

func inState(namespace, name string, want kubeflowv1.JobConditionType) func(context.Context) error {
	return func(ctx context.Context) error {
		job, err := stage.jobs.KubeflowV1().TFJobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && job.Status.State != want {
			err = fmt.Errorf("job %s is %s, want %s", name, job.Status.State, want)
		}
		return err
	}
}

func eventually(t *testing.T, name string, check func(context.Context) error) {
	t.Helper()
	if err := stage.Eventually(t.Context(), patience, check); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
