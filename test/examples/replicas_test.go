// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var python = flag.String("python", "", "an interpreter with TensorFlow (make test-examples makes one)")

// limit is for waiting on busy machines.
const limit = 5 * time.Minute

// program is one of the examples with its replicas as plain processes, each of
// them started again whenever it fails, as the policy OnFailure has it.
type program struct {
	t      *testing.T
	script string
	args   []string
	hosts  map[string][]string // addresses by role
	dir    string

	mu      sync.Mutex
	running map[string]*exec.Cmd
}

// start runs the script once per replica; roles says how many there are of each.
func start(t *testing.T, script string, roles map[string]int, args ...string) *program {
	if *python == "" {
		t.Fatal("no -python given: run make test-examples")
	}
	p := &program{t: t, script: script, hosts: map[string][]string{}, dir: t.TempDir(), running: map[string]*exec.Cmd{}}
	p.args = append([]string{"--checkpoint_dir=" + filepath.Join(p.dir, "checkpoints")}, args...)
	for role, count := range roles {
		for range count {
			p.hosts[role] = append(p.hosts[role], freeAddress(t))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var replicas sync.WaitGroup
	for role, count := range roles {
		for index := range count {
			replicas.Go(func() { p.keep(ctx, role, index) })
		}
	}
	t.Cleanup(func() {
		cancel()
		replicas.Wait()
		if t.Failed() {
			p.show()
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// keep runs a replica until it exits with 0 or the test is over.
func (p *program) keep(ctx context.Context, role string, index int) {
	name := fmt.Sprintf("%s-%d", role, index)
	log, err := os.Create(p.log(name))
	if err != nil {
		p.t.Error(err)
		return
	}
	defer log.Close()
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, *python, append([]string{p.script}, p.arguments(role, index)...)...)
		cmd.Env = append(os.Environ(), "TF_CPP_MIN_LOG_LEVEL=1", "TF_CONFIG="+p.config(role, index))
		cmd.Stdout, cmd.Stderr = log, log
		p.mu.Lock()
		err := cmd.Start()
		p.running[name] = cmd
		p.mu.Unlock()
		if err == nil {
			err = cmd.Wait()
		}
		if err == nil {
			return
		}
		fmt.Fprintf(log, "%s ended: %v\n", name, err)
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			p.t.Error(err)
			return
		}
	}
}

// arguments are flags in the style of TensorFlow 1 where the program has such.
func (p *program) arguments(role string, index int) []string {
	if p.script != parameterServer {
		return p.args
	}
	return append([]string{
		"--ps_hosts=" + strings.Join(p.hosts["ps"], ","), "--worker_hosts=" + strings.Join(p.hosts["worker"], ","),
		"--job_name=" + role, "--task_index=" + strconv.Itoa(index),
	}, p.args...)
}

// config is TF_CONFIG as the controller writes it.
func (p *program) config(role string, index int) string {
	text, err := json.Marshal(map[string]any{
		"cluster":     p.hosts,
		"task":        map[string]any{"type": role, "index": index},
		"environment": "cloud",
	})
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// kill ends a replica's process the hard way.
func (p *program) kill(name string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.running[name].Process.Kill(); err != nil {
		p.t.Fatalf("killing %s: %v", name, err)
	}
}

func (p *program) log(name string) string { return filepath.Join(p.dir, name+".log") }

// all returns the captures of every match in a replica's output.
func (p *program) all(name, pattern string) [][]string {
	text, err := os.ReadFile(p.log(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
}

// await waits until a replica has printed so many matches, and returns the last one's captures.
func (p *program) await(name, pattern string, matches int) []string {
	p.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if found := p.all(name, pattern); len(found) >= matches {
			return found[len(found)-1]
		}
	}
	p.t.Fatalf("%s has not printed %q %d times within %s", name, pattern, matches, limit)
	return nil
}

// show writes the ends of all logs.
func (p *program) show() {
	logs, _ := filepath.Glob(p.log("*"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		p.t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-3000):])
	}
}
