// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func storedGroup(conditions ...map[string]any) *unstructured.Unstructured {
	list := make([]any, len(conditions))
	for i, c := range conditions {
		list[i] = c
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"name": "g", "namespace": "ns", "uid": "g-uid"},
		"status":   map[string]any{"phase": "Pending", "conditions": list},
	}}
}

func statusScene(t *testing.T, stored *unstructured.Unstructured) (*StatusWriter, *fake.FakeDynamicClient, *schedulingv1beta1.PodGroup) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{PodGroupResource: "PodGroupList"}, stored)
	native := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns", UID: "g-uid", Generation: 4}}
	return NewStatusWriter(client, NewProjector()), client, native
}

// told is the conditions now stored, as "Type=Status(reason): message".
func told(t *testing.T, client *fake.FakeDynamicClient) []string {
	t.Helper()
	object, err := client.Resource(PodGroupResource).Namespace("ns").Get(t.Context(), "g", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range conditionsOf(object) {
		lines = append(lines, c.Type+"="+string(c.Status)+"("+c.Reason+"): "+c.Message)
	}
	return lines
}

func patches(client *fake.FakeDynamicClient) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func placed(status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: "GangPlaced", Status: status, Reason: "R", Message: message}
}

func TestStatusWriterMergesIntoWhatIsStored(t *testing.T) {
	w, client, group := statusScene(t, storedGroup(map[string]any{
		"type": "Other", "status": "True", "reason": "Theirs", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}))
	w.Set(group, placed(metav1.ConditionFalse, "no room"))
	w.Set(group, placed(metav1.ConditionTrue, "room"))
	if err := w.write(t.Context(), "g-uid"); err != nil {
		t.Fatal(err)
	}
	want := []string{"Other=True(Theirs): m", "GangPlaced=True(R): room"}
	if diff := cmp.Diff(want, told(t, client)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusWriterWritesNothingTwice(t *testing.T) {
	w, client, group := statusScene(t, storedGroup())
	for range 3 {
		w.Set(group, placed(metav1.ConditionFalse, "no room"))
		if err := w.write(t.Context(), "g-uid"); err != nil {
			t.Fatal(err)
		}
	}
	if got := patches(client); got != 1 {
		t.Errorf("%d patches, want 1", got)
	}
}

func TestStatusWriterKeepsWhatItCouldNotWrite(t *testing.T) {
	w, client, group := statusScene(t, storedGroup())
	fail := true
	client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fail, nil, errors.New("the API server is away")
	})
	w.Set(group, placed(metav1.ConditionFalse, "no room"))
	if err := w.write(t.Context(), "g-uid"); err == nil || !strings.Contains(err.Error(), "away") {
		t.Fatalf("got %v", err)
	}
	fail = false
	if err := w.write(t.Context(), "g-uid"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GangPlaced=False(R): no room"}, told(t, client)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusWriterLeavesANamesakeAlone(t *testing.T) {
	w, client, group := statusScene(t, storedGroup())
	group.UID = "of-an-earlier-one"
	w.Set(group, placed(metav1.ConditionTrue, "m"))
	if err := w.write(t.Context(), group.UID); err != nil {
		t.Fatal(err)
	}
	if got := patches(client); got != 0 {
		t.Errorf("%d patches, want none", got)
	}
}

// TestStatusWriterGoesOnAfterWhatIsInvalid: what the API server will not have is not
// tried again, and the next verdict is written.
func TestStatusWriterGoesOnAfterWhatIsInvalid(t *testing.T) {
	w, client, group := statusScene(t, storedGroup())
	refused := 0
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), "too long") {
			return false, nil, nil
		}
		refused++
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "scheduling.x-k8s.io", Kind: "PodGroup"}, "g", nil)
	})
	w.Set(group, placed(metav1.ConditionFalse, "too long"))
	for range 2 {
		if err := w.write(t.Context(), "g-uid"); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 1 {
		t.Errorf("tried %d times, want once", refused)
	}
	w.Set(group, placed(metav1.ConditionFalse, "no room"))
	if err := w.write(t.Context(), "g-uid"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GangPlaced=False(R): no room"}, told(t, client)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatusWriterReadsAgainWhatOthersWrote(t *testing.T) {
	w, client, group := statusScene(t, storedGroup())
	w.groups[group.UID] = &written{name: types.NamespacedName{Namespace: "ns", Name: "g"}, resource: PodGroupResource, version: "of yesterday"}
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if bytes.Contains(action.(clienttesting.PatchAction).GetPatch(), []byte("of yesterday")) {
			return true, nil, apierrors.NewConflict(PodGroupResource.GroupResource(), "g", errors.New("the object has been modified"))
		}
		return false, nil, nil
	})
	w.Set(group, placed(metav1.ConditionTrue, "room"))
	if err := w.write(t.Context(), group.UID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GangPlaced=True(R): room"}, told(t, client)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestInitiallyScheduledNeverGoesBack(t *testing.T) {
	stored := []metav1.Condition{initially(placed(metav1.ConditionTrue, "room"))}
	merged := merge(stored, []metav1.Condition{placed(metav1.ConditionFalse, "lost"), initially(placed(metav1.ConditionFalse, "lost"))})
	if len(merged) != 2 || merged[0].Status != metav1.ConditionTrue || merged[1].Status != metav1.ConditionFalse {
		t.Errorf("got %+v", merged)
	}
}

func TestClientDropsStatusPatchesOfProjectedGroupsOnly(t *testing.T) {
	p := NewProjector()
	p.update(types.NamespacedName{Namespace: "ns", Name: "g"}, func(g *group) bool {
		g.object = groupOf(1)
		g.live["a"] = member{name: "a"}
		return true
	})
	native := kubefake.NewClientset()
	client := &Client{Interface: native, Projector: p}
	groups := client.SchedulingV1beta1().PodGroups("ns")
	for _, name := range []string{"g", "native"} {
		_, _ = groups.Patch(t.Context(), name, types.StrategicMergePatchType, []byte("{}"), metav1.PatchOptions{}, "status")
	}
	if actions := native.Actions(); len(actions) != 1 || actions[0].(clienttesting.PatchAction).GetName() != "native" {
		t.Errorf("the native API got %v, want one patch of the native group", actions)
	}
}
