// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AgentNamespace is where agents run.
const AgentNamespace = "tutti-agent"

// InstallAgent applies manifests/agent, the DaemonSet excepted.
func (c *ControlPlane) InstallAgent(ctx context.Context) error {
	objects, err := c.kustomize(ctx, filepath.Join(c.root, "manifests", "agent"))
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "DaemonSet" {
			continue
		}
		if err := c.Apply(ctx, "", object); err != nil {
			return fmt.Errorf("installing the agent: %w", err)
		}
	}
	return nil
}

// AgentToken is one of an agent's service account, as the kubelet gets it for a
// pod on the node; for no node it is bound to none.
func (c *ControlPlane) AgentToken(ctx context.Context, node string) (string, error) {
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := c.Client.CoreV1().Pods(AgentNamespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "tutti-agent-"},
			Spec: corev1.PodSpec{
				ServiceAccountName: "tutti-agent", NodeName: node,
				Containers: []corev1.Container{{Name: "tutti-agent", Image: "tutti-agent:dev"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("making the agent's pod: %w", err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := c.Client.CoreV1().ServiceAccounts(AgentNamespace).CreateToken(ctx, "tutti-agent", request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making the agent's token: %w", err)
	}
	return answer.Status.Token, nil
}

// TokenKubeconfig writes a kubeconfig file for the owner of a token.
func (c *ControlPlane) TokenKubeconfig(name, token string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["tutti"] = &clientcmdapi.Cluster{Server: c.url, CertificateAuthorityData: c.authority.pem}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["tutti"] = &clientcmdapi.Context{Cluster: "tutti", AuthInfo: name}
	config.CurrentContext = "tutti"
	path := filepath.Join(c.dir, fileName(name)+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// StartAgent runs bin/tutti-agent as the agent of a node.
func (c *ControlPlane) StartAgent(ctx context.Context, node string, args ...string) (*Process, error) {
	token, err := c.AgentToken(ctx, node)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.TokenKubeconfig("agent-"+node, token)
	if err != nil {
		return nil, err
	}
	return c.run("tutti-agent", append([]string{
		"run",
		"--node-name=" + node,
		"--kubeconfig=" + kubeconfig,
		"--health-probe-bind-address=0",
		"--metrics-bind-address=0",
		"-v=2",
	}, args...)...)
}

// Publish runs bin/tutti-agent publish as the administrator.
func (c *ControlPlane) Publish(ctx context.Context, file string) error {
	command := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "tutti-agent"), "publish", "-f", file, "--kubeconfig", c.Kubeconfig)
	output, err := command.CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("publishing %s: %w", file, err), errors.New(string(output)))
	}
	return nil
}
