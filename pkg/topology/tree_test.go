// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var twoLevels = []Level{
	{Name: "zone", NodeLabels: []string{"zone"}},
	{Name: "rack", NodeLabels: []string{"our/rack", "their/rack"}},
}

// drawTree writes one line per level: its domains, with their hosts.
func drawTree(t *Tree) string {
	var b strings.Builder
	for level, name := range t.Levels() {
		b.WriteString(name + ":")
		for _, d := range t.Domains(level) {
			fmt.Fprintf(&b, " %s(%s)", d.Path, strings.Join(t.hosts[d.First:d.Last], " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestNew(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts []HostLabels
		want  string
	}{
		"no hosts": {
			want: "cluster: ()\nzone:\nrack:\nhost:\n",
		},
		"names are ordered as numbers are": {
			hosts: []HostLabels{
				{"n10", map[string]string{"zone": "a", "our/rack": "r2"}},
				{"n9", map[string]string{"zone": "a", "our/rack": "r10"}},
				{"n2", map[string]string{"zone": "a", "our/rack": "r2"}},
			},
			want: "cluster: (n2 n10 n9)\nzone: a(n2 n10 n9)\nrack: a/r2(n2 n10) a/r10(n9)\nhost: a/r2/n2(n2) a/r2/n10(n10) a/r10/n9(n9)\n",
		},
		"racks of the same name in two zones are two racks": {
			hosts: []HostLabels{
				{"n1", map[string]string{"zone": "a", "our/rack": "r1"}},
				{"n2", map[string]string{"zone": "b", "our/rack": "r1"}},
				{"n3", map[string]string{"zone": "a", "our/rack": "r1"}},
			},
			want: "cluster: (n1 n3 n2)\nzone: a(n1 n3) b(n2)\nrack: a/r1(n1 n3) b/r1(n2)\nhost: a/r1/n1(n1) a/r1/n3(n3) b/r1/n2(n2)\n",
		},
		"the first label with a value counts": {
			hosts: []HostLabels{
				{"n1", map[string]string{"zone": "a", "our/rack": "", "their/rack": "x"}},
				{"n2", map[string]string{"zone": "a", "our/rack": "x", "their/rack": "y"}},
			},
			want: "cluster: (n1 n2)\nzone: a(n1 n2)\nrack: a/x(n1 n2)\nhost: a/x/n1(n1) a/x/n2(n2)\n",
		},
		"a host without a rack is a rack of its own": {
			hosts: []HostLabels{
				{"n1", map[string]string{"zone": "a"}},
				{"n2", map[string]string{"zone": "a"}},
				{"n3", map[string]string{"zone": "a", "our/rack": "r1"}},
			},
			want: "cluster: (n3 n1 n2)\nzone: a(n3 n1 n2)\nrack: a/r1(n3) a/n1(n1) a/n2(n2)\nhost: a/r1/n3(n3) a/n1(n1) a/n2(n2)\n",
		},
		"a host without any label is a domain of its own at every level": {
			hosts: []HostLabels{{Name: "n1"}, {Name: "n2"}},
			want:  "cluster: (n1 n2)\nzone: n1(n1) n2(n2)\nrack: n1(n1) n2(n2)\nhost: n1(n1) n2(n2)\n",
		},
		"without zones each rack counts as a zone, and stays whole": {
			hosts: []HostLabels{
				{"n1", map[string]string{"our/rack": "r1"}},
				{"n2", map[string]string{"our/rack": "r1"}},
				{"n3", map[string]string{"our/rack": "r2"}},
			},
			want: "cluster: (n1 n2 n3)\nzone: r1(n1 n2) r2(n3)\nrack: r1(n1 n2) r2(n3)\nhost: r1/n1(n1) r1/n2(n2) r2/n3(n3)\n",
		},
		"hostile values do not collide": {
			hosts: []HostLabels{
				{"n1", map[string]string{"zone": "a/b", "our/rack": "c"}},
				{"n2", map[string]string{"zone": "a", "our/rack": "b/c"}},
				{"n3", map[string]string{"zone": "a", "our/rack": "n4"}}, // named like a host
				{"n4", map[string]string{"zone": "a"}},                   // which is its own rack
				{"n5", map[string]string{"zone": "r"}},                   // a zone named like
				{"n6", map[string]string{"our/rack": "r"}},               // a rack without a zone
			},
			want: "cluster: (n2 n3 n4 n1 n5 n6)\n" +
				"zone: a(n2 n3 n4) a/b(n1) r(n5) r(n6)\n" +
				"rack: a/b/c(n2) a/n4(n3) a/n4(n4) a/b/c(n1) r/n5(n5) r(n6)\n" +
				"host: a/b/c/n2(n2) a/n4/n3(n3) a/n4(n4) a/b/c/n1(n1) r/n5(n5) r/n6(n6)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := drawTree(New(twoLevels, tc.hosts))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTreeInvariants holds for any labels and any order of hosts.
func TestTreeInvariants(t *testing.T) {
	for seed := range 500 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		values := []string{"", "1", "01", "10", "a", "a/1", "n1", "n2"}
		hosts := make([]HostLabels, rng.IntN(20))
		for i := range hosts {
			hosts[i] = HostLabels{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}
			for _, key := range []string{"zone", "our/rack", "their/rack"} {
				hosts[i].Labels[key] = values[rng.IntN(len(values))]
			}
		}
		tree := New(twoLevels, hosts)
		rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		if diff := cmp.Diff(drawTree(tree), drawTree(New(twoLevels, hosts))); diff != "" {
			t.Fatalf("seed %d: the order of hosts matters:\n%s", seed, diff)
		}
		checkTree(t, tree)
		labels := make(map[string]map[string]string)
		for _, h := range hosts {
			labels[h.Name] = h.Labels
		}
		for a := range tree.Hosts() {
			for b := range a {
				la, lb := labels[tree.HostName(a)], labels[tree.HostName(b)]
				if za, zb := la["zone"], lb["zone"]; za != "" && zb != "" && (za == zb) != (tree.DomainOf(a, 1) == tree.DomainOf(b, 1)) {
					t.Fatalf("seed %d: zones of %s and %s", seed, tree.HostName(a), tree.HostName(b))
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, drawTree(tree))
		}
	}
}

// checkTree checks that every level partitions every domain of the one above.
func checkTree(t *testing.T, tree *Tree) {
	t.Helper()
	id := 0
	for level := range tree.Levels() {
		next := 0
		for _, d := range tree.Domains(level) {
			if d.ID != id || d.Level != level || d.First != next || tree.Domain(id) != d {
				t.Errorf("domain %+v is out of place", d)
			}
			if level > 0 {
				checkNested(t, tree, d)
			}
			id, next = id+1, d.Last
		}
		if next != tree.Hosts() {
			t.Errorf("level %d ends at host %d of %d", level, next, tree.Hosts())
		}
	}
	for h := range tree.Hosts() {
		checkHost(t, tree, h)
	}
}

func checkHost(t *testing.T, tree *Tree, h int) {
	t.Helper()
	if i, ok := tree.HostIndex(tree.HostName(h)); !ok || i != h {
		t.Errorf("host %d is found as %d", h, i)
	}
	for level := range tree.Levels() {
		if d := tree.Domain(tree.DomainOf(h, level)); d.Level != level || h < d.First || h >= d.Last {
			t.Errorf("host %d is not in its domain %+v of level %d", h, d, level)
		}
	}
}

func checkNested(t *testing.T, tree *Tree, d Domain) {
	t.Helper()
	if p := tree.Domain(d.Parent); p.Level != d.Level-1 || d.First < p.First || d.Last > p.Last {
		t.Errorf("domain %+v is not in its parent %+v", d, p)
	}
	if d.First >= d.Last {
		t.Errorf("domain %+v has no hosts", d)
	}
	if d.Level == len(tree.Levels())-1 && d.Last != d.First+1 {
		t.Errorf("domain %+v is not one host", d)
	}
}

func TestLevelIndexTakesNamesAndLabels(t *testing.T) {
	tree := New(DefaultLevels(), nil)
	for name, want := range map[string]string{
		"cluster": "cluster", "rack": "rack", "host": "host", "kubernetes.io/hostname": "host",
		"topology.kubernetes.io/zone": "zone", "topology.tutti.dev/spine": "spine", "nvidia.com/gpu.clique": "nvlink-domain",
	} {
		if i, ok := tree.LevelIndex(name); !ok || tree.Levels()[i] != want {
			t.Errorf("%s: got level %d, %v, want %s", name, i, ok, want)
		}
	}
	for _, name := range []string{"", "Rack", "row", "kubernetes.io/arch"} {
		if _, ok := tree.LevelIndex(name); ok {
			t.Errorf("%q is taken for a level", name)
		}
	}
}

func TestDescribe(t *testing.T) {
	tree := New(twoLevels, []HostLabels{{"n1", map[string]string{"zone": "a", "our/rack": "r1"}}, {Name: "n2"}})
	var got []string
	for level := range tree.Levels() {
		for _, d := range tree.Domains(level) {
			got = append(got, tree.Describe(d.ID))
		}
	}
	want := []string{"the cluster", "zone a", "zone n2", "rack r1 (a/r1)", "rack n2", "host n1 (a/r1/n1)", "host n2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("descriptions (-want +got):\n%s", diff)
	}
}

func TestDefaultLevelsShareNoNameOrLabel(t *testing.T) {
	seen := map[string]bool{Cluster: true, Host: true, hostnameLabel: true}
	for _, l := range DefaultLevels() {
		for _, name := range append([]string{l.Name}, l.NodeLabels...) {
			if seen[name] {
				t.Errorf("%s appears twice", name)
			}
			seen[name] = true
		}
		if want := "topology.tutti.dev/" + l.Name; l.NodeLabels[0] != want {
			t.Errorf("level %s tries %s first, not %s", l.Name, l.NodeLabels[0], want)
		}
	}
}

func TestCompareNaturalOrdersAsPeopleDo(t *testing.T) {
	want := []string{"", "9", "10", "N1", "n", "n-1", "n1", "n01", "n1a", "n2", "n2-9", "n2-10", "n10", "n10a1", "n99999999999999999999", "n100000000000000000000", "na"}
	for seed := range uint64(100) {
		got := slices.Clone(want)
		rand.New(rand.NewPCG(seed, 5)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, CompareNatural)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			hosts := make([]HostLabels, n)
			for i := range hosts {
				hosts[i] = HostLabels{Name: fmt.Sprintf("n%d", i*7919%n), Labels: map[string]string{
					"topology.tutti.dev/spine": fmt.Sprint(i / 500), "topology.tutti.dev/rack": fmt.Sprint(i / 50),
				}}
			}
			b.ReportAllocs()
			for b.Loop() {
				New(DefaultLevels(), hosts)
			}
		})
	}
}

func TestIsNamedTellsDomainsFromWhatStandsInForThem(t *testing.T) {
	tree := New(twoLevels, []HostLabels{
		{Name: "n1", Labels: map[string]string{"zone": "a", "our/rack": "n1"}}, // a rack with a host's name
		{Name: "n2", Labels: map[string]string{"zone": "a"}},
		{Name: "n3", Labels: map[string]string{"our/rack": "r"}},
		{Name: "n4"},
	})
	var named []string
	for id := range tree.domains {
		if level := tree.Domain(id).Level; tree.IsNamed(id) && level > 0 && level < 3 {
			named = append(named, tree.Describe(id))
		}
	}
	if want := []string{"zone a", "rack n1 (a/n1)", "rack r"}; !slices.Equal(named, want) {
		t.Errorf("named are %q, want %q", named, want)
	}
}
