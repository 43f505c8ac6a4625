// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/engine"
	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
)

func run(t *testing.T, s *snapshot.Snapshot, target Target, options Options) *Outcome {
	t.Helper()
	if err := engine.SetGates(); err != nil {
		t.Fatal(err)
	}
	options.Now = time.Now
	outcome, err := Run(t.Context(), s, target, options)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func in(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func places(o *Outcome) string {
	var b strings.Builder
	for _, p := range o.Pods {
		fmt.Fprintf(&b, "%s:%s ", p.Name, p.Node)
	}
	return strings.TrimSpace(b.String())
}

func TestAGangIsPlacedAsTheSchedulerWould(t *testing.T) {
	s := sketch.Cluster(t, `
node n1 r1 gpus=8
node n2 r2 gpus=8
node n3 r2 gpus=8
gang g pods=2 gpus=8`)
	o := run(t, s, Target{Gang: in("g")}, Options{})
	if !o.Placed || places(o) != "g-0:n2 g-1:n3" {
		t.Errorf("placed %t: %s (%s: %s)", o.Placed, places(o), o.Reason, o.Message)
	}
	for _, pod := range s.Of("Pod") {
		if snapshot.NodeOf(pod) != "" {
			t.Errorf("the snapshot was changed: pod %s has a node", pod.GetName())
		}
	}
}

// TestNativeGangsAreDecidedAsOthers: two that hold room, of which one is evicted
// whole, and the one that waits are native.
func TestNativeGangsAreDecidedAsOthers(t *testing.T) {
	lines := map[string]string{}
	for _, kind := range []string{"gang", "native"} {
		lines[kind] = strings.ReplaceAll(`
node n1 r1 gpus=8
node n2 r2 gpus=8
node n3 r2 gpus=8
KIND low pods=2 gpus=1 on=n2
KIND high pods=1 gpus=1 on=n1 priority=9
KIND x pods=2 gpus=8 priority=5`, "KIND", kind)
	}
	for _, preempt := range []bool{false, true} {
		want := run(t, sketch.Cluster(t, lines["gang"]), Target{Gang: in("x")}, Options{Preempt: preempt})
		got := run(t, sketch.Cluster(t, lines["native"]), Target{Gang: in("x")}, Options{Preempt: preempt})
		if want.Placed != preempt || len(want.Evicted) != map[bool]int{true: 2}[preempt] {
			t.Errorf("preempt %t: placed %t, evicted %v: %s", preempt, want.Placed, want.Evicted, want.Message)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("preempt %t: native gangs\n%+v\nthose of the CRD\n%+v", preempt, got, want)
		}
	}
}

func TestAGangThatDoesNotFit(t *testing.T) {
	o := run(t, sketch.Cluster(t, `
node n1 r1 gpus=8
gang g pods=2 gpus=8
gang other pods=1 gpus=8`), Target{Gang: in("g")}, Options{})
	if o.Placed || o.Reason != "Unschedulable" || !strings.Contains(o.Message, "nvidia.com/gpu") {
		t.Errorf("placed %t, %s: %s", o.Placed, o.Reason, o.Message)
	}
}

// TestAnOldRefusalIsNoAnswer: it was right when the snapshot was taken, or for another
// scheduler; its message may have been left out.
func TestAnOldRefusalIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		lines, want string
		placed      bool
	}{
		"placed now":    {"node n1 r1 gpus=8\ngang x pods=1 gpus=8", "placed 1 pod", true},
		"refused again": {"node n1 r1 gpus=8\ngang x pods=2 gpus=8", "room for 1 of 2", false},
		"too few":       {"node n1 r1 gpus=8\ngang x pods=1 gpus=8 minimum=3", "minimum is 3", false},
		"native":        {"node n1 r1 gpus=8\nnative x pods=2 gpus=8", "room for 1 of 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sketch.Cluster(t, c.lines)
			for _, o := range s.Objects {
				kind := map[string]string{"PodGroup": tutti.GangPlacedCondition, "Pod": "PodScheduled"}[o.GetKind()]
				if kind == "" {
					continue
				}
				old := map[string]any{"type": kind, "status": "False", "reason": "Unschedulable", "message": ""}
				if err := unstructured.SetNestedSlice(o.Object, []any{old}, "status", "conditions"); err != nil {
					t.Fatal(err)
				}
			}
			o := run(t, s, Target{Gang: in("x")}, Options{})
			if o.Placed != c.placed || !strings.Contains(o.Message, c.want) {
				t.Errorf("placed %v, %q, want %q in it", o.Placed, o.Message, c.want)
			}
		})
	}
}

