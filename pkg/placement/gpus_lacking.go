// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	"github.com/tutti-project/tutti/pkg/topology"
)

// LinkShortage tells of hosts that have what a pod asks for, but whose GPUs lack
// the links that it demands or are not known to have them.
type LinkShortage struct {
	Lack    int // so many lack them
	Unknown int // of so many it is not known
	Host    int // the first that lacks them, or if none does, of which it is not known
	Why     string
	Size    int // GPUs that one pod asks for
	Free    int // GPUs of Host that are free
	Link    topology.Demand
	// Picked: the planner would pick the GPUs, and finds none; else the device
	// plugin may pick such as will not do.
	Picked bool
}

// linksLacking looks for such hosts in the domain, in what the packing just done
// has left; nil if there are none. With ask it asks of some whether they are eligible,
// which nobody has where no pod fits in any case. O(hosts of the domain).
func (pl *plan) linksLacking(role, t, k int, ask bool) *LinkShortage {
	s := pl.shapes[role]
	if s.link == 0 {
		return nil
	}
	questions, found := 0, LinkShortage{Size: int(s.request[s.gpu]), Link: s.link}
	for h := range pl.hostsOf(t, []int{k}).all() {
		if !pl.isOfKind(h, pl.kinds[role]) || pl.marks.asked[role][h] == ineligible || !pl.lacksLinks(role, h, pl.room.free(h)) {
			continue
		}
		if ask && questions < maxLookedInto && pl.marks.asked[role][h] == unasked {
			if questions++; !pl.mayUse(role, h) {
				continue
			}
		}
		pl.countLacking(&found, h, s.gpu)
	}
	if found.Lack+found.Unknown == 0 {
		return nil
	}
	return &found
}

// countLacking adds a host whose GPUs, devices of this resource, will not do.
func (pl *plan) countLacking(found *LinkShortage, h, gpu int) {
	g := pl.gpusOn(h)
	switch known := g.known(pl.freeOn(h)) && g.Resource == gpu; {
	case !known && found.Unknown == 0 && found.Lack == 0:
		found.Host, found.Why = h, g.Unknown
		fallthrough
	case !known:
		found.Unknown++
	case found.Lack == 0:
		found.Host, found.Free = h, int(pl.room.free(h)[gpu])
		found.Picked = g.PlannerPicks || g.Free.Len() == found.Size
		fallthrough
	default:
		found.Lack++
	}
}

// reason: "2 free GPUs on n3 are not NVLink-connected".
func (l LinkShortage) reason(p Problem) string {
	name, joined := p.Tree.HostName(l.Host), "connected by "+l.Link.String()
	if l.Link.String() == "nvlink" {
		joined = "NVLink-connected"
	}
	text := ""
	switch {
	case l.Lack == 0:
		text = fmt.Sprintf("it is not known how the GPUs of %s are linked", name)
		if l.Why != "" {
			text += ": " + shortened(l.Why)
		}
		if l.Unknown > 1 {
			text += "; nor of " + count(l.Unknown-1, "other host")
		}
		return text
	case l.Picked && l.Free == l.Size:
		text = fmt.Sprintf("%d free GPUs on %s are not %s", l.Size, name, joined)
	case l.Picked:
		text = fmt.Sprintf("no %d of the %d free GPUs on %s are %s", l.Size, l.Free, name, joined)
	default:
		text = fmt.Sprintf("the device plugin may pick %d of the free GPUs on %s that are not %s", l.Size, name, joined)
	}
	if l.Lack > 1 {
		text += ", and likewise on " + count(l.Lack-1, "other host")
	}
	if l.Unknown > 0 {
		text += "; of " + count(l.Unknown, "host") + " it is not known"
	}
	return text
}
