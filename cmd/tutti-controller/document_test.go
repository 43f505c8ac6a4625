// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Flags of other programs that the documents speak of.
var ofOthers = []string{"feature-gates", "runtime-config"}

// The documents name flags that there are, and the defaults that they have.
func TestTheDocumentsNameFlagsThatThereAre(t *testing.T) {
	var text strings.Builder
	for _, file := range []string{
		"docs/tfjob.md", "docs/migrating-from-training-operator.md", "docs/troubleshooting.md", "docs/runbook.md", "charts/tutti/values.yaml",
	} {
		data, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	flags := newCommand().Flags()
	named := regexp.MustCompile("(?:`|# |, )--([a-z-]+)(\\*?)").FindAllStringSubmatch(text.String(), -1)
	if len(named) < 20 {
		t.Fatalf("the documents name %d flags", len(named))
	}
	for _, m := range named {
		exists := flags.Lookup(m[1]) != nil
		if m[2] == "*" {
			flags.VisitAll(func(f *pflag.Flag) { exists = exists || strings.HasPrefix(f.Name, m[1]) })
		}
		if !exists && !slices.Contains(ofOthers, m[1]) {
			t.Errorf("there is no --%s%s", m[1], m[2])
		}
	}
	o := defaultOptions()
	if said := "leader election is on by default, threads are 4, 200 requests a second"; !strings.Contains(text.String(), said) ||
		!o.leaderElect || o.threads != 4 || o.qps != 200 {
		t.Errorf("the documents say %q, and the defaults are %v, %d, %v", said, o.leaderElect, o.threads, o.qps)
	}
}
