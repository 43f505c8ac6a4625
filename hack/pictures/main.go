// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command pictures draws what wishes of topology mean: it asks the planner, and
// paints its answers. It writes the SVG to the file that it is given.
package main

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"strings"

	"github.com/tutti-project/tutti/pkg/placement"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures FILE.svg")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], picture(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Measures in pixels.
const (
	cell      = 11 // a GPU and the gap after it
	hostHigh  = 20
	hostWide  = gpus*cell + 34
	rackWide  = hostWide + 16
	rackHigh  = perRack*hostHigh + 28
	panelWide = spines*perSpine*rackWide + 66
	panelHigh = rackHigh + 88
)

// Colours that the colour-blind tell apart; roles have letters as well.
var colours = []string{"#0072b2", "#d55e00"}

func picture() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		panelWide, len(wishes)*panelHigh+24)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for i, w := range wishes {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", 0, i*panelHigh)
		w.draw(&b)
		b.WriteString("</g>\n")
	}
	fmt.Fprintf(&b, `<g transform="translate(20,%d)">`, len(wishes)*panelHigh)
	gpu(&b, 0, 0, "#999", "")
	b.WriteString(`<text x="16" y="10">taken by others</text>`)
	gpu(&b, 130, 0, "#eee", "")
	b.WriteString(`<text x="146" y="10">free</text>`)
	gpu(&b, 200, 0, colours[0], "0")
	b.WriteString(`<text x="216" y="10">a GPU of the pod of this rank; a chief's is C</text></g>` + "\n</svg>\n")
	return b.Bytes()
}

func (w wish) draw(b *bytes.Buffer) {
	p := w.problem()
	d := placement.Plan(p)
	fmt.Fprintf(b, `<text x="20" y="22" font-weight="bold">%s</text>`+"\n", html.EscapeString(w.title))
	for s := range spines {
		x := 20 + s*(perSpine*rackWide+16)
		fmt.Fprintf(b, `<rect x="%d" y="30" width="%d" height="%d" rx="6" fill="none" stroke="#888"/><text x="%d" y="44" fill="#555">spine s%d</text>`+"\n",
			x, perSpine*rackWide+6, rackHigh+24, x+8, s+1)
		for r := range perSpine {
			w.drawRack(b, d, s*perSpine+r, x+8+r*rackWide, 50)
		}
	}
	said := "waits: " + d.Explain(p)
	if d.Hosts != nil {
		said = "placed: " + place(p, d)
	}
	fmt.Fprintf(b, `<text x="20" y="%d" fill="#333" font-style="italic">%s</text>`+"\n", 30+rackHigh+38, html.EscapeString(shorter(said)))
}

// place names the narrowest domain that holds the gang.
func place(p placement.Problem, d placement.Decision) string {
	domain := p.Tree.Domain(d.Domain)
	level := p.Tree.Levels()[domain.Level]
	if domain.Level == 0 {
		return "all over the " + level
	}
	return "in " + level + " " + domain.Path
}

// shorter is the first statement of a refusal, without how much is short.
func shorter(text string) string {
	first, _, _ := strings.Cut(text, ";")
	first, _, _ = strings.Cut(first, " (nvidia.com/gpu short")
	return first
}

func (w wish) drawRack(b *bytes.Buffer, d placement.Decision, rack, x, y int) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="#fafafa" stroke="#bbb"/><text x="%d" y="%d" fill="#555">rack r%d</text>`+"\n",
		x, y, rackWide-10, rackHigh-8, x+6, y+14, rack+1)
	for i := range perRack {
		h := rack*perRack + i
		top := y + 20 + i*hostHigh
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#777" font-size="10">n%02d</text>`, x+6, top+10, h+1)
		at := x + 30
		for range taken[h] {
			gpu(b, at, top, "#999", "")
			at += cell
		}
		left := gpus - int(taken[h])
		for role, ranks := range d.Hosts {
			for rank, host := range ranks {
				if host != h {
					continue
				}
				letter := fmt.Sprint(rank)
				if w.roles[role].Name == "chief" {
					letter = "C"
				}
				for range w.roles[role].Request[0] {
					gpu(b, at, top, colours[(len(d.Hosts)-1-role)%len(colours)], letter)
					at += cell
					left--
				}
			}
		}
		for range left {
			gpu(b, at, top, "#eee", "")
			at += cell
		}
		b.WriteString("\n")
	}
}

func gpu(b *bytes.Buffer, x, y int, fill, letter string) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="9" height="12" fill="%s" stroke="#666" stroke-width=".5"/>`, x, y, fill)
	if letter != "" {
		fmt.Fprintf(b, `<text x="%g" y="%d" font-size="8" fill="#fff" text-anchor="middle">%s</text>`, float64(x)+4.5, y+9, letter)
	}
}
