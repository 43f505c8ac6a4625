// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const podResourcesSocket = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"

// printGiven prints a line for each pod that holds GPUs, by what the kubelet says:
// its namespace and name, and the ids.
func printGiven(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(podResourcesSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := podresources.NewPodResourcesListerClient(connection).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return fmt.Errorf("asking the kubelet: %w", err)
	}
	for _, pod := range answer.PodResources {
		var ids []string
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				if devices.ResourceName == resourceName {
					ids = append(ids, devices.DeviceIds...)
				}
			}
		}
		if len(ids) > 0 {
			fmt.Fprintln(out, pod.Namespace+"/"+pod.Name, strings.Join(ids, " "))
		}
	}
	return nil
}
