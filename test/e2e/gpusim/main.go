// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Gpusim is a device plugin that gives a node simulated GPUs: as many as its
// topology file has, chosen for a container as NVIDIA's plugin would.
package main

import (
	"context"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	topology := flag.String("topology", "", "file with the link matrix of the GPUs, in the form of pkg/topology/testdata/hosts")
	unhealthy := flag.String("unhealthy", "/var/lib/kubelet/device-plugins/gpusim.unhealthy", "file with the indexes of unhealthy GPUs; none when it is absent")
	folder := flag.String("plugins", api.DevicePluginPath, "the kubelet's folder of device plugins")
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node, a part of the GPUs' ids; the environment's NODE_NAME by default")
	given := flag.Bool("given", false, "print which GPUs the kubelet has given to pods (its PodResources), and exit")
	seed := flag.Uint64("seed", 1, "of the choice among equals")
	flag.Parse()

	if *given {
		if err := printGiven(context.Background(), os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	scores, err := readScores(*topology)
	if err != nil {
		log.Fatalf("reading --topology: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	description := filepath.Join(*folder, descriptionName)
	p := &plugin{node: *node, scores: scores, unhealthy: *unhealthy, poll: time.Second, random: rand.New(rand.NewPCG(*seed, 0))}
	p.describe = func(sick []int) error { return describe(*topology, *node, description, sick) }
	run(ctx, *folder, p, func(err error) { log.Print(err) })
}
