// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

// looks tell the policies apart by colour (Okabe and Ito's, which the colour-blind
// can tell apart), dashes and marks.
var looks = []struct{ colour, dash, mark string }{
	{"#0072B2", "", "circle"},
	{"#D55E00", "", "square"},
	{"#009E73", "8 3", "diamond"},
	{"#CC79A7", "", "triangle"},
	{"#56B4E9", "2 3", "square"},
	{"#555555", "6 3 2 3", "circle"},
}

// panel is one diagram: a line for every policy over the same points.
type panel struct {
	title, sub string
	xs         []string
	ticks      []float64
	label      func(float64) string
	scale      func(float64) float64 // to 0 (bottom) … 1 (top)
	lines      [][]float64           // [policy][x]
}

const (
	panelWidth, panelHeight = 270, 250
	left, top, gap          = 60, 110, 75
)

func drawChart(outcomes []outcome) string {
	figure := func(s setting, u float64, policy string, of func(outcome) float64) float64 {
		for _, o := range outcomes {
			if o.setting == s && o.utilisation == u && o.policy == policy {
				return of(o)
			}
		}
		return 0
	}
	loads := make([]string, len(utilisations))
	for i, u := range utilisations {
		loads[i] = fmt.Sprintf("%.0f %%", u*100)
	}
	leaves := panel{title: "Leaves per gang", sub: "leaf preferred, over load; lower is better", xs: loads, ticks: []float64{1, 1.5, 2, 2.5, 3},
		label: func(v float64) string { return fmt.Sprintf("%.1f", v) }, scale: func(v float64) float64 { return (v - 1) / 2 }}
	waits := panel{title: "Wait, 95th percentile", sub: "leaf required, over load; lower is better", xs: loads,
		ticks: []float64{0.1, 1, 10, 100, 1000}, label: hours,
		scale: func(v float64) float64 { return (math.Log10(max(v, 0.1)) + 1) / 4.3 }}
	var room []string
	for gpus := gpusPerHost; gpus <= 8*gpusPerHost; gpus += gpusPerHost {
		room = append(room, fmt.Sprint(gpus))
	}
	takes := panel{title: "Time with room for a gang in one leaf", sub: "leaf required at 95 %, by its GPUs; higher is better", xs: room,
		ticks: []float64{0, 0.25, 0.5, 0.75, 1}, label: func(v float64) string { return fmt.Sprintf("%.0f %%", v*100) },
		scale: func(v float64) float64 { return v }}
	for _, p := range policies {
		var l, w, r []float64
		for _, u := range utilisations {
			l = append(l, figure(settings[1], u, p.name, leavesOf))
			w = append(w, figure(settings[0], u, p.name, waitOf))
		}
		for i := range room {
			r = append(r, figure(settings[0], 0.95, p.name, func(o outcome) float64 { return o.takes((i + 1) * gpusPerHost) }))
		}
		leaves.lines, waits.lines, takes.lines = append(leaves.lines, l), append(waits.lines, w), append(takes.lines, r)
	}
	return draw("Quality of placement: 847 hosts of 8 GPUs, 119 leaves; sizes of the trace x 8", []panel{leaves, waits, takes})
}

func hours(v float64) string {
	if v <= 0.1 {
		return "≤ 0.1 h"
	}
	return fmt.Sprintf("%.0f h", v)
}

func draw(title string, panels []panel) string {
	width := left + len(panels)*(panelWidth+gap)
	height := top + panelHeight + 45
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#222222">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", title, width, height)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15" font-weight="bold">%s</text>`+"\n", left, title)
	for i, p := range policies {
		x := left + i*(width-left-30)/len(policies)
		fmt.Fprintf(&b, `<path d="M%d 46h34" %s/>`+"\n", x, stroke(i))
		drawMark(&b, i, float64(x+17), 46)
		fmt.Fprintf(&b, `<text x="%d" y="50">%s</text>`+"\n", x+42, p.name)
	}
	for i, p := range panels {
		p.draw(&b, float64(left+i*(panelWidth+gap)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder, x0 float64) {
	fmt.Fprintf(b, `<text x="%g" y="%d" font-weight="bold">%s</text>`+"\n", x0, top-28, p.title)
	fmt.Fprintf(b, `<text x="%g" y="%d" font-size="11" fill="#555555">%s</text>`+"\n", x0, top-12, p.sub)
	y := func(v float64) float64 { return top + panelHeight*(1-min(1, p.scale(v))) }
	x := func(i int) float64 { return x0 + 15 + float64(i)*(panelWidth-30)/float64(len(p.xs)-1) }
	for _, t := range p.ticks {
		fmt.Fprintf(b, `<path d="M%g %.1fh%d" stroke="#dddddd"/><text x="%g" y="%.1f" text-anchor="end" font-size="11">%s</text>`+"\n",
			x0, y(t), panelWidth, x0-5, y(t)+4, p.label(t))
	}
	for i, name := range p.xs {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" font-size="11">%s</text>`+"\n", x(i), top+panelHeight+18, name)
	}
	// The planner's line comes last, on top of the others. Solid lines come before
	// dashed ones, which may lie on them.
	for n := range p.lines {
		i := (n + 1) % len(p.lines)
		var d strings.Builder
		for j, v := range p.lines[i] {
			fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(j, 1)], x(j), y(v))
		}
		fmt.Fprintf(b, `<path d="%s" %s/>`+"\n", d.String(), stroke(i))
		for j, v := range p.lines[i] {
			drawMark(b, i, x(j), y(v))
		}
	}
}

func stroke(policy int) string {
	l, width := looks[policy], 2.0
	if policy == 0 {
		width = 3
	}
	return fmt.Sprintf(`fill="none" stroke="%s" stroke-width="%g" stroke-dasharray="%s"`, l.colour, width, l.dash)
}

func drawMark(b *strings.Builder, policy int, x, y float64) {
	l := looks[policy]
	shapes := map[string]string{
		"circle":   "M%.1f %.1fm-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
		"square":   "M%.1f %.1fm-4 -4h8v8h-8z",
		"diamond":  "M%.1f %.1fm0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
		"triangle": "M%.1f %.1fm0 -5.5l5.5 9.5h-11z",
	}
	fmt.Fprintf(b, `<path d="`+shapes[l.mark]+`" fill="%s" stroke="#ffffff"/>`+"\n", x, y, l.colour)
}
