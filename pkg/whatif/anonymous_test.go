// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-project/tutti/pkg/snapshot"
	"github.com/tutti-project/tutti/pkg/snapshot/sketch"
	"github.com/tutti-project/tutti/pkg/topology"
)

// rename gives the names that Anonymize gave, found by position.
func rename(before, after *snapshot.Snapshot, gang types.NamespacedName) types.NamespacedName {
	for i, o := range before.Objects {
		if o.GetKind() == "PodGroup" && snapshot.KeyOf(o) == gang {
			return snapshot.KeyOf(after.Objects[i])
		}
	}
	return types.NamespacedName{}
}

func TestAnonymousSnapshotsDecideAlike(t *testing.T) {
	for name, lines := range map[string]string{
		"placed":   "node beta-9 row-b gpus=8\nnode beta-10 row-b gpus=8\nnode alpha row-a gpus=8\ngang secret pods=2 gpus=8",
		"refused":  "node beta row-b gpus=8\nnode alpha row-a gpus=8\ngang secret pods=2 gpus=8 annotations={tutti.dev/required-topology:~rack}",
		"native":   "node beta row-b gpus=8\nnode alpha row-a gpus=8\nnative secret pods=2 gpus=8 group=schedulingConstraints:~{topology:~[{key:~topology.tutti.dev/rack}]}",
		"selected": "node beta row-b gpus=8 labels=acme.example/disk:~fast\nnode alpha row-a gpus=8\ngang secret pods=1 gpus=8 spec=nodeSelector:~{acme.example/disk:~fast}",
		"tainted":  "node beta row-b gpus=8 node=taints:~[{key:~acme,value:~ours,effect:~NoSchedule}]\ngang secret pods=1 gpus=8 spec=tolerations:~[{key:~acme,value:~ours,operator:~Equal}]",
	} {
		t.Run(name, func(t *testing.T) {
			before := sketch.Cluster(t, lines)
			after := before.Anonymize(topology.DefaultLevels())
			var file bytes.Buffer
			if err := after.Write(&file); err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"beta", "alpha", "row-", "secret", "acme", "fast", "ours", "ns", "uid"} {
				if regexp.MustCompile(`\b` + secret).MatchString(strings.ReplaceAll(file.String(), "uid:", "")) {
					t.Errorf("%q is still there:\n%s", secret, file.String())
				}
			}
			again, err := snapshot.Read(&file)
			if err != nil {
				t.Fatal(err)
			}
			first := run(t, before, Target{Gang: in("secret")}, Options{})
			second := run(t, again, Target{Gang: rename(before, after, in("secret"))}, Options{})
			if first.Placed != second.Placed || first.Reason != second.Reason || !slices.Equal(hostsOf(before, first), hostsOf(again, second)) {
				t.Errorf("before: %s %s\nafter: %s %s", places(first), first.Message, places(second), second.Message)
			}
		})
	}
}

// hostsOf are the positions of the pods' nodes in the snapshot.
func hostsOf(s *snapshot.Snapshot, o *Outcome) []string {
	var hosts []string
	for _, pod := range o.Pods {
		for i, node := range s.Of("Node") {
			if node.GetName() == pod.Node {
				hosts = append(hosts, fmt.Sprint(i))
			}
		}
	}
	return hosts
}
