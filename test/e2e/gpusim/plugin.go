// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/tutti-project/tutti/pkg/clusterview/machines"
)

// plugin is a host's GPUs as the kubelet sees them.
type plugin struct {
	api.UnimplementedDevicePluginServer

	node   string
	scores [][]int
	// describe writes down which GPUs there are and which are unhealthy, for agents.
	describe func(sick []int) error
	// unhealthy names a file of GPU indexes, by white space; absent means that
	// all are healthy.
	unhealthy string
	poll      time.Duration

	mu     sync.Mutex
	random *rand.Rand
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch sends all devices at first and whenever the health of one changed.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	tick := time.NewTicker(p.poll)
	defer tick.Stop()
	var sent []int
	for first := true; ; first = false {
		sick, err := p.sick()
		if err != nil {
			return err
		}
		if first || !slices.Equal(sick, sent) {
			if err := p.describe(sick); err != nil {
				return err
			}
			if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices(sick)}); err != nil {
				return err
			}
			sent = sick
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *plugin) devices(sick []int) []*api.Device {
	var devices []*api.Device
	for i := range p.scores {
		health := api.Healthy
		if slices.Contains(sick, i) {
			health = api.Unhealthy
		}
		devices = append(devices, &api.Device{ID: machines.UUID(p.node, i), Health: health})
	}
	return devices
}

// sick reads the indexes of the unhealthy GPUs.
func (p *plugin) sick() ([]int, error) {
	text, err := os.ReadFile(p.unhealthy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sick []int
	for field := range strings.FieldsSeq(string(text)) {
		i, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.unhealthy, err)
		}
		sick = append(sick, i)
	}
	return sick, nil
}

func (p *plugin) GetPreferredAllocation(_ context.Context, request *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	response := &api.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		available, err := p.indexes(container.AvailableDeviceIDs)
		if err != nil {
			return nil, err
		}
		required, err := p.indexes(container.MustIncludeDeviceIDs)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, gpu := range prefer(p.scores, available, required, int(container.AllocationSize), p.random) {
			ids = append(ids, machines.UUID(p.node, gpu))
		}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return response, nil
}

// Allocate tells the container its GPUs as NVIDIA's plugin does.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if _, err := p.indexes(container.DevicesIds); err != nil {
			return nil, err
		}
		envs := map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{Envs: envs})
	}
	return response, nil
}

func (p *plugin) indexes(ids []string) ([]int, error) {
	var indexes []int
	all := p.devices(nil)
	for _, id := range ids {
		i := slices.IndexFunc(all, func(gpu *api.Device) bool { return gpu.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("%q is no GPU of this host", id)
		}
		indexes = append(indexes, i)
	}
	return indexes, nil
}
