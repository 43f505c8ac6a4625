// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tutti-project/tutti/pkg/discovery/file"
)

// fakeKubelet takes registrations on the socket of a real one's name.
type fakeKubelet struct {
	api.UnimplementedRegistrationServer
	registered chan *api.RegisterRequest
}

func (k *fakeKubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	k.registered <- request
	return &api.Empty{}, nil
}

func startKubelet(t *testing.T, folder string) (*fakeKubelet, func()) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKubelet{registered: make(chan *api.RegisterRequest, 10)}
	server := grpc.NewServer()
	api.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(listener) }()
	return k, server.Stop
}

// await returns a client of the plugin that registers.
func (k *fakeKubelet) await(t *testing.T, folder string) api.DevicePluginClient {
	t.Helper()
	select {
	case request := <-k.registered:
		if request.ResourceName != "nvidia.com/gpu" || request.Version != api.Version || !request.Options.GetPreferredAllocationAvailable {
			t.Errorf("registered %v", request)
		}
		connection, err := grpc.NewClient("unix:"+filepath.Join(folder, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		return api.NewDevicePluginClient(connection)
	case <-time.After(time.Minute):
		t.Fatal("the plugin has not registered within a minute")
		return nil
	}
}

func healthy(t *testing.T, stream grpc.ServerStreamingClient[api.ListAndWatchResponse]) int {
	t.Helper()
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, device := range response.Devices {
		if device.Health == api.Healthy {
			n++
		}
	}
	return n
}

func TestPluginServesAKubeletAndItsSuccessor(t *testing.T) {
	folder, err := os.MkdirTemp("", "gpusim") //nolint:usetesting // t.TempDir's path is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	sick := filepath.Join(folder, "unhealthy")
	p := &plugin{node: "n", scores: hostScores(t, "dgx-1v"), unhealthy: sick, poll: 10 * time.Millisecond, random: rand.New(rand.NewPCG(1, 0))}
	description := filepath.Join(folder, descriptionName)
	p.describe = func(sick []int) error {
		return describe("../../../pkg/topology/testdata/hosts/dgx-1v", "n", description, sick)
	}
	kubelet, stop := startKubelet(t, folder)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { run(ctx, folder, p, func(error) {}); close(ended) }()
	defer func() { cancel(); <-ended }()

	client := kubelet.await(t, folder)
	stream, err := client.ListAndWatch(t.Context(), &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if n := healthy(t, stream); n != 8 {
		t.Errorf("%d healthy GPUs, want 8", n)
	}
	if err := os.WriteFile(sick, []byte("2 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := healthy(t, stream); n != 6; n = healthy(t, stream) { // a half-written file may be read
	}
	checkDescribed(t, description, "GPU-n-2", "GPU-n-5")
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	for n := healthy(t, stream); n != 8; n = healthy(t, stream) {
	}

	checkAllocation(t, client)

	stop() // it removes its socket, as a kubelet that starts does with the plugins'
	kubelet, stop = startKubelet(t, folder)
	defer stop()
	client = kubelet.await(t, folder)
	if stream, err = client.ListAndWatch(t.Context(), &api.Empty{}); err != nil {
		t.Fatal(err)
	}
	if n := healthy(t, stream); n != 8 {
		t.Errorf("the next kubelet sees %d healthy GPUs, want 8", n)
	}
}

// checkDescribed checks which GPUs agents are told to be unhealthy.
func checkDescribed(t *testing.T, description string, unhealthy ...string) {
	t.Helper()
	topologies, err := file.Read(description)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, ill := range topologies[0].Status.Unhealthy {
		told = append(told, ill.UUID)
	}
	if !slices.Equal(told, unhealthy) {
		t.Errorf("agents are told of the unhealthy GPUs %v, want %v", told, unhealthy)
	}
}

func checkAllocation(t *testing.T, client api.DevicePluginClient) {
	t.Helper()
	ids := []string{"GPU-n-0", "GPU-n-3"}
	answer, err := client.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.ContainerResponses[0].Envs["NVIDIA_VISIBLE_DEVICES"]; got != "GPU-n-0,GPU-n-3" {
		t.Errorf("the container sees %s", got)
	}
	preferred, err := client.GetPreferredAllocation(t.Context(), &api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: []string{"GPU-n-0", "GPU-n-1", "GPU-n-3", "GPU-n-6"}, MustIncludeDeviceIDs: []string{"GPU-n-0"}, AllocationSize: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := preferred.ContainerResponses[0].DeviceIDs; len(got) != 2 {
		t.Errorf("of two GPUs these are preferred: %v", got)
	}
	if _, err := client.Allocate(t.Context(), &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"GPU-n-8"}}}}); err == nil {
		t.Error("a GPU that is not there was allocated")
	}
}
