// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package podresources answers which devices the kubelet has given to pods, and which it may give.
package podresources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tutti-project/tutti/pkg/discovery"
)

const (
	// DefaultSocket is the kubelet's.
	DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

	// answerLimit is how long the kubelet may take.
	answerLimit = 10 * time.Second
	// maxAnswer: a node of many pods and devices has more than gRPC's 4 MiB.
	maxAnswer = 16 << 20
	// maxPause between attempts to reach a kubelet that is away.
	maxPause = 2 * time.Second
)

// Source asks a kubelet. It keeps one connection, which finds the kubelet again after its restarts.
type Source struct {
	resource, socket string
	connection       *grpc.ClientConn
	client           podresourcesv1.PodResourcesListerClient
}

// New makes the source of one resource, nvidia.com/gpu, from the kubelet's socket.
func New(socket, resource string) (*Source, error) {
	pauses := backoff.DefaultConfig
	pauses.MaxDelay = maxPause
	connection, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a file that only root may open
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: answerLimit}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("preparing to ask the kubelet at %s: %w", socket, err)
	}
	return &Source{resource: resource, socket: socket, connection: connection, client: podresourcesv1.NewPodResourcesListerClient(connection)}, nil
}

// Close gives the connection back.
func (s *Source) Close() error { return s.connection.Close() }

// Name is "podresources".
func (s *Source) Name() string { return "podresources" }

// Discover asks for what may be given first: a device that is plugged in between counts as not
// there yet.
func (s *Source) Discover(ctx context.Context) (discovery.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	allocatable, err := s.client.GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	if err != nil {
		return discovery.Facts{}, s.unavailable(err)
	}
	listed, err := s.client.List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return discovery.Facts{}, s.unavailable(err)
	}
	return discovery.Facts{Devices: s.devices(allocatable, listed)}, nil
}

func (s *Source) unavailable(err error) error {
	switch status.Code(err) {
	case codes.Unavailable:
		return discovery.Unavailablef("KubeletUnreachable", "the kubelet does not answer at %s: is the folder mounted, and may this process open the socket? %v", s.socket, err)
	case codes.DeadlineExceeded, codes.Canceled:
		return discovery.Unavailablef("KubeletSlow", "the kubelet took longer than %v: %v", answerLimit, err)
	case codes.Unimplemented:
		return discovery.Unavailablef("KubeletTooOld", "the kubelet does not serve PodResources v1: %v", err)
	}
	return discovery.Unavailablef("KubeletError", "the kubelet answers with an error: %v", err)
}

func (s *Source) devices(allocatable *podresourcesv1.AllocatableResourcesResponse, listed *podresourcesv1.ListPodResourcesResponse) *discovery.Devices {
	found := &discovery.Devices{}
	for _, devices := range allocatable.GetDevices() {
		for _, id := range s.ids(devices) {
			found.Allocatable = append(found.Allocatable, sortOut(found, id)...)
		}
	}
	for _, pod := range listed.GetPodResources() {
		given := discovery.Given{Namespace: pod.GetNamespace(), Pod: pod.GetName()}
		for _, container := range pod.GetContainers() {
			for _, devices := range container.GetDevices() {
				given.IDs = append(given.IDs, s.ids(devices)...)
			}
			given.IDs = append(given.IDs, claimed(container)...)
		}
		for _, id := range given.IDs {
			sortOut(found, id)
		}
		if len(given.IDs) > 0 {
			given.IDs = unique(given.IDs)
			found.Given = append(found.Given, given)
		}
	}
	slices.SortFunc(found.Given, func(a, b discovery.Given) int {
		return strings.Compare(a.Namespace+"/"+a.Pod, b.Namespace+"/"+b.Pod)
	})
	for _, ids := range []*[]string{&found.Allocatable, &found.Shared, &found.Instances, &found.Unknown} {
		*ids = unique(*ids)
	}
	return found
}

// ids are those of the resource. Instances of MIG may have one of their own: nvidia.com/mig-1g.5gb.
func (s *Source) ids(devices *podresourcesv1.ContainerDevices) []string {
	domain, _, _ := strings.Cut(s.resource, "/")
	if name := devices.GetResourceName(); name != s.resource && name != s.resource+".shared" && !strings.HasPrefix(name, domain+"/mig-") {
		return nil
	}
	return devices.GetDeviceIds()
}

// claimed are the GPUs that a container has by a claim.
func claimed(container *podresourcesv1.ContainerResources) (ids []string) {
	for _, dynamic := range container.GetDynamicResources() {
		for _, resource := range dynamic.GetClaimResources() {
			if resource.GetDriverName() == discovery.ClaimDriver {
				ids = append(ids, discovery.ClaimDriver+"/"+resource.GetDeviceName())
			}
		}
	}
	return ids
}

// sortOut puts what is no whole GPU where it belongs, and returns what is.
func sortOut(found *discovery.Devices, id string) []string {
	switch {
	case strings.Contains(id, "::"):
		found.Shared = append(found.Shared, id)
	case strings.HasPrefix(id, "MIG-"):
		found.Instances = append(found.Instances, id)
	case strings.HasPrefix(id, "GPU-"):
		return []string{id}
	case !strings.HasPrefix(id, discovery.ClaimedGPU):
		found.Unknown = append(found.Unknown, id)
	}
	return nil
}

func unique(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}
