// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
)

// notOnThisServer are rights of the scheduler that only other API servers have a
// use for.
var notOnThisServer = []string{
	"get scheduling.k8s.io/podgroups", "list scheduling.k8s.io/podgroups", "watch scheduling.k8s.io/podgroups",
	"patch scheduling.k8s.io/podgroups/status",
}

// TestSchedulerUsesItsRights leads the scheduler through a gang that fits, one
// that does not, and one that evicts another.
func TestSchedulerUsesItsRights(t *testing.T) {
	namespace := newNamespace(t)
	gangs(t, namespace)
	usesItsRights(t, scheduler, notOnThisServer)
}

// gangs: one begins, one finds no room, and one evicts the first.
func gangs(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() { vacate(t, namespace) })
	_, err := stage.Client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Value: 1000,
	}, metav1.CreateOptions{})
	must(t, err)
	create(t, namespace, newGang("fits", "", "100"))
	eventually(t, "a gang is placed", bound(namespace, "fits"))
	create(t, namespace, newGang("large", "", "1000"))
	eventually(t, "a gang finds no room", func(ctx context.Context) error {
		verdict, err := stage.Verdict(ctx, namespace, "large")
		if err == nil && verdict.Status != metav1.ConditionFalse {
			err = fmt.Errorf("it is placed: %s", verdict.Message)
		}
		return err
	})
	create(t, namespace, newGang("urgent", namespace, "100"))
	eventually(t, "a gang evicts another", bound(namespace, "urgent"))
}

// vacate gives the nodes back.
func vacate(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	must(t, stage.jobs.KubeflowV1().TFJobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must(t, stage.Eventually(ctx, patience, func(ctx context.Context) error {
		pods, err := stage.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	}))
}

func bound(namespace, gang string) func(context.Context) error {
	return func(ctx context.Context) error { return stage.Bound(ctx, namespace, gang, 2) }
}

// newGang has two workers that ask for so much, each for more than half a node.
func newGang(name, class, cpu string) *kubeflowv1.TFJob {
	job := newJob(name, nil)
	worker := job.Spec.TFReplicaSpecs[kubeflowv1.TFJobReplicaTypeWorker]
	worker.Replicas = new(int32(2))
	worker.RestartPolicy = kubeflowv1.RestartPolicyExitCode // evicted, it comes back
	worker.Template.Spec.NodeName = ""
	worker.Template.Spec.PriorityClassName = class
	worker.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return job
}

func TestSchedulersMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	// Without a token one is asked as anonymous, as by kube-scheduler.
	onlyForReaders(t, stage.schedulerMetrics, http.StatusForbidden, "tutti_")
}

// TestSchedulersMetricsAreThoseOfTheDocument compares names and labels, and some
// of the values, with what gangs have done.
func TestSchedulersMetricsAreThoseOfTheDocument(t *testing.T) {
	namespace := newNamespace(t)
	gangs(t, namespace)
	reader := token(t, namespace, "page", true)
	eventually(t, "all is measured", func(context.Context) error {
		code, page, err := get(stage.schedulerMetrics, reader)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d: %w", code, err)
		}
		if diff := cmp.Diff(documented(t), measured(page)); diff != "" {
			return fmt.Errorf("-document +served:\n%s", diff)
		}
		for _, want := range []string{
			`tutti_gang_attempts_total{outcome="placed",profile="tutti-scheduler"}`,
			`tutti_gang_attempts_total{outcome="no_room",profile="tutti-scheduler"}`,
			`tutti_gang_attempts_total{outcome="preempting",profile="tutti-scheduler"}`,
			`tutti_gang_wait_seconds_count{pods="2-8",profile="tutti-scheduler"}`,
			`tutti_gang_level_total{best="rack",level="rack",profile="tutti-scheduler"}`,
			`tutti_evicted_pods_total{preemptor="gang",victim="gang"}`,
			`tutti_pending_gangs{profile="tutti-scheduler",reason="Unschedulable"}`,
		} {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(want) + ` [1-9]`).MatchString(page) {
				return fmt.Errorf("%s is not above zero", want)
			}
		}
		return nil
	})
}

// documented are the scheduler's metrics with their labels, as the document
// lists them.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	row := regexp.MustCompile("(?m)^\\| `(tutti_\\w+)` \\| (\\w+) \\| ([^|]*) \\|")
	all := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "tutti_agent_") {
			continue // of another program: pkg/agent's test compares them
		}
		all[m[1]] = labelsIn(regexp.MustCompile("`(\\w+)`"), m[3])
	}
	return all
}

// measured are those of a page.
func measured(page string) map[string][]string {
	all := map[string][]string{}
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		name, labels, ok := strings.Cut(lines.Text(), "{")
		if !ok || !strings.HasPrefix(name, "tutti_") {
			continue
		}
		found := labelsIn(regexp.MustCompile(`(\w+)="`), labels)
		all[suffix.ReplaceAllString(name, "")] = slices.DeleteFunc(found, func(label string) bool { return label == "le" })
	}
	return all
}

func labelsIn(pattern *regexp.Regexp, text string) []string {
	labels := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		labels[m[1]] = true
	}
	return slices.Sorted(maps.Keys(labels))
}
