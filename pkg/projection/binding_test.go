// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// TestBindingCountsWhoseAnswerWasLost: the engine would give the pod's room away.
func TestBindingCountsWhoseAnswerWasLost(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("lost"))
	taken := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p1", errors.New("it has a node"))
	cases := map[string]struct {
		answer error
		node   string // that the pod has then
		uid    string // that is bound
		gets   int    // that fail before one is answered
		want   error
	}{
		"it works":                           {nil, "n1", "", 0, nil},
		"it is refused":                      {internal, "", "", 0, internal},
		"the answer is lost":                 {internal, "n1", "", 0, nil},
		"the answer is lost, and others too": {internal, "n1", "", 3, nil},
		"it was bound there before":          {taken, "n1", "", 0, nil},
		"it was bound elsewhere":             {taken, "n2", "", 0, taken},
		"another pod of its name was":        {taken, "n1", "other", 0, taken},
		"nobody can be asked":                {internal, "n1", "", 100, internal},
		"the pod has gone":                   {apierrors.NewNotFound(schema.GroupResource{}, "p1"), "", "", 0, apierrors.NewNotFound(schema.GroupResource{}, "p1")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client, api, _ := refusalScene(t)
			gets := 0
			api.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				switch {
				case action.GetSubresource() == "binding":
					return true, nil, tc.answer
				case action.GetVerb() != "get":
					return false, nil, nil
				}
				if gets++; gets <= tc.gets {
					return true, nil, internal
				}
				return true, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p1", UID: "p1-uid"}, Spec: v1.PodSpec{NodeName: tc.node}}, nil
			})
			binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "p1-uid"}, Target: v1.ObjectReference{Name: "n1"}}
			if tc.uid != "" {
				binding.UID = "other"
			}
			err := client.CoreV1().Pods("ns").Bind(t.Context(), binding, metav1.CreateOptions{})
			if (err == nil) != (tc.want == nil) || err != nil && err.Error() != tc.want.Error() {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
