// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	stopGrace = 10 * time.Second
	tailLines = 25
	lineWidth = 300 // of a line in the tail
)

// Process is one running child.
type Process struct {
	Name string

	cmd  *exec.Cmd
	log  string
	done chan struct{}
	// asked is true once Stop or Kill was called: its end is then no failure.
	asked atomic.Bool
	// state is written before done is closed.
	state *os.ProcessState
}

// launches carries the starts to one goroutine that never leaves its thread.
// Pdeathsig fires when the *thread* that made the child ends, and the runtime
// ends threads as it likes; this one lives as long as the process.
var launches = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// spawn starts a program with its output appended to <dir>/logs/<name>.log.
func spawn(dir, name, program string, args ...string) (*Process, error) {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	p := &Process{Name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()

	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "KUBECONFIG=")
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// Its own group, so that Ctrl-C on the terminal reaches only us and we
	// stop the children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error)
	launches() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says what became of it
		p.state = p.cmd.ProcessState
		close(p.done)
	}()
	return p, nil
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the path of the file with the child's output.
func (p *Process) Log() string { return p.log }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the child as a crash would and returns when it is gone.
func (p *Process) Kill() {
	p.asked.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the child to end, kills it after a grace period, and returns when
// it is gone.
func (p *Process) Stop() {
	p.asked.Store(true)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		p.Kill()
	}
}

// Used is what the child has cost from its start to its end: CPU time and the
// most memory that it held at a time, in bytes. Nothing before it has ended.
func (p *Process) Used() (cpu time.Duration, peak int64) {
	select {
	case <-p.done:
	default:
		return 0, 0
	}
	if usage, ok := p.state.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss << 10 // Linux counts KiB
	}
	return p.state.UserTime() + p.state.SystemTime(), peak
}

// signal goes to the whole group. A group that is gone already is no error.
func (p *Process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.PID(), s)
}

// Failure is nil while the child runs or after it was told to end; otherwise
// it says how the child ended and shows the end of its log.
func (p *Process) Failure() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.asked.Load() {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%s); the end of %s:\n%s", p.Name, p.state, p.log, p.Tail())
}

// Tail is the last lines of the child's log, or the first of the panic in it.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	start := max(0, len(lines)-tailLines)
	panicked := func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	}
	if i := slices.IndexFunc(lines, panicked); i >= 0 {
		start = i
	}
	lines = lines[start:min(len(lines), start+tailLines)]
	for i, line := range lines {
		lines[i] = line[:min(len(line), lineWidth)]
	}
	return strings.Join(lines, "\n")
}
