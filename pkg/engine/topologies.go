// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/generated/clientset/versioned"
	"github.com/tutti-project/tutti/pkg/generated/informers/externalversions"
)

// watchTopologies starts the informer of what agents say of the nodes' GPUs. Until
// it has synced nothing is known of them, which holds up no pod that asks for no
// links. Nil where the API server does not have the kind.
func watchTopologies(ctx context.Context, config *schedulerserverconfig.Config) (cache.SharedIndexInformer, error) {
	resource := v1alpha1.SchemeGroupVersion.WithResource("nodetopologies")
	served, err := waitIsServed(ctx, config.Client.Discovery(), resource)
	if err != nil {
		return nil, err
	}
	if !served {
		klog.FromContext(ctx).Info("The API server does not serve NodeTopology objects: links between GPUs are not known", "resource", resource)
		return nil, nil
	}
	client, err := versioned.NewForConfig(config.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client for node topologies: %w", err)
	}
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Topology().V1alpha1().NodeTopologies().Informer()
	factory.StartWithContext(ctx)
	return informer, nil
}
