// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWhatIsSaidOfEmptyHosts draws clusters that hold other pods, and checks what is
// said of the time without them against the twin.
func TestWhatIsSaidOfEmptyHosts(t *testing.T) {
	never, nomore := 0, 0
	for seed := range 4_000 {
		p, empty, minimum := randomOccupied(rand.New(rand.NewPCG(uint64(seed), 73)))
		d := Plan(p)
		if d.Hosts != nil || len(d.Rejections) == 0 {
			continue
		}
		most := 0
		for _, hosts := range twinCandidates(empty, p.Constraint.Required) {
			most = max(most, twinMost(empty, minimum, hosts))
		}
		if fits := most == podsIn(minimum); fits == d.Never() {
			t.Errorf("never: %v, but %d of %v fit", d.Never(), most, minimum)
		}
		if d.Never() {
			never++
			if told := podsIn(d.Empty.Rejections[0].Room); told != most {
				t.Errorf("%d fit without other pods, not %d", most, told)
			}
		}
		if strings.Contains(d.Explain(p), "no more if it were empty") {
			nomore++
			if podsIn(d.Rejections[0].Room) != most {
				t.Errorf("%d fit without other pods: %s", most, d.Explain(p))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: empty %v\n%s", seed, empty.Free, draw(p))
		}
	}
	t.Logf("%d would never fit, of which %d have as much room now", never, nomore)
	if never < 100 || nomore < 50 {
		t.Error("the problems are too one-sided to prove anything")
	}
}

// randomOccupied draws a cluster that holds other pods, and the same without them.
func randomOccupied(rng *rand.Rand) (p, empty Problem, minimum []int) {
	p = randomProblem(rng.IntN)
	p.GPUs = nil
	empty, minimum = p, make([]int, len(p.Roles))
	empty.Free = cloned(p.Free)
	for r := range p.Roles {
		p.Roles[r].Link = 0
		p.Roles[r].EligibleEmpty = p.Roles[r].Eligible
		minimum[r] = p.Roles[r].Minimum
	}
	for h := range empty.Free {
		for d := range empty.Free[h] {
			empty.Free[h][d] += int64(rng.IntN(3) * rng.IntN(2))
		}
		p.Empty = append(p.Empty, Change{Host: h, Free: empty.Free[h]})
	}
	return p, empty, minimum
}