// TestAnOldPlacementIsNoAnswer: the gang has lost a pod since.
func TestAnOldPlacementIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		lines, want string
		placed      bool
	}{
		"no room":               {"node n1 r1 gpus=8\ngang x pods=2 gpus=8 minimum=2", "room for 0 of 1", false},
		"room":                  {"node n1 r1 gpus=8\nnode n2 r1 gpus=8\ngang x pods=2 gpus=8 minimum=2", "1 more, now 2 of 2", true},
		"native":                {"node n1 r1 gpus=8\nnative x pods=2 gpus=8 minimum=2", "room for 0 of 1", false},
		"no room for the extra": {"node n1 r1 gpus=8\ngang x pods=2 gpus=8 minimum=1", "as it was", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := sketch.Cluster(t, c.lines)
			for _, o := range s.Objects {
				switch {
				case o.GetKind() == "PodGroup":
					old := map[string]any{"type": tutti.GangPlacedCondition, "status": "True", "reason": "GangPlaced", "message": "as it was"}
					if err := unstructured.SetNestedSlice(o.Object, []any{old}, "status", "conditions"); err != nil {
						t.Fatal(err)
					}
				case o.GetName() == "x-0":
					if err := unstructured.SetNestedField(o.Object, "n1", "spec", "nodeName"); err != nil {
						t.Fatal(err)
					}
				}
			}
			o := run(t, s, Target{Gang: in("x")}, Options{Quiet: time.Millisecond})
			if o.Placed != c.placed || !strings.Contains(o.Message, c.want) {
				t.Errorf("placed %v, %q, want %q in it", o.Placed, o.Message, c.want)
			}
		})
	}
}

// TestPodsThatGo stay in a snapshot for ever, and the answer comes all the same.
func TestPodsThatGo(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		soon  bool
		want  string
	}{
		"in the way":     {"node n1 r1 gpus=8\npod leaving on=n1 gpus=8\ngang x pods=1 gpus=8", true, "until pods that are being deleted there are gone"},
		"not enough":     {"node n1 r1 gpus=8\npod leaving on=n1 gpus=8\ngang x pods=2 gpus=8", false, "room for 0 of 2"},
		"beside victims": {"node n1 r1 gpus=8\nnode n2 r1 gpus=8\npod leaving on=n1 gpus=8\npod low on=n2 gpus=8 priority=-5\ngang x pods=2 gpus=8", true, "until pods that are being deleted there are gone"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sketch.Cluster(t, c.lines)
			for _, o := range s.Objects {
				if o.GetName() == "leaving" {
					o.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Add(time.Minute)})
				}
			}
			o := run(t, s, Target{Gang: in("x")}, Options{Preempt: true})
			if evicts := len(o.Evicted) > 0; evicts != (name == "beside victims") {
				t.Errorf("evicts %v", o.Evicted)
			}
			if o.Placed || o.Soon != c.soon || !strings.Contains(o.Message, c.want) {
				t.Errorf("placed %v, soon %v, %q, want %q in it", o.Placed, o.Soon, o.Message, c.want)
			}
		})
	}
}

