// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	topologyv1alpha1 "github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	tuttiapi "github.com/tutti-project/tutti/pkg/apis/tutti"
	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
)

// thief has the token of a node's agent.
type thief struct {
	kube       kubernetes.Interface
	topologies tutti.Interface
}

func newThief(t *testing.T, node string) thief {
	t.Helper()
	token, err := stage.AgentToken(t.Context(), node)
	must(t, err)
	path, err := stage.TokenKubeconfig("thief-"+node, token)
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	var who thief
	who.kube, err = kubernetes.NewForConfig(config)
	must(t, err)
	who.topologies, err = tutti.NewForConfig(config)
	must(t, err)
	return who
}

func (w thief) patch(ctx context.Context, node, patch string, subresources ...string) error {
	_, err := w.kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// TestAnAgentWritesWhatIsItsNodesAndNothingElse, whatever it asks for.
func TestAnAgentWritesWhatIsItsNodesAndNothingElse(t *testing.T) {
	must(t, stage.Publish(t.Context(), file(t, described(t, "v1", "v2")...)))
	own, unbound := newThief(t, "v1"), newThief(t, "")
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, tuttiapi.NVLinkDomainLabel)
	noLabel := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, tuttiapi.NVLinkDomainLabel)
	object := func(node string) *topologyv1alpha1.NodeTopology {
		object, err := stage.topologies.TopologyV1alpha1().NodeTopologies().Get(t.Context(), node, metav1.GetOptions{})
		must(t, err)
		return object
	}
	updateSpec := func(who thief, node string) func(context.Context) error {
		return func(ctx context.Context) error {
			changed := object(node)
			changed.Spec.GPUs[0].Model = fmt.Sprint("model of ", time.Now().UnixNano())
			_, err := who.topologies.TopologyV1alpha1().NodeTopologies().Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}
	}
	updateStatus := func(who thief, node string) func(context.Context) error {
		return func(ctx context.Context) error {
			changed := object(node)
			changed.Status.HeartbeatTime = &metav1.Time{Time: time.Now()}
			_, err := who.topologies.TopologyV1alpha1().NodeTopologies().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
			return err
		}
	}
	create := func(who thief, node string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := who.topologies.TopologyV1alpha1().NodeTopologies().Create(ctx, &topologyv1alpha1.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
			return err
		}
	}
	patch := func(who thief, node, patch string) func(context.Context) error {
		return func(ctx context.Context) error { return who.patch(ctx, node, patch) }
	}
	const may, mayNot = true, false
	cases := []struct {
		name string
		do   func(context.Context) error
		may  bool
	}{
		{"its spec", updateSpec(own, "v1"), may},
		{"its status", updateStatus(own, "v1"), may},
		{"another's spec", updateSpec(own, "v2"), mayNot},
		{"another's status", updateStatus(own, "v2"), mayNot},
		{"a new one of another node", create(own, "v3"), mayNot},
		{"a new one of no node", create(own, "nowhere"), mayNot},
		{"its node's label of the level that it finds", patch(own, "v1", label), may},
		{"taking that label away", patch(own, "v1", noLabel), may},
		{"that label of another node", patch(own, "v2", label), mayNot},
		{"another label of its node", patch(own, "v1", `{"metadata":{"labels":{"example.com/role":"x"}}}`), mayNot},
		{"a label of others, changed", patch(own, "v1", fmt.Sprintf(`{"metadata":{"labels":{%q:"other"}}}`, machineLabel)), mayNot},
		{"a label of others, taken away", patch(own, "v1", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, machineLabel)), mayNot},
		{"an annotation of its node", patch(own, "v1", `{"metadata":{"annotations":{"a":"b"}}}`), mayNot},
		{"a taint of its node", patch(own, "v1", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`), mayNot},
		{"closing its node", patch(own, "v1", `{"spec":{"unschedulable":true}}`), mayNot},
		{"a finalizer of its node", patch(own, "v1", `{"metadata":{"finalizers":["example.com/f"]}}`), mayNot},
		{"its node's capacity", func(ctx context.Context) error {
			return own.patch(ctx, "v1", `{"status":{"capacity":{"example.com/x":"1"}}}`, "status")
		}, mayNot},
		{"a status by a token of no node", updateStatus(unbound, "v1"), mayNot},
		{"a label by a token of no node", patch(unbound, "v1", label), mayNot},
		{"deleting its object", func(ctx context.Context) error {
			return own.topologies.TopologyV1alpha1().NodeTopologies().Delete(ctx, "v1", metav1.DeleteOptions{})
		}, mayNot},
		{"deleting its node", func(ctx context.Context) error {
			return own.kube.CoreV1().Nodes().Delete(ctx, "v1", metav1.DeleteOptions{})
		}, mayNot},
		{"pods", func(ctx context.Context) error {
			_, err := own.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		}, mayNot},
		{"all nodes", func(ctx context.Context) error {
			_, err := own.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return err
		}, mayNot},
	}
	// The policy takes effect a moment after it was made.
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		if err := updateStatus(own, "v2")(ctx); !apierrors.IsForbidden(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.do(t.Context())
			if tc.may && err != nil || !tc.may && !apierrors.IsForbidden(err) {
				t.Errorf("allowed is to be %t; got %v", tc.may, err)
			}
		})
	}
}

// TestTheAgentKeepsItsNodesObject: the program, with the rights of its service
// account, and one that calls itself by another node's name.
func TestTheAgentKeepsItsNodesObject(t *testing.T) {
	trays := file(t, described(t, "a01", "a02")...)
	for _, node := range []string{"a01", "a02"} { // of tests before
		err := stage.topologies.TopologyV1alpha1().NodeTopologies().Delete(t.Context(), node, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	honest, err := stage.StartAgent(t.Context(), "a01", "--sources=file", "--file="+trays)
	must(t, err)
	defer honest.Stop()
	objects := stage.topologies.TopologyV1alpha1().NodeTopologies()
	eventually(t, "its object is ready", func(ctx context.Context) error {
		object, err := objects.Get(ctx, "a01", metav1.GetOptions{})
		if err == nil && (object.Status.FreeCount != 4 || object.Status.ObservedGeneration != object.Generation) {
			err = fmt.Errorf("status %+v", object.Status)
		}
		return err
	})
	object, err := objects.Get(t.Context(), "a01", metav1.GetOptions{})
	must(t, err)
	node, err := stage.Client.CoreV1().Nodes().Get(t.Context(), "a01", metav1.GetOptions{})
	must(t, err)
	if owners := object.OwnerReferences; len(owners) != 1 || owners[0].UID != node.UID {
		t.Errorf("owners %+v", owners)
	}
	eventually(t, "its node has the label", func(ctx context.Context) error {
		node, err := stage.Client.CoreV1().Nodes().Get(ctx, "a01", metav1.GetOptions{})
		if want := "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"; err == nil && node.Labels[tuttiapi.NVLinkDomainLabel] != want {
			err = fmt.Errorf("labels %v", node.Labels)
		}
		return err
	})

	liar, err := stage.StartAgent(t.Context(), "a03", "--sources=file", "--file="+trays, "--node-name=a02")
	must(t, err)
	defer liar.Stop()
	eventually(t, "the liar is refused", func(context.Context) error {
		log, err := os.ReadFile(liar.Log())
		if err == nil && !strings.Contains(string(log), `this agent runs on node \"a03\" and may not write \"a02\"`) {
			err = errors.New(liar.Tail())
		}
		return err
	})
	if _, err := objects.Get(t.Context(), "a02", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the liar's object: %v", err)
	}
}

// TestTheObjectGoesWithItsNode.
func TestTheObjectGoesWithItsNode(t *testing.T) {
	ctx := t.Context()
	_, err := stage.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}, metav1.CreateOptions{})
	must(t, err)
	object := described(t, "v1")[0]
	object.Name = "short-lived"
	must(t, stage.Publish(ctx, file(t, object)))
	must(t, stage.Client.CoreV1().Nodes().Delete(ctx, "short-lived", metav1.DeleteOptions{}))
	eventually(t, "the object goes", func(ctx context.Context) error {
		_, err := stage.topologies.TopologyV1alpha1().NodeTopologies().Get(ctx, "short-lived", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	object.Name = "never-there"
	if err := stage.Publish(ctx, file(t, object)); err == nil || !strings.Contains(err.Error(), "never-there") {
		t.Errorf("a node that does not exist: %v", err)
	}
}
