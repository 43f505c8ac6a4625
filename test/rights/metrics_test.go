// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// token is one of a new service account; the account may read metrics or not.
func token(t *testing.T, namespace, name string, mayRead bool) string {
	t.Helper()
	ctx, accounts := t.Context(), stage.Client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	if mayRead {
		_, err = stage.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tutti-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	request, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return request.Status.Token
}

func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	onlyForReaders(t, stage.metrics, http.StatusUnauthorized, "training_operator_jobs_")
}

// onlyForReaders wants a page of metrics, known by a word of it, shown to those
// alone who have the right; who has no token is refused with the status given.
func onlyForReaders(t *testing.T, url string, nobody int, word string) {
	t.Helper()
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"nobody":               {"", nobody},
		"a made-up token":      {"made.up.token", http.StatusUnauthorized},
		"a user without right": {token(t, namespace, "other", false), http.StatusForbidden},
		"a reader":             {token(t, namespace, "reader", true), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			code, page, err := get(url, tc.token)
			must(t, err)
			if code != tc.want {
				t.Errorf("got %d, want %d", code, tc.want)
			}
			if shown := strings.Contains(page, word); shown != (tc.want == http.StatusOK) {
				t.Errorf("the metrics are shown: %t", shown)
			}
		})
	}
}

func TestEveryTransitionIsCountedOnce(t *testing.T) {
	namespace := newNamespace(t)
	reader := token(t, namespace, "counts", true)
	none := counters(0, 0, 0, 0)
	if diff := cmp.Diff(none, read(t, reader, "default")); diff != "" {
		t.Errorf("before any job (-want +got):\n%s", diff)
	}
	create(t, namespace, newJob("good", map[string]string{"demo.tutti.dev/run-for": "1s"}))
	create(t, namespace, newJob("bad", map[string]string{"demo.tutti.dev/run-for": "1s", "demo.tutti.dev/exit-code": "1"}))
	eventually(t, "the first succeeds", inState(namespace, "good", kubeflowv1.JobSucceeded))
	eventually(t, "the second fails", inState(namespace, "bad", kubeflowv1.JobFailed))
	// More passes over the same jobs.
	for i := range 3 {
		for _, name := range []string{"good", "bad"} {
			edit(t, namespace, name, func(job *kubeflowv1.TFJob) { metav1.SetMetaDataAnnotation(&job.ObjectMeta, "pass", strconv.Itoa(i)) })
		}
	}
	must(t, stage.jobs.KubeflowV1().TFJobs(namespace).Delete(t.Context(), "good", metav1.DeleteOptions{}))
	eventually(t, "the counters say so", func(context.Context) error {
		if diff := cmp.Diff(counters(2, 1, 1, 1), read(t, reader, namespace)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestQueuesClientsAndLeadershipAreMeasured(t *testing.T) {
	_, page, err := get(stage.metrics, token(t, newNamespace(t), "page", true))
	must(t, err)
	for _, want := range []string{
		`workqueue_depth{name="tfjob-controller"}`, "rest_client_requests_total{", `leader_election_master_status{name="tutti-system/tutti-controller"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
}

func counters(created, deleted, successful, failed float64) map[string]float64 {
	return map[string]float64{"created": created, "deleted": deleted, "successful": successful, "failed": failed, "restarted": 0}
}

// read is what the counters of jobs in a namespace say.
func read(t *testing.T, token, namespace string) map[string]float64 {
	t.Helper()
	_, page, err := get(stage.metrics, token)
	must(t, err)
	values := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		name, labels, _ := strings.Cut(series, "{")
		what, ok := strings.CutPrefix(name, "training_operator_jobs_")
		if ok && labels == fmt.Sprintf(`framework="tensorflow",job_namespace=%q}`, namespace) {
			values[strings.TrimSuffix(what, "_total")], err = strconv.ParseFloat(value, 64)
			must(t, err)
		}
	}
	return values
}