func TestOthersAreEvictedOnlyIfAsked(t *testing.T) {
	lines := `
node n1 r1 gpus=8
pod low on=n1 gpus=4
gang g pods=1 gpus=8 priority=5`
	if o := run(t, sketch.Cluster(t, lines), Target{Gang: in("g")}, Options{}); o.Placed || len(o.Evicted) > 0 {
		t.Errorf("placed %t, evicted %v", o.Placed, o.Evicted)
	}
	o := run(t, sketch.Cluster(t, lines), Target{Gang: in("g")}, Options{Preempt: true})
	if !o.Placed || len(o.Evicted) != 1 || o.Evicted[0] != in("low") {
		t.Errorf("placed %t, evicted %v: %s", o.Placed, o.Evicted, o.Message)
	}
}

func TestAJobIsMadeByTheController(t *testing.T) {
	o := run(t, sketch.Cluster(t, `
node n1 r1 gpus=8
node n2 r1 gpus=8
job j workers=2 gpus=8`), Target{Job: in("j")}, Options{})
	if !o.Placed || places(o) != "j-worker-0:n1 j-worker-1:n2" || o.Pods[0].Role != "worker" || o.Pods[0].Requests["nvidia.com/gpu"] != 8 {
		t.Errorf("placed %t: %+v (%s: %s)", o.Placed, o.Pods, o.Reason, o.Message)
	}
}

// The controller tries for ever; the question is answered all the same.
func TestAJobWhosePodsAreRefused(t *testing.T) {
	s := sketch.Cluster(t, `
node n1 r1 gpus=8
object {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 5}
job j workers=2 gpus=8`)
	if err := unstructured.SetNestedField(s.Of("TFJob")[0].Object, "hihg", "spec", "runPolicy", "schedulingPolicy", "priorityClass"); err != nil {
		t.Fatal(err)
	}
	o := run(t, s, Target{Job: in("j")}, Options{Timeout: 20 * time.Second})
	if o.Placed || o.Reason != "FailedCreatePod" || !strings.Contains(o.Message, "there is no priority class hihg") {
		t.Errorf("placed %t, %s: %s", o.Placed, o.Reason, o.Message)
	}
}

func TestASinglePod(t *testing.T) {
	o := run(t, sketch.Cluster(t, `
node n1 r1 gpus=8
pod p gpus=1`), Target{Pod: in("p")}, Options{})
	if !o.Placed || places(o) != "p:n1" {
		t.Errorf("placed %t: %s (%s)", o.Placed, places(o), o.Message)
	}
	o = run(t, sketch.Cluster(t, `
node n1 r1 gpus=8
pod p gpus=9`), Target{Pod: in("p")}, Options{})
	if o.Placed || !strings.Contains(o.Message, "Insufficient nvidia.com/gpu") {
		t.Errorf("placed %t: %s", o.Placed, o.Message)
	}
}

// TestPodsOfNoGroup wait without a word of the scheduler, and the answer comes all
// the same.
func TestPodsOfNoGroup(t *testing.T) {
	for _, kind := range []string{"gang", "native"} {
		s := sketch.Cluster(t, "node n1 r1 gpus=8\n"+kind+" x pods=1 gpus=8")
		s.Objects = slices.DeleteFunc(s.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PodGroup" })
		if o := run(t, s, Target{Gang: in("x")}, Options{}); o.Placed || o.Message != "its PodGroup does not exist" {
			t.Errorf("%s: placed %t: %s", kind, o.Placed, o.Message)
		}
	}
}

// TestWhatWaitsForAnotherScheduler is none of ours.
func TestWhatWaitsForAnotherScheduler(t *testing.T) {
	s := sketch.Cluster(t, `
node n1 r1 gpus=8
native x pods=1 gpus=8
native runs pods=1 gpus=8 on=n1
object {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {schedulingGroup: {podGroupName: other}}}`)
	if waiting := Waiting(s, []string{tutti.SchedulerName}); !slices.Equal(waiting, []types.NamespacedName{in("x")}) {
		t.Errorf("%v wait", waiting)
	}
}

func TestATargetThatIsNotThere(t *testing.T) {
	_, err := Run(t.Context(), sketch.Cluster(t, "node n1 r1 gpus=8"), Target{Gang: in("g")}, Options{Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "podgroup ns/g is not in the snapshot") {
		t.Errorf("error %v", err)
	}
}
