// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = "../../.."

// bigJob asks for more than the demo's cluster has left.
const bigJob = `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: newcomer}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 40
      template:
        spec:
          schedulerName: tutti-scheduler
          containers:
          - {name: tensorflow, image: example.com/train, resources: {limits: {nvidia.com/gpu: 8}}}
`

// demo runs the demo's control plane with its jobs and returns the kubeconfig's path.
func demo(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join("bin", "demo"), "-dir", filepath.Join(t.TempDir(), "demo"))
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // also if this test is killed
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make tools build makes it)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the demo: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	named := regexp.MustCompile(`export KUBECONFIG=(\S+)`)
	var told []string
	for lines.Scan() {
		told = append(told, lines.Text())
		if match := named.FindStringSubmatch(lines.Text()); match != nil {
			go func() {
				for lines.Scan() { // it must not block
				}
			}()
			if filepath.IsAbs(match[1]) {
				return match[1]
			}
			return filepath.Join(root, match[1])
		}
	}
	t.Fatalf("the demo has ended:\n%s", strings.Join(told, "\n"))
	return ""
}

// TestPageFollowsTheCluster: what is created and deleted shows without a reload, and
// nothing is sent while nothing changes.
func TestPageFollowsTheCluster(t *testing.T) {
	kubeconfig := demo(t)
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubectl"), append(args, "--kubeconfig", kubeconfig)...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	b := look(t, serve(t, "--kubeconfig", kubeconfig), 1280, 800)
	b.shows("#totals", "64 hosts", "of 512 GPUs in use")
	b.shows("#status", "live")
	b.shows("#groups", "too-big", "ps-worker")

	time.Sleep(3 * time.Second) // what the demo has begun comes to rest
	before := b.count(200)
	time.Sleep(6 * time.Second)
	if sent, asked := b.count(200)-before, b.count(304); sent > 0 || asked < 3 {
		t.Errorf("at rest the state was sent %d times, and %d times not", sent, asked)
	}

	kubectl(bigJob, "apply", "-f", "-")
	const item = `[data-key="TFJob/default/newcomer"]`
	b.until("the new job waits with its verdict", fmt.Sprintf(`document.querySelector('%s.waiting .verdict')?.innerText.includes("room for")`, item))
	b.click(item)
	b.click("#ask")
	b.until("the scheduler has answered", "document.querySelector('#plan .message')")
	b.shows("#plan", "It would wait", "room for")
	b.shot("live")

	kubectl("", "delete", "tfjob", "too-big")
	b.until("the job has started", `document.querySelector("#details dd").innerText.startsWith("runs") && document.querySelector("#details section table")`)
	b.shows("#details", "40 hosts", "40, 40 with a node")
	b.shot("live-placed")
	kubectl("", "delete", "tfjob", "newcomer")
	b.until("its details are closed", `document.getElementById("details").hidden && !document.querySelector('`+item+`')`)
}
