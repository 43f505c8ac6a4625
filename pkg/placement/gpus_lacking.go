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
	Hosts int // so many, of which Host is the first
	Host  int
	Known bool   // what links Host has
	Why   string // they are not known, if that is
	Size  int    // GPUs that one pod asks for
	Free  int    // GPUs of Host that are free
	Link  topology.Demand
	// Picked: the planner would pick the GPUs, and finds none; else the device
	// plugin may pick such as will not do.
	Picked bool
}

// linksLacking looks for such hosts in the domain, in what the packing just done
// has left; nil if there are none. O(hosts of the domain).
func (pl *plan) linksLacking(role, t, k int) *LinkShortage {
	s := pl.shapes[role]
	if s.link == 0 {
		return nil
	}
	var found *LinkShortage
	for h := range pl.hostsOf(t, []int{k}).all() {
		if !pl.isOfKind(h, pl.kinds[role]) || pl.marks.asked[role][h] == ineligible ||
			pl.slotsIn(pl.room.free(h), role) == 0 || pl.room.slots(role, h) > 0 {
			continue
		}
		if found == nil {
			g := pl.gpusOn(h)
			known := g.known(pl.freeOn(h)) && g.Resource == s.gpu
			found = &LinkShortage{
				Host: h, Known: known, Why: g.Unknown, Size: int(s.request[s.gpu]), Free: int(pl.room.free(h)[s.gpu]), Link: s.link,
				Picked: g.PlannerPicks || known && g.Free.Len() == int(s.request[s.gpu]),
			}
		}
		found.Hosts++
	}
	return found
}

// reason: "2 free GPUs on n3 are not NVLink-connected".
func (l LinkShortage) reason(p Problem) string {
	name, joined := p.Tree.HostName(l.Host), "connected by "+l.Link.String()
	if l.Link.String() == "nvlink" {
		joined = "NVLink-connected"
	}
	text := ""
	switch {
	case !l.Known:
		text = fmt.Sprintf("it is not known how the GPUs of %s are linked", name)
		if l.Why != "" {
			text += ": " + l.Why
		}
	case l.Picked && l.Free == l.Size:
		text = fmt.Sprintf("%d free GPUs on %s are not %s", l.Size, name, joined)
	case l.Picked:
		text = fmt.Sprintf("no %d of the %d free GPUs on %s are %s", l.Size, l.Free, name, joined)
	default:
		text = fmt.Sprintf("the device plugin may pick %d of the free GPUs on %s that are not %s", l.Size, name, joined)
	}
	if l.Hosts > 1 {
		text += ", and likewise " + count(l.Hosts-1, "other host")
	}
	return text
}
