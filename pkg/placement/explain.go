// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Explain puts the decision into one or two sentences for people. p is the
// problem that it answers.
func (d Decision) Explain(p Problem) string {
	if d.Hosts != nil {
		return d.explainPlaced(p)
	}
	var b strings.Builder
	all := "all " + pods(totalMinimum(p))
	if totalMinimum(p) == 1 {
		all = "its pod"
	}
	if wanted := totalPods(p); wanted > totalMinimum(p) {
		all = fmt.Sprintf("the minimum of %s (of %d)", pods(totalMinimum(p)), wanted)
	}
	level := p.Tree.Levels()[p.Constraint.Required]
	switch {
	case p.Tree.Hosts() == 0:
		b.WriteString("the cluster has no hosts")
	case len(d.Rejections) == 0:
		fmt.Fprintf(&b, "pods of the gang already run in %d domains of level %s, but all must be in one", anchorDomains(p), level)
	case p.Constraint.Required == 0:
		fmt.Fprintf(&b, "%s does not take %s: it has room for %s", p.Tree.Describe(d.Rejections[0].Domain), all, d.room(p))
	case len(p.Anchors) > 0:
		fmt.Fprintf(&b, "%s, where other pods of the gang run, does not take %s: it has room for %s",
			p.Tree.Describe(d.Rejections[0].Domain), all, d.room(p))
	default:
		best := "best"
		if d.Roughly {
			best = "best found"
		}
		fmt.Fprintf(&b, "no %s takes %s: %s is %s, which has room for %s",
			level, all, best, p.Tree.Describe(d.Rejections[0].Domain), d.room(p))
	}
	b.WriteString(d.everEmpty(p))
	if p.Constraint.SliceSize > 1 {
		fmt.Fprintf(&b, "; every %d ranks of a role must share a %s", p.Constraint.SliceSize, p.Tree.Levels()[p.Constraint.SliceLevel])
	}
	b.WriteString(d.ofKinds(p))
	b.WriteString(d.nearer(p))
	if d.Wider != nil {
		fmt.Fprintf(&b, "; %s would take it", p.Tree.Describe(d.Wider.ID))
	}
	b.WriteString(d.excluded())
	if d.Bounded {
		b.WriteString("; the search stopped at its limit, so an arrangement may have been missed")
	}
	return b.String()
}

// ofKinds: "; all pods of worker on one kind of host, here H100".
func (d Decision) ofKinds(p Problem) string {
	var b strings.Builder
	told := 0
	for r, kind := range d.Kinds {
		if kind == "" {
			continue
		}
		if told++; told <= maxTold {
			fmt.Fprintf(&b, "; all pods of %s on one kind of host, here %s", p.Roles[r].Name, kind)
		}
	}
	if told > maxTold {
		fmt.Fprintf(&b, "; the same of %s", count(told-maxTold, "other role"))
	}
	return b.String()
}

// nearer names the domains of wider levels that would lack less.
func (d Decision) nearer(p Problem) string {
	if len(d.Rejections) == 0 {
		return ""
	}
	var b strings.Builder
	missing := d.Rejections[0].missing()
	for _, rj := range d.Levels {
		if rj.missing() < missing {
			missing = rj.missing()
			fmt.Fprintf(&b, "; %s would have room for %s", p.Tree.Describe(rj.Domain), rj.room(p, d.told(p)))
		}
	}
	return b.String()
}

// explainPlaced: "6 pods (2 ps, 4 worker) on 4 hosts of rack r3 (zone-a/s1/r3)".
func (d Decision) explainPlaced(p Problem) string {
	total, hosts := 0, make(map[int]bool)
	var roles, waiting []string
	for r, role := range p.Roles {
		placed := 0
		for _, h := range d.Hosts[r] {
			if h != Unplaced {
				placed++
				hosts[h] = true
			}
		}
		total += placed
		roles = enlisted(roles, placed, role.Name)
		waiting = enlisted(waiting, role.Pods-placed, role.Name)
	}
	if total == 0 {
		if n := anchorDomains(p); n > 1 {
			return fmt.Sprintf("no pod is placed: others of the gang run in %d domains of level %s, but all must be in one", n, p.Tree.Levels()[p.Constraint.Required])
		}
		if len(waiting) == 0 {
			return "there is no pod to place"
		}
		return "no pod is placed: beyond the minimum there is no room for " + listed(waiting)
	}
	where := p.Tree.Describe(d.Domain)
	if d.Level < len(p.Tree.Levels())-1 {
		where = count(len(hosts), "host") + " of " + where
	}
	text := fmt.Sprintf("%s (%s) on %s", pods(total), strings.Join(roles, ", "), where)
	if len(waiting) > 0 {
		text += "; beyond the minimum there is no room for " + listed(waiting)
	}
	if d.Bounded {
		text += "; the search stopped at its limit, so a narrower domain may have been missed"
	}
	return text
}

