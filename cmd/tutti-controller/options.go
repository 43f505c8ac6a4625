// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/program"
)

type options struct {
	kubeconfig string
	qps        float32
	burst      int

	threads       int
	namespace     string
	schedulerName string
	podGroupAPI   string
	servicePerJob bool
	forceDelete   time.Duration
	domain        string // from the environment

	leaderElect    bool
	leaseNamespace string
	leaseName      string

	serving program.Serving

	// As upstream's flags say it; see translate.
	schemes       []string
	gangScheduler string
}

// defaultScheduler is the cluster's own.
const defaultScheduler = corev1.DefaultSchedulerName

func defaultOptions() *options {
	return &options{
		qps:            200,
		burst:          400,
		threads:        4,
		schedulerName:  tutti.SchedulerName,
		podGroupAPI:    podGroupCRD,
		leaderElect:    true,
		leaseNamespace: "tutti-system",
		leaseName:      "tutti-controller",
		serving:        program.DefaultServing(),
	}
}

func (o *options) flags() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets

	jobs := sets.FlagSet("jobs")
	jobs.StringVar(&o.namespace, "namespace", o.namespace,
		"Reconcile TFJobs of this namespace only. Empty means all namespaces. Default: the environment variable "+namespaceVariable+".")
	jobs.IntVar(&o.threads, "controller-threads", o.threads, "How many TFJobs are reconciled at the same time.")
	jobs.StringVar(&o.schedulerName, "scheduler-name", o.schedulerName, "The scheduler of pods whose template names none.")
	jobs.StringVar(&o.podGroupAPI, "pod-group-api", o.podGroupAPI,
		"Which PodGroup is made for a TFJob: crd (scheduling.x-k8s.io), native (scheduling.k8s.io, where the API server serves it), "+
			"auto (native where it is served and allowed, crd elsewhere) or none.")
	jobs.BoolVar(&o.servicePerJob, "service-per-job", o.servicePerJob,
		"Make one service for a TFJob instead of one per pod. A TFJob's annotation "+tutti.ServicesAnnotation+" goes before it.")
	jobs.DurationVar(&o.forceDelete, "force-delete-lost-pods-after", o.forceDelete,
		"How long beyond its grace period a pod on a node that does not answer may take to go before it is deleted by force and replaced, "+
			"unless its restart policy is Never. 0 waits for the node, which may still run the pod.")

	api := sets.FlagSet("API server")
	api.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "File with the API server's address and credentials. Empty means that of the pod's service account.")
	api.Float32Var(&o.qps, "kube-api-qps", o.qps, "Requests to the API server per second.")
	api.IntVar(&o.burst, "kube-api-burst", o.burst, "Requests to the API server at once.")

	leader := sets.FlagSet("leader election")
	leader.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "Reconcile only while holding a lease, so that several replicas can stand by.")
	leader.StringVar(&o.leaseNamespace, "leader-election-namespace", o.leaseNamespace, "The namespace of the lease.")
	leader.StringVar(&o.leaseName, "leader-election-id", o.leaseName, "The name of the lease.")

	o.serving.AddFlags(sets.FlagSet("serving"))
	o.upstreamFlags(sets.FlagSet("training-operator"))
	return sets
}

func (o *options) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(podGroupAPIs, o.podGroupAPI) {
		wrong("--pod-group-api=%s is not supported; it can be one of %s", o.podGroupAPI, strings.Join(podGroupAPIs, ", "))
	}
	if o.threads < 1 {
		wrong("--controller-threads is %d; it must be at least 1", o.threads)
	}
	if o.qps <= 0 || o.burst < 1 {
		wrong("--kube-api-qps and --kube-api-burst are %v and %d; both must be above 0", o.qps, o.burst)
	}
	if o.forceDelete < 0 {
		wrong("--force-delete-lost-pods-after is %s; it must be 0 or more", o.forceDelete)
	}
	if why := validation.IsDNS1123Subdomain(o.schedulerName); len(why) > 0 {
		wrong("--scheduler-name=%q: %s", o.schedulerName, strings.Join(why, "; "))
	}
	if o.domain != "" {
		if why := validation.IsDNS1123Subdomain(o.domain); len(why) > 0 {
			wrong("%s=%q: %s", domainVariable, o.domain, strings.Join(why, "; "))
		}
	}
	if o.leaderElect && (o.leaseNamespace == "" || o.leaseName == "") {
		wrong("--leader-elect needs --leader-election-namespace and --leader-election-id")
	}
	return errors.Join(append(errs, o.serving.Validate())...)
}
