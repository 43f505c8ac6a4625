// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/tutti-project/tutti/pkg/discovery"
	"github.com/tutti-project/tutti/pkg/discovery/discoverytest"
)

const resource = "nvidia.com/gpu"

// kubelet serves PodResources as the kubelet's API module has it.
type kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	allocatable []*podresourcesv1.ContainerDevices
	pods        []*podresourcesv1.PodResources
	silent      atomic.Bool
}

func (k *kubelet) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	if k.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &podresourcesv1.ListPodResourcesResponse{PodResources: k.pods}, nil
}

func (k *kubelet) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	return &podresourcesv1.AllocatableResourcesResponse{Devices: k.allocatable}, nil
}

func serve(t *testing.T, socket string, k podresourcesv1.PodResourcesListerServer) *grpc.Server {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server
}

func newSource(t *testing.T, socket string) *Source {
	t.Helper()
	source, err := New(socket, resource)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

func devices(ids ...string) []*podresourcesv1.ContainerDevices {
	return []*podresourcesv1.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}
}

func pod(name string, container *podresourcesv1.ContainerResources) *podresourcesv1.PodResources {
	return &podresourcesv1.PodResources{Namespace: "n", Name: name, Containers: []*podresourcesv1.ContainerResources{container}}
}

func reason(err error) string {
	var unavailable *discovery.Unavailable
	if errors.As(err, &unavailable) {
		return unavailable.Reason
	}
	return ""
}

func TestDevicesAreSortedByWhatTheyAre(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	serve(t, socket, &kubelet{
		allocatable: append(devices("GPU-b", "GPU-a", "GPU-c::1", "GPU-c::0", "MIG-1", "other"),
			&podresourcesv1.ContainerDevices{ResourceName: "example.com/nic", DeviceIds: []string{"GPU-not"}}),
		pods: []*podresourcesv1.PodResources{
			pod("whole", &podresourcesv1.ContainerResources{Devices: devices("GPU-b")}),
			pod("gone-device", &podresourcesv1.ContainerResources{Devices: devices("GPU-unplugged")}),
			pod("none", &podresourcesv1.ContainerResources{}),
			pod("claim", &podresourcesv1.ContainerResources{DynamicResources: []*podresourcesv1.DynamicResource{{
				ClaimResources: []*podresourcesv1.ClaimResource{{DriverName: "gpu.nvidia.com", DeviceName: "gpu-3"}},
			}}}),
			pod("instance", &podresourcesv1.ContainerResources{Devices: []*podresourcesv1.ContainerDevices{
				{ResourceName: "nvidia.com/mig-1g.5gb", DeviceIds: []string{"MIG-2"}}}}),
		},
	})
	source := newSource(t, socket)
	discoverytest.Run(t, source)
	facts, err := source.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &discovery.Devices{
		Allocatable: []string{"GPU-a", "GPU-b"},
		Shared:      []string{"GPU-c::0", "GPU-c::1"},
		Instances:   []string{"MIG-1", "MIG-2"},
		Unknown:     []string{"other"},
		Given: []discovery.Given{
			{Namespace: "n", Pod: "claim", IDs: []string{"gpu.nvidia.com/gpu-3"}},
			{Namespace: "n", Pod: "gone-device", IDs: []string{"GPU-unplugged"}},
			{Namespace: "n", Pod: "instance", IDs: []string{"MIG-2"}},
			{Namespace: "n", Pod: "whole", IDs: []string{"GPU-b"}},
		},
	}
	if diff := cmp.Diff(want, facts.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

func TestTheKubeletIsFoundAgainAfterItsRestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	source := newSource(t, socket)
	_, err := source.Discover(t.Context())
	if got := reason(err); got != "KubeletUnreachable" {
		t.Errorf("without a kubelet: %v", err)
	}
	discoverytest.Run(t, source)
	for range 2 {
		server := serve(t, socket, &kubelet{allocatable: devices("GPU-a")})
		eventually(t, func() bool { _, err := source.Discover(t.Context()); return err == nil })
		server.Stop()
		eventually(t, func() bool { _, err := source.Discover(t.Context()); return reason(err) == "KubeletUnreachable" })
		_ = os.Remove(socket) // Stop has removed it
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
	}
}

func TestAKubeletThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := &kubelet{}
	k.silent.Store(true)
	serve(t, socket, k)
	source := newSource(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := source.Discover(ctx); reason(err) != "KubeletSlow" {
		t.Errorf("got %v", err)
	}
	k.silent.Store(false)
	if _, err := source.Discover(t.Context()); err != nil {
		t.Errorf("once it answers again: %v", err)
	}
}

// failing answers as old and broken kubelets do.
type failing struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	err error
}

func (f failing) GetAllocatableResources(context.Context, *podresourcesv1.AllocatableResourcesRequest) (*podresourcesv1.AllocatableResourcesResponse, error) {
	return nil, f.err
}

func TestAnswersThatAreNone(t *testing.T) {
	for want, err := range map[string]error{
		"KubeletTooOld": status.Error(codes.Unimplemented, "unknown service"),
		"KubeletError":  status.Error(codes.ResourceExhausted, "rejected by rate limit"),
	} {
		socket := filepath.Join(t.TempDir(), "kubelet.sock")
		serve(t, socket, failing{err: err})
		source := newSource(t, socket)
		discoverytest.Run(t, source)
		if _, err := source.Discover(t.Context()); reason(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestGarbageOnTheSocketIsAState(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte("this is no HTTP/2\r\n\r\n"))
			_ = connection.Close()
		}
	}()
	if _, err := newSource(t, socket).Discover(t.Context()); reason(err) != "KubeletUnreachable" {
		t.Errorf("got %v", err)
	}
}