// enlisted adds so many pods of a role to a list that ends somewhere.
func enlisted(list []string, pods int, role string) []string {
	switch {
	case pods == 0 || len(list) > maxTold:
		return list
	case len(list) == maxTold:
		return append(list, "others")
	default:
		return append(list, fmt.Sprintf("%d %s", pods, role))
	}
}

// room is that of the nearest domain: "2 of 2 ps and 3 of 4 worker
// (nvidia.com/gpu short by 8)".
func (d Decision) room(p Problem) string { return d.Rejections[0].room(p, d.told(p)) }

// told: what limits the gang beside resources is said elsewhere.
func (d Decision) told(p Problem) bool { return len(d.Exclusions) > 0 || p.Constraint.SliceSize > 1 }

func (rj Rejection) room(p Problem, told bool) string {
	short := make(map[int]string, len(rj.Shortages))
	for _, s := range rj.Shortages {
		short[s.Role] = s.reason(p, told)
	}
	var needed []int
	for r, role := range p.Roles {
		if min(role.Minimum, role.Pods) > 0 {
			needed = append(needed, r)
		}
	}
	if len(needed) > maxTold { // what is short is what there is to know
		slices.SortStableFunc(needed, func(a, b int) int {
			return cmp.Compare(missing(p.Roles[b], rj.Room[b]), missing(p.Roles[a], rj.Room[a]))
		})
	}
	var parts []string
	others, room, all := 0, 0, 0
	for _, r := range needed {
		role := p.Roles[r]
		if len(parts) < maxTold {
			parts = append(parts, fmt.Sprintf("%d of %d %s%s", rj.Room[r], min(role.Minimum, role.Pods), role.Name, short[r]))
			continue
		}
		others, room, all = others+1, room+rj.Room[r], all+min(role.Minimum, role.Pods)
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d in %s", room, all, count(others, "other role")))
	}
	if rj.AtLeast {
		return "at least " + listed(parts)
	}
	return listed(parts)
}

func missing(role Role, room int) int { return min(role.Minimum, role.Pods) - room }

// listed: "a, b and c".
func listed(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func (s Shortage) reason(p Problem, told bool) string {
	var parts []string
	if s.Resource != "" {
		part := s.Resource + " short by " + amount(s.Resource, s.Amount)
		if s.Unusable > 0 {
			what := "pod"
			if p.Constraint.SliceSize > 1 {
				what = "slice"
			}
			part += fmt.Sprintf(", beside %s free where no such %s fits", amount(s.Resource, s.Unusable), what)
		}
		parts = append(parts, part)
	}
	if s.Links != nil {
		parts = append(parts, s.Links.reason(p))
	}
	switch {
	case len(parts) > 0:
		return " (" + strings.Join(parts, "; ") + ")"
	case told:
		return "" // the exclusions say it, or the slices
	default:
		return " (no host has everything that a pod asks for at once)"
	}
}

// What an explanation names at most, so that it can be read whatever the problem:
// so many roles, kinds and reasons, each reason with so many letters.
const (
	maxTold   = 4
	maxLetter = 120
)

// excluded: "; 5 hosts excluded: 4 taint gpu=maintenance, 1 unschedulable".
func (d Decision) excluded() string {
	total, told := 0, 0
	var parts []string
	for _, e := range d.Exclusions {
		total += e.Hosts
		if len(parts) < maxTold {
			told += e.Hosts
			parts = append(parts, fmt.Sprintf("%d %s", e.Hosts, shortened(e.Reason)))
		}
	}
	if total == 0 {
		return ""
	}
	if others := len(d.Exclusions) - len(parts); others > 0 {
		parts = append(parts, fmt.Sprintf("and %d for %s", total-told, count(others, "other reason")))
	}
	return fmt.Sprintf("; %s excluded: %s", count(total, "host"), strings.Join(parts, ", "))
}

// shortened is the beginning of what somebody else has written.
func shortened(text string) string {
	if letters := []rune(text); len(letters) > maxLetter {
		return string(letters[:maxLetter]) + "…"
	}
	return text
}

// amount writes a number in the unit that people use for the resource.
func amount(resource string, n int64) string {
	switch resource {
	case "cpu":
		if n%1000 != 0 {
			return fmt.Sprintf("%dm", n)
		}
		return fmt.Sprint(n / 1000)
	case "memory", "ephemeral-storage":
		units := []string{"", "Ki", "Mi", "Gi", "Ti"}
		u := 0
		for n%1024 == 0 && u < len(units)-1 {
			n, u = n/1024, u+1
		}
		return fmt.Sprint(n) + units[u]
	default:
		return fmt.Sprint(n)
	}
}

func anchorDomains(p Problem) int {
	seen := make(map[int]bool)
	for _, h := range p.Anchors {
		seen[p.Tree.DomainOf(h, p.Constraint.Required)] = true
	}
	return len(seen)
}

func totalPods(p Problem) int {
	n := 0
	for _, r := range p.Roles {
		n += r.Pods
	}
	return n
}

func totalMinimum(p Problem) int {
	n := 0
	for _, r := range p.Roles {
		n += min(r.Minimum, r.Pods)
	}
	return n
}

func pods(n int) string { return count(n, "pod") }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
