// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/test/controlplane"
)

const manifests = "../../manifests/monitoring"

// target is a program as discovery would find it in a cluster.
type target struct{ job, address, node string }

// endpoint is what of a monitor's endpoint the manifests use. What else one says
// is an error: the test would not do it.
type endpoint struct {
	Port            string
	Scheme          string
	BearerTokenFile string
	TLSConfig       struct{ InsecureSkipVerify bool }
	Relabelings     []struct {
		SourceLabels []string
		TargetLabel  string
	}
}

// configure writes Prometheus' configuration into a folder: what the Prometheus
// operator makes of scrape.yaml and rules.yaml, but for the discovery of targets.
// The service account that scrape.yaml binds is made, and its token is there.
func configure(ctx context.Context, dir string, targets []target) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	endpoints, token, err := monitors(ctx)
	if err != nil {
		return "", err
	}
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return "", err
	}
	jobs, err := scrapeJobs(targets, endpoints, tokenFile)
	if err != nil {
		return "", err
	}
	rules, err := ruleFile()
	if err != nil {
		return "", err
	}
	configuration, err := yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{"rules.yaml"},
		"scrape_configs": jobs,
	})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "prometheus.yaml")
	return path, os.WriteFile(path, configuration, 0o600)
}

// monitors are the endpoints that scrape.yaml has scraped, by job, and the token of
// the service account that it gives the right.
func monitors(ctx context.Context) (endpoints map[string]endpoint, token string, err error) {
	objects, err := controlplane.ObjectsFromFile(filepath.Join(manifests, "scrape.yaml"))
	if err != nil {
		return nil, "", err
	}
	endpoints = map[string]endpoint{}
	for _, object := range objects {
		switch object.GetKind() {
		case "ServiceMonitor":
			for _, job := range []string{"tutti-scheduler", "tutti-controller"} { // the services that it selects
				endpoints[job], err = endpointOf(object, "endpoints")
			}
		case "PodMonitor":
			endpoints["tutti-agent"], err = endpointOf(object, "podMetricsEndpoints")
		case "ClusterRoleBinding":
			token, err = tokenOf(ctx, object)
		default:
			err = fmt.Errorf("scrape.yaml has a %s, with which this test does nothing", object.GetKind())
		}
		if err != nil {
			return nil, "", err
		}
	}
	return endpoints, token, nil
}

// scrapeJobs is a job for each kind of program, with its targets.
func scrapeJobs(targets []target, endpoints map[string]endpoint, tokenFile string) ([]map[string]any, error) {
	var jobs []map[string]any
	for _, t := range targets {
		e := endpoints[t.job]
		i := slices.IndexFunc(jobs, func(job map[string]any) bool { return job["job_name"] == t.job })
		if i < 0 {
			i = len(jobs)
			job := map[string]any{
				"job_name": t.job, "scheme": e.Scheme, "static_configs": []any{},
				"tls_config": map[string]any{"insecure_skip_verify": e.TLSConfig.InsecureSkipVerify},
			}
			if e.BearerTokenFile != "" { // there it is in the pod
				job["authorization"] = map[string]any{"credentials_file": tokenFile}
			}
			jobs = append(jobs, job)
		}
		labels := map[string]any{}
		for _, r := range e.Relabelings {
			if len(r.SourceLabels) != 1 || r.SourceLabels[0] != "__meta_kubernetes_pod_node_name" {
				return nil, fmt.Errorf("no such relabeling is known here: %v", r)
			}
			labels[r.TargetLabel] = t.node
		}
		jobs[i]["static_configs"] = append(jobs[i]["static_configs"].([]any), map[string]any{"targets": []string{t.address}, "labels": labels})
	}
	return jobs, nil
}

// endpointOf a monitor is its only one.
func endpointOf(monitor *unstructured.Unstructured, field string) (endpoint, error) {
	var e endpoint
	list, _, err := unstructured.NestedSlice(monitor.Object, "spec", field)
	if err != nil {
		return e, fmt.Errorf("%s %s: %w", monitor.GetKind(), monitor.GetName(), err)
	}
	if len(list) != 1 {
		return e, fmt.Errorf("%s %s: want one endpoint, got %d", monitor.GetKind(), monitor.GetName(), len(list))
	}
	text, err := yaml.Marshal(list[0])
	if err != nil {
		return e, err
	}
	return e, yaml.UnmarshalStrict(text, &e)
}

// tokenOf the service account that a binding is for; it is made, and bound.
func tokenOf(ctx context.Context, binding *unstructured.Unstructured) (string, error) {
	if err := stage.Apply(ctx, "", binding); err != nil {
		return "", err
	}
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	if len(subjects) != 1 {
		return "", fmt.Errorf("%s is for %d subjects, want one", binding.GetName(), len(subjects))
	}
	subject, _ := subjects[0].(map[string]any)
	var who rbacv1.Subject
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(subject, &who); err != nil {
		return "", err
	}
	if _, err := stage.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: who.Namespace}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	accounts := stage.Client.CoreV1().ServiceAccounts(who.Namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: who.Name}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	answer, err := accounts.CreateToken(ctx, who.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// ruleFile is the content of the PrometheusRule, as Prometheus reads it.
func ruleFile() ([]byte, error) {
	objects, err := controlplane.ObjectsFromFile(filepath.Join(manifests, "rules.yaml"))
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 || objects[0].GetKind() != "PrometheusRule" {
		return nil, fmt.Errorf("rules.yaml has %d objects, want one PrometheusRule", len(objects))
	}
	return yaml.Marshal(objects[0].Object["spec"])
}
