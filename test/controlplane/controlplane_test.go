// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const limit = 30 * time.Second

// TestSimulatedPodLivesAsItsAnnotationsSay binds pods by hand and watches KWOK
// play them; at the end no process is left.
func TestSimulatedPodLivesAsItsAnnotationsSay(t *testing.T) {
	ctx := t.Context()
	plane, err := Start(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	if err := plane.CreateNodes(ctx, Machines{Spines: 1, RacksPerSpine: 1, NodesPerRack: 2, GPUsPerNode: 8}); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		annotations map[string]string
		want        corev1.PodPhase
	}{
		"stays":  {nil, corev1.PodRunning},
		"works":  {map[string]string{"demo.tutti.dev/run-for": "1s"}, corev1.PodSucceeded},
		"breaks": {map[string]string{"demo.tutti.dev/run-for": "1s", "demo.tutti.dev/exit-code": "3"}, corev1.PodFailed},
	}
	pods := plane.Client.CoreV1().Pods("default")
	for name, tc := range cases {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: tc.annotations},
			Spec:       corev1.PodSpec{NodeName: "n001", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
		}
		err := plane.Eventually(ctx, limit, func(ctx context.Context) error { // until the account "default" exists
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range cases {
		err := plane.Eventually(ctx, limit, func(ctx context.Context) error {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if pod.Status.Phase != tc.want {
				return fmt.Errorf("pod %s is %s, want %s", name, pod.Status.Phase, tc.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	plane.Stop()
	for _, p := range plane.Processes() {
		if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
			t.Errorf("%s (%d) is still there", p.Name, p.PID())
		}
	}
}

func TestDeathOfAChildIsReportedWithItsLog(t *testing.T) {
	cases := map[string]struct {
		script string
		want   string
	}{
		"the end of the log":   {`seq 100 >&2; echo the reason >&2; exit 3`, "the reason"},
		"the start of a panic": {`seq 100 >&2; echo "panic: the reason" >&2; seq 100 >&2; exit 3`, "panic: the reason"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := spawn(t.TempDir(), "fails", "/bin/sh", "-c", tc.script)
			if err != nil {
				t.Fatal(err)
			}
			<-p.Done()
			got := p.Failure()
			if got == nil || !strings.Contains(got.Error(), "exit status 3") || !strings.Contains(got.Error(), tc.want) {
				t.Errorf("got %v, want the exit status and %q", got, tc.want)
			}
		})
	}
}

func TestStoppedChildIsNoFailure(t *testing.T) {
	for name, end := range map[string]func(*Process){"stop": (*Process).Stop, "kill": (*Process).Kill} {
		t.Run(name, func(t *testing.T) {
			p, err := spawn(t.TempDir(), "sleeps", "/bin/sleep", "60")
			if err != nil {
				t.Fatal(err)
			}
			end(p)
			if err := p.Failure(); err != nil {
				t.Error(err)
			}
		})
	}
}
