// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-project/tutti/pkg/apis/tutti"
	"github.com/tutti-project/tutti/pkg/topology"
)

// LinkOf reads the weakest link that a PodGroup allows between the GPUs of one pod.
func LinkOf(annotations map[string]string) (topology.Demand, error) {
	value, asked := annotations[tutti.GPULinkAnnotation]
	if !asked {
		return 0, nil
	}
	link, err := topology.ParseDemand(value)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", tutti.GPULinkAnnotation, err)
	}
	return link, nil
}

// Demand is what the link demands of a pod of the role, and the entry of these
// resources that counts the GPUs between which it is to be. A pod of one GPU
// demands nothing. GPUs of a sort that no NodeTopology tells of, shared ones and
// instances are demanded like others, though no host is known to have it linked.
func (r Role) Demand(link topology.Demand, resources []string) (demand topology.Demand, gpu int) {
	if link == 0 {
		return 0, 0
	}
	several := func(name string) bool { return isGPU(name) && r.Request[name] > 1 }
	if several(gpuResource) {
		return link, slices.Index(resources, gpuResource)
	}
	if i := slices.IndexFunc(resources, several); i >= 0 {
		return link, i
	}
	return 0, 0
}

// isGPU tells GPUs and their parts from other devices by the names that device
// plugins give them.
func isGPU(resource string) bool {
	_, name, _ := strings.Cut(resource, "/")
	return name == "gpu" || strings.HasPrefix(name, "gpu.") || strings.HasPrefix(name, "mig-")
}
