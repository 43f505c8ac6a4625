// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/tutti-project/tutti/pkg/apis/topology/v1alpha1"
	"github.com/tutti-project/tutti/pkg/clusterview/machines"
	"github.com/tutti-project/tutti/pkg/discovery/file"
)

// TestMain lets tests run the program: the test binary is it, when asked to.
func TestMain(m *testing.M) {
	if os.Getenv("TUTTI_AGENT") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inspect runs the program in this process.
func inspect(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	if err := logsapi.ResetForTest(nil); err != nil { // logging is set up once in a process
		t.Fatal(err)
	}
	var out bytes.Buffer
	command := newCommand()
	command.SetArgs(append([]string{"inspect", "--node-name=n1"}, args...))
	command.SetOut(&out)
	command.SetErr(&out)
	if err := command.Execute(); err != nil {
		code = 1
		if exit, ok := errors.AsType[exitError](err); ok {
			code = exit.code
		}
		fmt.Fprintln(&out, "error:", err)
	}
	return out.String(), code
}

// described writes the topologies of a machine's node, changed.
func described(t *testing.T, machine string, change func(*v1alpha1.NodeTopology)) string {
	t.Helper()
	object, err := machines.Read("../../pkg/topology/testdata/hosts/"+machine, "n1")
	if err != nil {
		t.Fatal(err)
	}
	object.APIVersion, object.Kind = v1alpha1.SchemeGroupVersion.String(), "NodeTopology"
	object.Status = v1alpha1.NodeTopologyStatus{}
	if change != nil {
		change(object)
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "topologies.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInspect: what is printed of some machines is in testdata/inspect.
func TestInspect(t *testing.T) {
	changes := map[string]func(*v1alpha1.NodeTopology){
		"": nil,
		"busy": func(object *v1alpha1.NodeTopology) {
			object.Status.Given = []v1alpha1.GivenGPUs{{Namespace: "team", Pod: "train-0", GPUs: []string{machines.UUID("n1", 0), machines.UUID("n1", 1)}}}
			object.Status.Unhealthy = []v1alpha1.UnhealthyGPU{{UUID: machines.UUID("n1", 2), Reason: "Xid", Message: "the driver reported Xid 79"}}
			object.Spec.GPUs[3].MIG = true
		},
		"unoffered": func(object *v1alpha1.NodeTopology) { object.Status.Free = []string{machines.UUID("n1", 0)} },
		"clique": func(object *v1alpha1.NodeTopology) {
			object.Spec.Fabric = &v1alpha1.Fabric{ClusterUUID: "7b968a6d-c8aa-45e1-9e07-e1e51be99c31", CliqueID: 1}
		},
	}
	datadriven.RunTest(t, "testdata/inspect", func(t *testing.T, d *datadriven.TestData) string {
		state := ""
		if len(d.CmdArgs) > 1 {
			state = d.CmdArgs[1].Key
		}
		path := described(t, d.CmdArgs[0].Key, changes[state])
		output, code := inspect(t, "--sources=file", "--file="+path)
		var trimmed []string
		for line := range strings.Lines(output) {
			trimmed = append(trimmed, strings.TrimRight(line, " \n"))
		}
		return fmt.Sprintf("%s\nexits with %d\n", strings.Join(trimmed, "\n"), code)
	})
}

// TestWhatInspectPrintsCanBePublished: its YAML is a file of topologies that says the same.
func TestWhatInspectPrintsCanBePublished(t *testing.T) {
	path := described(t, "dgx-1v", func(object *v1alpha1.NodeTopology) {
		object.Status.Given = []v1alpha1.GivenGPUs{{Namespace: "n", Pod: "p", GPUs: []string{machines.UUID("n1", 4)}}}
	})
	first, code := inspect(t, "--sources=file", "--file="+path, "-o", "yaml")
	if code != 0 {
		t.Fatalf("exits with %d: %s", code, first)
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(again, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if second, _ := inspect(t, "--sources=file", "--file="+again, "-o", "yaml"); second != first {
		t.Errorf("printed again:\n%s\nfirst:\n%s", second, first)
	}
	read, err := file.Read(again)
	if err != nil || len(read) != 1 || read[0].Status.FreeCount != 7 || read[0].Status.Fingerprint != v1alpha1.FingerprintOf([]string{"n/p"}) {
		t.Errorf("%v, %+v", err, read)
	}
}

// TestNodesWithoutAFreeGPUStayWithout, when what inspect prints of them is published, whyever none is free.
func TestNodesWithoutAFreeGPUStayWithout(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeTopology){
		"none is offered": func(object *v1alpha1.NodeTopology) { object.Status.Free = []string{} },
		"all are ill": func(object *v1alpha1.NodeTopology) {
			for _, gpu := range object.Spec.GPUs {
				object.Status.Unhealthy = append(object.Status.Unhealthy, v1alpha1.UnhealthyGPU{UUID: gpu.UUID, Reason: "Xid"})
			}
		},
		"all are cut into instances": func(object *v1alpha1.NodeTopology) {
			for i := range object.Spec.GPUs {
				object.Spec.GPUs[i].MIG = true
			}
		},
	} {
		var text string
		path := described(t, "l40s-4", change)
		if name == "none is offered" { // an empty list is not written
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(content, []byte("  freeCount: 0"), []byte("  free: []"), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			text, _ = inspect(t, "--sources=file", "--file="+path, "-o", "yaml")
			text, _, _ = strings.Cut(text, "error:")
			path = filepath.Join(t.TempDir(), "again.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		read, err := file.Read(path)
		if err != nil || len(read) != 1 || len(file.FactsOf(&read[0]).Free()) > 0 {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestInspectSaysWhatItCannotSee(t *testing.T) {
	none := described(t, "l40s-4", func(object *v1alpha1.NodeTopology) { object.Spec = v1alpha1.NodeTopologySpec{} })
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":           {[]string{"--sources=file", "--file=/nowhere"}, exitNothingSeen, "FileNotFound"},
		"no GPU":            {[]string{"--sources=file", "--file=" + none}, exitNothingSeen, "no GPU can be seen"},
		"no such source":    {[]string{"--sources=guess"}, 1, "they can be nvml, file, podresources, labels"},
		"no such output":    {[]string{"--sources=file", "--file=f", "-o", "xml"}, 1, "it can be table or yaml"},
		"file without path": {[]string{"--sources=file"}, 1, "needs --file"},
		"labels":            {[]string{"--sources=labels"}, 1, "needs the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			output, code := inspect(t, tc.args...)
			if code != tc.code || !strings.Contains(output, tc.want) {
				t.Errorf("exits with %d, want %d:\n%s", code, tc.code, output)
			}
		})
	}
}
