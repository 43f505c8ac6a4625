// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func newTestLock(client *fake.Clientset, identity string) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "n", Name: "lease"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

func holder(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("n").Get(context.Background(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestTheLeaseIsGivenBackWhenTheWorkHasEnded(t *testing.T) {
	client := fake.NewClientset()
	ctx, stop := context.WithCancel(t.Context())
	holderAtTheEnd := ""
	err := lead(ctx, newTestLock(client, "me"), newWatchdog(), func(working context.Context) {
		stop()
		<-working.Done()
		time.Sleep(50 * time.Millisecond) // the last reconcile takes its time
		holderAtTheEnd = holder(t, client)
	})
	if err != nil {
		t.Fatal(err)
	}
	if holderAtTheEnd != "me" {
		t.Errorf("the lease was %q's while the work went on", holderAtTheEnd)
	}
	if got := holder(t, client); got != "" {
		t.Errorf("the lease is still %q's", got)
	}
}

func TestAStandbyStopsWithoutHavingWorked(t *testing.T) {
	client := fake.NewClientset()
	other := newTestLock(client, "other")
	now := metav1.Now()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "other", LeaseDurationSeconds: 60, AcquireTime: now, RenewTime: now}
	if err := other.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	err := lead(ctx, newTestLock(client, "me"), newWatchdog(), func(context.Context) {
		t.Error("worked without the lease")
	})
	if err != nil || holder(t, client) != "other" {
		t.Errorf("error %v, the lease is %q's", err, holder(t, client))
	}
}

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"the defaults are valid":     {nil, ""},
		"an API that does not exist": {[]string{"--pod-group-api=x"}, "--pod-group-api=x is not supported; it can be one of crd, native, auto, none"},
		"no threads":                 {[]string{"--controller-threads=0"}, "--controller-threads is 0; it must be at least 1"},
		"no requests":                {[]string{"--kube-api-qps=0"}, "both must be above 0"},
		"a scheduler's name":         {[]string{"--scheduler-name=A_B"}, `--scheduler-name="A_B"`},
		"a lease without a name":     {[]string{"--leader-election-id="}, "--leader-elect needs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parsed(t, tc.args)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
