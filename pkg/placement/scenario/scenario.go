// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario answers text with text: where would this gang go on that
// cluster? It reads what people who schedule clusters write down and puts the
// planner's answers into it. The planner's specification is such files.
//
// A file is steps, set apart by empty lines; lines that begin with # between
// them are remarks. A step ends with a line ---- and the answer below it.
//
//	cluster levels=(zone, rack)      one line per domain, path and hosts:
//	zone-a/r1: n1(8) n[2-4](4)       name(free GPUs); cpu=64 memory=256 pods=110
//	zone-a: n5(0 cpu=8)              unless said otherwise; - for a label that lacks
//	not n2 n3: taint gpu=maintenance hosts that are not eligible, and why
//	kind n4 n5: A100                 hosts of another kind
//	links n4: dgx-1v free=0,3,7      GPUs, as on a board that is known by name, and
//	                                 which are free, or else the first; picks=planner
//	                                 where pods get what the planner picks
//	empty n1 n2: gpu=8               what hosts would have with no pod on them; if nobody
//	                                 says so of any, it is not known
//	----
//
//	place gang=g [within=level] [prefer=level] [slices=(4, rack)] [anchors=(n1, n2)] [keep] [evict]
//	worker pods=4 [min=2] [gpu=8] [link=nvlink] [cpu=1] [memory=1] [on=(n1, n2)] [kind=H100] [mixed]
//	----
//	g: 4 pods ...
//
// A gang is placed on the cluster drawn last. Roles that ask for GPUs are uniform
// unless they are mixed, and one named ps serves the others. keep takes the gang's
// room away from the gangs after it. With evict, gangs that run may have to go:
// those that a cluster says are there, which is one pod of 4 GPUs on each host:
//
//	runs low n1 n2: gpu=4 priority=1 [gangs=1] [violations=1] [started=7]
package scenario

import (
	"fmt"
	"strings"

	"github.com/tutti-project/tutti/pkg/topology"
)

// Boards are the GPUs that a scenario may give to hosts, by name.
type Boards func(name string) (*topology.GPUs, error)

// Answer returns the text with the answers of this planner in place of those that
// it came with. Errors name the line and say what may stand there.
func Answer(text string, boards Boards) (string, error) {
	var b strings.Builder
	var drawn *cluster
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		if isBetweenSteps(lines[i]) {
			b.WriteString(lines[i])
			i++
			continue
		}
		s, behind, err := cutStep(lines, i)
		if err != nil {
			return "", err
		}
		for ; i <= s.end; i++ {
			b.WriteString(lines[i])
		}
		i = behind
		answer, err := s.answer(&drawn, boards)
		if err != nil {
			return "", err
		}
		b.WriteString(answer)
	}
	return b.String(), nil
}

func isBetweenSteps(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

// step is one command, the lines below it, and where it ends.
type step struct {
	command line
	body    []line
	end     int // position of the line ----
}

// cutStep cuts out the step that begins at a position; behind is where its answer ends.
func cutStep(lines []string, begin int) (s step, behind int, err error) {
	s.end = begin
	for s.end < len(lines) && strings.TrimSpace(lines[s.end]) != "----" {
		s.end++
	}
	if s.end == len(lines) || !strings.HasSuffix(lines[s.end], "\n") {
		return step{}, 0, at(begin+1, "no line ---- and new line end what begins here")
	}
	if s.end == begin {
		return step{}, 0, at(begin+1, "ends a step, but none begins before it; write cluster or place")
	}
	for i := begin; i < s.end; i++ {
		s.body = append(s.body, line{number: i + 1, text: strings.TrimSpace(lines[i])})
	}
	s.command, s.body = s.body[0], s.body[1:]
	behind = s.end + 1
	for behind < len(lines) && strings.TrimSpace(lines[behind]) != "" {
		behind++
	}
	return s, behind, nil
}

func (s step) answer(drawn **cluster, boards Boards) (string, error) {
	words, err := s.command.words()
	if err != nil {
		return "", err
	}
	switch words[0].key {
	case "cluster":
		*drawn, err = readCluster(words[1:], s, boards)
		return "", err
	case "place":
		if *drawn == nil {
			return "", at(s.command.number, "no cluster is drawn before it; write one: cluster levels=(rack)")
		}
		g, err := readGang(*drawn, words[1:], s)
		if err != nil {
			return "", err
		}
		return g.place(*drawn), nil
	default:
		return "", at(s.command.number, "%q begins no step; those are cluster and place", words[0].key)
	}
}

// at is an error in a line.
func at(number int, format string, args ...any) error {
	return fmt.Errorf("line %d: %w", number, fmt.Errorf(format, args...))
}
