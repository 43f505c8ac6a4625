// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
	"github.com/tutti-project/tutti/pkg/topology"
)

func TestCounts(t *testing.T) {
	report, err := Of(sketch.Cluster(t, `
node n1 r1 gpus=8
node n2 r1 gpus=8
node n3 r2 gpus=4
node n4 r2 gpus=8 node=unschedulable:~true
pod a on=n1 gpus=3
pod waits gpus=8`), topology.DefaultLevels(), "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range report.Domains {
		fmt.Fprintf(&b, "%d %s: %d nodes, %d not ready, %d/%d used, %d free, %d whole\n", d.Level, d.Description, d.Nodes, d.NotReady, d.Used, d.Total, d.Free, d.WholeNodes)
	}
	for _, l := range report.Levels {
		fmt.Fprintf(&b, "%s: %d, %d of one, %d whole\n", l.Name, l.Domains, l.LargestOfOne, l.LargestOfWhole)
	}
	want := `0 the cluster: 4 nodes, 1 not ready, 3/28 used, 17 free, 2 whole
1 zone z1: 4 nodes, 1 not ready, 3/28 used, 17 free, 2 whole
2 rack r1 (z1/r1): 2 nodes, 0 not ready, 3/16 used, 13 free, 1 whole
3 host n1 (z1/r1/n1): 1 nodes, 0 not ready, 3/8 used, 5 free, 0 whole
3 host n2 (z1/r1/n2): 1 nodes, 0 not ready, 0/8 used, 8 free, 1 whole
2 rack r2 (z1/r2): 2 nodes, 1 not ready, 0/12 used, 4 free, 1 whole
3 host n3 (z1/r2/n3): 1 nodes, 0 not ready, 0/4 used, 4 free, 1 whole
3 host n4 (z1/r2/n4): 1 nodes, 1 not ready, 0/8 used, 0 free, 0 whole
cluster: 1, 17 of one, 2 whole
zone: 1, 17 of one, 2 whole
rack: 2, 13 of one, 1 whole
host: 4, 8 of one, 1 whole
`
	if report.Resource != "nvidia.com/gpu" || b.String() != want {
		t.Errorf("%s:\n%s\nwant\n%s", report.Resource, b.String(), want)
	}
}

func TestNoDevices(t *testing.T) {
	s := sketch.Cluster(t, "node n1 r1")
	if _, err := Of(s, topology.DefaultLevels(), ""); err == nil || !strings.Contains(err.Error(), "--resource") {
		t.Errorf("error %v", err)
	}
	_, err := Of(s, topology.DefaultLevels(), "amd.com/gpu")
	if want := "no node has amd.com/gpu; what nodes have is cpu, memory, pods"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	report, err := Of(s, topology.DefaultLevels(), "cpu")
	if err != nil || report.Levels[0].LargestOfOne == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
