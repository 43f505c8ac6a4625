// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tutti-project/tutti/pkg/clusterview/machines"
)

// idleKubelet has given nothing.
type idleKubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	node string
}

func (k idleKubelet) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{}, nil
}

func (k idleKubelet) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	devices := &podresourcesv1.ContainerDevices{ResourceName: "nvidia.com/gpu"}
	for i := range gpus {
		devices.DeviceIds = append(devices.DeviceIds, machines.UUID(k.node, i))
	}
	return &podresourcesv1.AllocatableResourcesResponse{Devices: []*podresourcesv1.ContainerDevices{devices}}, nil
}

// serveKubelet answers on a socket until ctx is done.
func serveKubelet(ctx context.Context, socket, node string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("serving a kubelet's socket: %w", err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, idleKubelet{node: node})
	context.AfterFunc(ctx, server.Stop)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	return nil
}
