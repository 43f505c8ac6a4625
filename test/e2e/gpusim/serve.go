// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resourceName = "nvidia.com/gpu"
	socketName   = "gpusim.sock"
)

// run serves the plugin in the kubelet's folder of plugins until ctx ends. A
// kubelet that starts makes a new socket and removes those of all plugins: the
// plugin then serves on a new one and registers again.
func run(ctx context.Context, folder string, p *plugin, failed func(error)) {
	for ctx.Err() == nil {
		if err := serve(ctx, folder, p); err != nil {
			failed(err)
		}
		sleep(ctx, p.poll)
	}
}

// serve returns when ctx ends, when the kubelet is another, or on an error.
func serve(ctx context.Context, folder string, p *plugin) error {
	own, kubelet := filepath.Join(folder, socketName), filepath.Join(folder, filepath.Base(api.KubeletSocket))
	before, err := os.Stat(kubelet)
	if err != nil {
		return fmt.Errorf("waiting for the kubelet: %w", err)
	}
	if err := os.Remove(own); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, kubelet); err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	for ctx.Err() == nil {
		select {
		case err := <-ended:
			return err
		default:
		}
		after, err := os.Stat(kubelet)
		if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			return nil
		}
		if _, err := os.Stat(own); err != nil {
			return nil
		}
		sleep(ctx, p.poll)
	}
	return nil
}

func register(ctx context.Context, kubelet string) error {
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     socketName,
		ResourceName: resourceName,
		Options:      &api.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
