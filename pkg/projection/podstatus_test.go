// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

var pod1 = types.NamespacedName{Namespace: "ns", Name: "p1"}

// refusalScene is a client whose requests for pods are listed in requests.
func refusalScene(t *testing.T) (client *Client, api *kubefake.Clientset, requests *[]string) {
	t.Helper()
	api = kubefake.NewClientset(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1"}})
	requests = new([]string)
	api.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		*requests = append(*requests, action.GetVerb()+" "+action.GetSubresource())
		return false, nil, nil
	})
	return &Client{Interface: api, Projector: NewProjector(), Refusals: NewPodStatusWriter(api)}, api, requests
}

// say patches a condition as the engine does.
func say(t *testing.T, client *Client, kind v1.PodConditionType, message string) {
	t.Helper()
	status := v1.PodStatus{Conditions: []v1.PodCondition{{Type: kind, Status: v1.ConditionFalse, Message: message}}}
	if err := util.PatchPodStatus(t.Context(), client, "p1", "ns", &v1.PodStatus{}, &status); err != nil {
		t.Fatal(err)
	}
}

func conditionOf(t *testing.T, api *kubefake.Clientset) string {
	t.Helper()
	pod, err := api.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), "ns", "p1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.(*v1.Pod).Status.Conditions {
		return c.Message
	}
	return ""
}

func TestRefusalsAreSentLaterAndTheNewestOnly(t *testing.T) {
	client, api, requests := refusalScene(t)
	say(t, client, v1.PodScheduled, "old")
	say(t, client, v1.PodScheduled, "new")
	if len(*requests) != 0 {
		t.Fatalf("sent at once: %v", *requests)
	}
	for range 2 {
		if err := client.Refusals.send(t.Context(), pod1); err != nil {
			t.Fatal(err)
		}
	}
	if got := conditionOf(t, api); got != "new" || len(*requests) != 1 {
		t.Errorf("the pod says %q after %v", got, *requests)
	}
}

func TestOtherPatchesAreSentAtOnce(t *testing.T) {
	client, _, requests := refusalScene(t)
	say(t, client, v1.DisruptionTarget, "evicted")
	if !slices.Equal(*requests, []string{"patch status"}) {
		t.Errorf("requests %v", *requests)
	}
}

func TestNoRefusalComesAfterTheBinding(t *testing.T) {
	client, api, requests := refusalScene(t)
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1"}, Target: v1.ObjectReference{Name: "n"}}
	say(t, client, v1.PodScheduled, "no room")
	if err := client.CoreV1().Pods("ns").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Refusals.send(t.Context(), pod1); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*requests, []string{"create binding"}) {
		t.Errorf("requests %v, want the binding alone", *requests)
	}

	t.Log("one that is under way is waited for, and not sent again when it fails")
	under, answer := make(chan struct{}), make(chan struct{})
	api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(under)
		<-answer
		return true, nil, errors.New("the API server is away")
	})
	say(t, client, v1.PodScheduled, "no room")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = client.Refusals.send(context.WithoutCancel(t.Context()), pod1)
	}()
	<-under
	settled := make(chan struct{})
	go func() {
		client.Refusals.settle(context.WithoutCancel(t.Context()), pod1)
		close(settled)
	}()
	select {
	case <-settled:
		t.Error("bound while a refusal is under way")
	default:
	}
	close(answer)
	<-sent
	<-settled
	if len(client.Refusals.pending) != 0 {
		t.Error("the refusal is sent again")
	}
}
