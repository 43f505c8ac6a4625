// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/tutti-project/tutti/pkg/apis/kubeflow/v1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/test/controlplane"
	"github.com/tutti-project/tutti/test/faultproxy"
)

// TestGangIsCompletedWhenABindingFails: an API server that refuses some of a
// gang's bindings, or loses its answers, or a whole process that dies, leaves a
// part bound. The rest follows into the same rack as soon as it can, before a
// rival that waits for the same nodes, and the verdict ends with the truth. If it
// never can, the part goes.
func TestGangIsCompletedWhenABindingFails(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.CreateNodes(t.Context(), controlplane.Small))
	var faults atomic.Pointer[bindingFaults]
	faults.Store(&bindingFaults{})
	kubeconfig := schedulerProxy(t, plane, func(r *http.Request) faultproxy.Fault { return faults.Load().next(r) })
	_, err = plane.StartScheduler("--leader-elect=false", "--kubeconfig="+kubeconfig)
	must(t, err)
	_, err = plane.StartController("--leader-elect=false")
	must(t, err)

	const size = 6
	internal := faultproxy.Refused(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	cases := map[string]struct {
		pods, times int // whose bindings fail, and how often each
		fault       faultproxy.Fault
		// said: the verdict tells of it meanwhile.
		said bool
	}{
		"one binding is refused for a moment":    {1, 2, internal, false},
		"one is refused again and again":         {1, 20, internal, true},
		"half of them are refused":               {size / 2, 10, internal, true},
		"all of them are refused":                {size, 10, internal, true},
		"one is forbidden once":                  {1, 1, faultproxy.Refused(http.StatusForbidden, metav1.StatusReasonForbidden), true},
		"the answers to two are lost":            {2, 1, faultproxy.AnswerLost(http.StatusInternalServerError, metav1.StatusReasonInternalError), false},
		"the answers to two are lost by timeout": {2, 1, faultproxy.AnswerLost(http.StatusGatewayTimeout, metav1.StatusReasonTimeout), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, plane)
			faults.Store(&bindingFaults{namespace: s.namespace, gang: "train", pods: tc.pods, times: tc.times, fault: tc.fault, failed: map[string]int{}})
			steps := []step{
				{
					name: "a gang in a rack",
					do: func(ctx context.Context) error {
						return s.createJob(ctx, annotated(job("train", workers(size, 8)), tuttiapi.RequiredTopologyAnnotation, "rack"))
					},
					check: s.bound("train", size),
				},
				{name: "in one rack", check: s.racks("train", 1)},
				{name: "the verdict is the truth", check: s.condition("train", metav1.ConditionTrue, tuttiapi.GangPlacedReason)},
				{name: "a gang that came after it", do: s.create(job("next", workers(2, 8))), check: s.bound("next", 2)},
			}
			if tc.said {
				steps = append(steps, step{name: "it told of what happened", check: s.event("train", "FailedScheduling", "could not be bound and is tried again")})
			}
			s.run(steps)
			if got := len(s.members("train")); got != size {
				t.Errorf("the gang had %d pods, want %d: what is bound must stay", got, size)
			}
			for _, move := range s.moved() {
				t.Error(move)
			}
		})
	}

	t.Run("one is refused for ever", func(t *testing.T) {
		s := newScene(t, plane)
		faults.Store(&bindingFaults{namespace: s.namespace, gang: "train", pods: 1, times: math.MaxInt, fault: internal, failed: map[string]int{}})
		s.run([]step{{name: "a gang is torn", do: s.create(ofClass("", job("train", workers(size, 8)))), check: s.partly("train", size-1, 1)}})
		must(t, plane.Eventually(t.Context(), 2*time.Minute, func(context.Context) error {
			if n := s.evicted("train"); n < size-1 {
				return fmt.Errorf("%d pods have given up their nodes, want all %d", n, size-1)
			}
			return nil
		}))
		s.run([]step{
			{name: "it was told why", check: s.event("train", "FailedScheduling", "gives up its nodes and is placed anew, whole")},
			{name: "the API server is well again", do: func(context.Context) error {
				faults.Store(&bindingFaults{})
				return nil
			}, check: all(s.bound("train", size), s.condition("train", metav1.ConditionTrue, tuttiapi.GangPlacedReason))},
		})
	})
}

// schedulerProxy is the kubeconfig of a proxy for the scheduler.
func schedulerProxy(t *testing.T, plane *controlplane.ControlPlane, next func(*http.Request) faultproxy.Fault) string {
	t.Helper()
	_, kubeconfig := countingProxy(t, plane, next)
	return kubeconfig
}

// countingProxy is such a proxy and its kubeconfig.
func countingProxy(t *testing.T, plane *controlplane.ControlPlane, next func(*http.Request) faultproxy.Fault) (*faultproxy.Proxy, string) {
	t.Helper()
	file, err := plane.Identity("system:serviceaccount:"+controlplane.Namespace+":tutti-scheduler",
		"system:serviceaccounts", "system:serviceaccounts:"+controlplane.Namespace)
	must(t, err)
	config, err := faultproxy.ConfigFromFile(file)
	must(t, err)
	proxy, err := faultproxy.New(config, next)
	must(t, err)
	t.Cleanup(proxy.Close)
	kubeconfig := filepath.Join(t.TempDir(), "proxy.kubeconfig")
	must(t, proxy.Kubeconfig(kubeconfig))
	return proxy, kubeconfig
}

// bindingFaults lets the first bindings of the first pods of a job fail.
type bindingFaults struct {
	namespace, gang string
	pods, times     int
	fault           faultproxy.Fault
	failed          map[string]int // by path; the proxy asks one request at a time
}

func (f *bindingFaults) next(r *http.Request) faultproxy.Fault {
	of := fmt.Sprintf("/namespaces/%s/pods/%s-%s-", f.namespace, f.gang, strings.ToLower(string(kubeflowv1.TFJobReplicaTypeWorker)))
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/binding") || !strings.Contains(r.URL.Path, of) {
		return faultproxy.Fault{}
	}
	n, known := f.failed[r.URL.Path]
	if !known && len(f.failed) == f.pods || n == f.times {
		return faultproxy.Fault{}
	}
	f.failed[r.URL.Path] = n + 1
	return f.fault
}
