// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/tutti-project/tutti/test/controlplane"
)

// screen writes what the demo says, in colour on a terminal. Lines come from
// several goroutines.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
}

type style string

const (
	bold  style = "\x1b[1m"
	green style = "\x1b[32m"
	amber style = "\x1b[33m"
	red   style = "\x1b[31m"
	faint style = "\x1b[2m"
	plain style = "\x1b[0m"
)

func newScreen(f *os.File) *screen {
	return &screen{out: f, colour: term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""}
}

func (s *screen) paint(c style, text string) string {
	if !s.colour {
		return text
	}
	return string(c) + text + string(plain)
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) heading(format string, args ...any) {
	s.line("\n%s", s.paint(bold, "== "+fmt.Sprintf(format, args...)))
}

// good, waiting and told are lines about one object: what, and what became of it.
func (s *screen) good(what, text string)    { s.about(green, what, text) }
func (s *screen) waiting(what, text string) { s.about(amber, what, text) }
func (s *screen) told(what, text string)    { s.about(faint, what, text) }

func (s *screen) about(c style, what, text string) {
	s.line("  %s %s", s.paint(c, fmt.Sprintf("%-28s", what)), text)
}

func (s *screen) failure(err error) {
	s.line("\n%s %v", s.paint(red, "NOT AS IT SHOULD BE:"), err)
}

// logs shows the end of our programs' logs: their files will be gone.
func (s *screen) logs(plane *controlplane.ControlPlane) {
	for _, p := range plane.Processes() {
		if strings.HasPrefix(p.Name, "tutti-") {
			s.line("\n%s", s.paint(bold, "The end of "+p.Name+"'s log"))
			s.line("%s", p.Tail())
		}
	}
}

func (s *screen) kubectl(kubeconfig string) {
	s.line("  export KUBECONFIG=%s", kubeconfig)
	s.line("  bin/kubectl get tfjobs,podgroups,pods -o wide")
	s.line("  bin/kubectl get events --field-selector involvedObject.kind=PodGroup")
	s.line("  bin/kubectl-tutti top")
	s.line("  bin/kubectl apply --server-side -f manifests/samples/")
}
