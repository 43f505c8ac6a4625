// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	podgroup "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	tutti "github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
)

const (
	controlPlane = "tutti-control-plane"
	pollInterval = 200 * time.Millisecond
)

var workers = []string{"tutti-worker", "tutti-worker2", "tutti-worker3"}

// cluster is what make kind-up has made.
type cluster struct {
	client    kubernetes.Interface
	tutti     tutti.Interface
	podGroups podgroup.Interface
}

func connect(ctx context.Context) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	c := &cluster{}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.tutti, err = tutti.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.podGroups, err = podgroup.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, node := range workers {
		if _, err := c.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// command runs a program of the cluster's environment, with a text as its input.
func command(ctx context.Context, input, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(input)
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, output)
	}
	return nil
}

// kill ends processes of a node the hard way: those whose command line matches.
func kill(ctx context.Context, node, pattern string) error {
	return command(ctx, "", "docker", "exec", node, "pkill", "-KILL", "-f", pattern)
}

// killPrograms ends the controller, the scheduler and the API server, with a
// moment between them.
func (c *cluster) killPrograms(ctx context.Context) error {
	for _, program := range []string{"tutti-controller", "tutti-scheduler"} {
		if err := c.killProgram(ctx, program); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return kill(ctx, controlPlane, "^kube-apiserver ")
}

// killProgram ends Tutti's program wherever it runs. A node that is down has
// ended it already.
func (c *cluster) killProgram(ctx context.Context, program string) error {
	pods, err := c.client.CoreV1().Pods("tutti-system").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + program})
	if err != nil {
		return err
	}
	killed := map[string]bool{}
	for _, pod := range pods.Items {
		if killed[pod.Spec.NodeName] { // both replicas were there
			continue
		}
		killed[pod.Spec.NodeName] = true
		ready, err := c.ready(ctx, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		if err := kill(ctx, pod.Spec.NodeName, "^/"+program); err != nil {
			return err
		}
	}
	return nil
}

// ready tells what the API server knows of a node.
func (c *cluster) ready(ctx context.Context, name string) (bool, error) {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}), nil
}

// readiness is a check that a node is ready or is not.
func (c *cluster) readiness(name string, want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		ready, err := c.ready(ctx, name)
		if err == nil && ready != want {
			err = fmt.Errorf("node %s: ready is %t, want %t", name, ready, want)
		}
		return err
	}
}

// atRest is a check that nodes, kube-system and Tutti are all ready.
func (c *cluster) atRest(ctx context.Context) error {
	for _, node := range append(slices.Clone(workers), controlPlane) {
		if err := c.readiness(node, true)(ctx); err != nil {
			return err
		}
	}
	for _, namespace := range []string{"kube-system", "tutti-system"} {
		pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if !podReady(&pod) {
				return fmt.Errorf("pod %s of %s is not ready", pod.Name, namespace)
			}
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// eventually calls check until it returns nil, and returns its last error when
// the limit is over.
func eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, last)
		case <-time.After(pollInterval):
		}
	}
}
