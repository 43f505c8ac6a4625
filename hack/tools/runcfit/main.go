// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command runcfit is runc for a machine that cannot give a container all that
// a privileged one is given: inside a sandbox the capability bounding set may
// lack some, and runc then refuses to start anything. runcfit takes out of the
// container's specification what this process could not have itself, and
// becomes runc. Where nothing is missing it changes nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const runc = "/usr/sbin/runc"

func main() {
	if err := fitSpec(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runcfit:", err)
		os.Exit(1)
	}
	os.Args[0] = runc
	err := syscall.Exec(runc, os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, "runcfit:", runc+":", err)
	os.Exit(1)
}

// fitSpec edits the file that the command reads: the bundle's config.json, or
// the process of an exec.
func fitSpec(args []string) error {
	missing, err := missingCapabilities()
	if err != nil || len(missing) == 0 {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	path, inSpec := specFile(args)
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if data, err = fit(data, inSpec, missing, limit.Max); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, data, 0o600)
}

// specFile finds the file in runc's arguments, and says whether the process is
// a part of it or the whole.
func specFile(args []string) (path string, inSpec bool) {
	flag := func(names ...string) string {
		for i, arg := range args {
			name, value, joined := strings.Cut(arg, "=")
			for _, n := range names {
				if name == n && joined {
					return value
				}
				if name == n && i+1 < len(args) {
					return args[i+1]
				}
			}
		}
		return ""
	}
	for _, arg := range args {
		switch arg {
		case "create", "run":
			return filepath.Join(flag("--bundle", "-b"), "config.json"), true
		case "exec":
			return flag("--process", "-p"), false
		}
	}
	return "", false
}

// fit is the specification (inSpec) or process without what cannot be had. It
// keeps every field that it does not know.
func fit(data []byte, inSpec bool, missing map[string]bool, maxFiles uint64) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	process := whole
	if inSpec {
		process, _ = whole["process"].(map[string]any)
	}
	if process == nil {
		return data, nil
	}
	dropCapabilities(process, missing)
	if missing["CAP_SYS_RESOURCE"] {
		keepLimits(process, maxFiles)
	}
	return json.Marshal(whole)
}

func dropCapabilities(process map[string]any, missing map[string]bool) {
	sets, _ := process["capabilities"].(map[string]any)
	for set, names := range sets {
		have := []any{}
		list, _ := names.([]any)
		for _, name := range list {
			if s, _ := name.(string); !missing[s] {
				have = append(have, name)
			}
		}
		sets[set] = have
	}
}

// keepLimits leaves hard limits and the OOM score where they are: to raise the
// one or lower the other takes CAP_SYS_RESOURCE.
func keepLimits(process map[string]any, maxFiles uint64) {
	if score, _ := process["oomScoreAdj"].(float64); score < 0 {
		process["oomScoreAdj"] = 0
	}
	kept := []any{}
	list, _ := process["rlimits"].([]any)
	for _, item := range list {
		limit, _ := item.(map[string]any)
		if limit["type"] != "RLIMIT_NOFILE" {
			continue
		}
		for _, bound := range []string{"soft", "hard"} {
			if n, _ := limit[bound].(float64); n > float64(maxFiles) {
				limit[bound] = maxFiles
			}
		}
		kept = append(kept, limit)
	}
	process["rlimits"] = kept
}
