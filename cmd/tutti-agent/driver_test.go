// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runProgram runs the program as a process of its own, which a missing symbol would end.
func runProgram(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), "TUTTI_AGENT=1")
	text, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

// driver compiles testdata/driver.c without some symbols.
func driver(t *testing.T, without ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := []string{"-shared", "-fPIC", "-o", path, "testdata/driver.c"}
	for _, symbol := range without {
		args = append(args, "-DWITHOUT_"+symbol)
	}
	if text, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	return path
}

func symbols(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("testdata/driver.c")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile(`ifndef WITHOUT_(\w+)`).FindAllStringSubmatch(string(source), -1) {
		names = append(names, match[1])
	}
	return names
}

func TestWithoutADriverItSaysSo(t *testing.T) {
	output, code := runProgram(t, "inspect", "--nvml-library="+filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "--sources=nvml")
	if code != exitNothingSeen || !strings.Contains(output, "LibraryNotFound") || !strings.Contains(output, "no GPU can be seen") {
		t.Errorf("exits with %d:\n%s", code, output)
	}
}

func TestAnOldDriverIsAsked(t *testing.T) {
	output, code := runProgram(t, "inspect", "--nvml-library="+driver(t), "--sources=nvml")
	if code != 0 || !strings.Contains(output, "NV4") || !strings.Contains(output, "4 x 20000 MB/s") || !strings.Contains(output, "Tesla Old") {
		t.Errorf("exits with %d:\n%s", code, output)
	}
}

// TestADriverMayLackAnything: whichever function its library lacks, and if it lacks all, the program
// ends by itself and says what is the matter.
func TestADriverMayLackAnything(t *testing.T) {
	required := map[string]bool{
		"nvmlSystemGetDriverVersion": true, "nvmlDeviceGetCount_v2": true, "nvmlDeviceGetHandleByIndex_v2": true,
		"nvmlDeviceGetUUID": true, "nvmlDeviceGetName": true,
	}
	all := symbols(t)
	if len(all) < 20 {
		t.Fatalf("%d symbols", len(all))
	}
	var optional []string
	for _, symbol := range all {
		t.Run(symbol, func(t *testing.T) {
			output, code := runProgram(t, "inspect", "--nvml-library="+driver(t, symbol), "--sources=nvml")
			want, text := 0, "GPUs: 2"
			if required[symbol] {
				want, text = exitNothingSeen, "LibraryTooOld"
			}
			if code != want || !strings.Contains(output, text) {
				t.Errorf("exits with %d, want %d and %q:\n%s", code, want, text, output)
			}
		})
		if !required[symbol] {
			optional = append(optional, symbol)
		}
	}
	t.Run("all optional ones", func(t *testing.T) {
		output, code := runProgram(t, "inspect", "--nvml-library="+driver(t, optional...), "--sources=nvml")
		if code != 0 || !strings.Contains(output, "GPUs: 2") || !strings.Contains(output, "?") {
			t.Errorf("exits with %d:\n%s", code, output)
		}
	})
}
