// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package demo runs `make demo`'s program as a user does and looks at what it
// leaves behind.
package demo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	root  = "../.." // of the module, where make runs the program
	limit = 2 * time.Minute
)

// demo is one run of the program with a home and a temporary folder that must
// stay empty, and a folder for itself.
type demo struct {
	*exec.Cmd
	t         *testing.T
	out       bytes.Buffer
	dir       string
	untouched []string
	// exit carries how the program ended.
	exit chan error
}

func start(t *testing.T, environment ...string) *demo {
	t.Helper()
	base := t.TempDir()
	d := &demo{t: t, dir: filepath.Join(base, "demo"), exit: make(chan error, 1)}
	for _, name := range []string{"home", "tmp"} {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		d.untouched = append(d.untouched, path)
	}
	d.Cmd = exec.Command("bin/demo", "-dir", d.dir)
	d.Cmd.Dir = root
	d.Cmd.Env = append(os.Environ(), append(environment, "HOME="+d.untouched[0], "TMPDIR="+d.untouched[1])...)
	d.Cmd.Stdout, d.Cmd.Stderr = &d.out, &d.out
	if err := d.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.exit <- d.Wait() }()
	t.Cleanup(func() { _ = d.Process.Kill() }) // it has ended unless the test has failed
	return d
}

// within fails the test unless done says yes in time.
func (d *demo) within(what string, done func() bool) {
	d.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.After(limit)
	for !done() {
		select {
		case <-tick.C:
		case err := <-d.exit:
			d.t.Fatalf("%s: the demo ended (%v); its output:\n%s", what, err, d.out.String())
		case <-over:
			d.t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// ended waits for the program's end.
func (d *demo) ended() error {
	d.t.Helper()
	select {
	case err := <-d.exit:
		return err
	case <-time.After(limit):
		d.t.Fatalf("the demo did not end within %s", limit)
		return nil
	}
}

// processes are those that the demo started: their home is its folder.
func (d *demo) processes() []string {
	d.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		d.t.Fatal(err)
	}
	var found []string
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(environ), "HOME="+d.dir+"\x00") {
			found = append(found, path)
		}
	}
	return found
}

func (d *demo) expectNothingLeft() {
	d.t.Helper()
	if left := d.processes(); len(left) > 0 {
		d.t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Stat(d.dir); !os.IsNotExist(err) {
		d.t.Errorf("%s is left (%v)", d.dir, err)
	}
	for _, path := range d.untouched {
		if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
			d.t.Errorf("%s has %v (%v), want it empty", path, entries, err)
		}
	}
}

func TestDemoShowsAllAndLeavesNothing(t *testing.T) {
	d := start(t, "DEMO=once")
	if err := d.ended(); err != nil {
		t.Errorf("the demo failed: %v; its output:\n%s", err, d.out.String())
	}
	for _, part := range []string{"GangPlaced", "rack r1 (spine s1)", "TF_CONFIG of pod", "Unschedulable", "0 of 40 are bound", "all 40 of too-big are bound"} {
		if !strings.Contains(d.out.String(), part) {
			t.Errorf("the output lacks %q", part)
		}
	}
	if t.Failed() {
		t.Log(d.out.String())
	}
	if strings.Contains(d.out.String(), "\x1b") {
		t.Error("colours without a terminal")
	}
	d.expectNothingLeft()
}

func TestInterruptedDemoLeavesNothing(t *testing.T) {
	d := start(t)
	d.within("its programs run", func() bool { return len(d.processes()) >= 4 })
	if err := d.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := d.ended(); err != nil {
		t.Errorf("the demo failed: %v; its output:\n%s", err, d.out.String())
	}
	d.expectNothingLeft()
}

func TestKilledDemoLeavesNoProcess(t *testing.T) {
	d := start(t)
	d.within("its programs run", func() bool { return len(d.processes()) >= 4 })
	if err := d.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.ended() // an error: it was killed
	d.exit = nil  // read above
	d.within("its programs are gone", func() bool { return len(d.processes()) == 0 })
}
