// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package clusterspec

import (
	"flag"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what Env answers into testdata")

// TestGoldens runs every testdata/<framework>/*.txt. Such a file holds jobs; under each job's ---- stands what every one of its
// tasks gets:
//
//	job <name> <namespace> [domain=<dns>] [dynamic]
//	role <name> <replicas> <port>
//	----
//	<role> <index>: <variable>=<value>
func TestGoldens(t *testing.T) {
	for _, framework := range Frameworks() {
		files, err := filepath.Glob(filepath.Join("testdata", framework, "*.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no goldens for framework %s (error: %v)", framework, err)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				got := answer(t, framework, string(want))
				if *rewrite {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if got != string(want) {
					t.Errorf("the answers differ; got:\n%s\nwant:\n%s", got, want)
				}
			})
		}
	}
}

// answer copies the questions of a golden file and answers them.
func answer(t *testing.T, framework, text string) string {
	var out strings.Builder
	var job Job
	skipping := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "job" || strings.HasPrefix(line, "#") {
			skipping = false
		}
		if skipping {
			continue
		}
		out.WriteString(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case words[0] == "job":
			job = Job{Name: words[1], Namespace: words[2], Dynamic: slices.Contains(words, "dynamic")}
			for _, w := range words {
				if domain, ok := strings.CutPrefix(w, "domain="); ok {
					job.Domain = domain
				}
			}
		case words[0] == "role":
			job.Roles = append(job.Roles, Role{Name: words[1], Replicas: number(t, words[2]), Port: number(t, words[3])})
		case words[0] == "----":
			out.WriteString(env(t, framework, job) + "\n")
			skipping = true
		default:
			t.Fatalf("cannot read line %q", line)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func env(t *testing.T, framework string, job Job) string {
	var out strings.Builder
	for _, r := range job.Roles {
		for i := range r.Replicas {
			vars, err := Env(framework, job, Task{Role: r.Name, Index: i})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %d:", r.Name, i)
			if len(vars) == 0 {
				out.WriteString(" none")
			}
			for _, v := range vars {
				fmt.Fprintf(&out, " %s=%s", v.Name, v.Value)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEnvNamesWhatIsWrong(t *testing.T) {
	job := Job{Name: "j", Namespace: "n", Roles: []Role{{Name: "worker", Replicas: 2, Port: 2222}}}
	for name, tc := range map[string]struct {
		framework string
		task      Task
		want      string
	}{
		"an unknown framework": {"caffe", Task{"worker", 0}, `unknown framework "caffe", known are ` + strings.Join(Frameworks(), ", ")},
		"an unknown role":      {"tensorflow", Task{"ps", 0}, `job n/j has no role "ps"`},
		"an index too high":    {"tensorflow", Task{"worker", 2}, `job n/j has no task worker 2: the role has 2 replicas`},
		"a negative index":     {"tensorflow", Task{"worker", -1}, `job n/j has no task worker -1: the role has 2 replicas`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Env(tc.framework, job, tc.task)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestRolesMayComeInAnyOrder(t *testing.T) {
	job := Job{Name: "j", Namespace: "n", Roles: []Role{{"worker", 2, 2222}, {"ps", 1, 2222}, {"chief", 1, 3333}}}
	want, err := Env("tensorflow", job, Task{"worker", 1})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(job.Roles)
	got, err := Env("tensorflow", job, Task{"worker", 1})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (error %v), want %v", got, err, want)
	}
}

// The inner loop stays fast, and a golden stays enough of a test, as long as nothing but the standard library comes in.
func TestOnlyTheStandardLibraryIsImported(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(pkg.Imports, pkg.TestImports) {
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			t.Errorf("imports %s", path)
		}
	}
}
