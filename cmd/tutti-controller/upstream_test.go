// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parsed is what the command does with its arguments before it runs.
func parsed(t *testing.T, args []string) (o *options, warnings []string, err error) {
	t.Helper()
	o = defaultOptions()
	sets := o.flags()
	all := sets.FlagSet("all")
	for _, set := range sets.FlagSets {
		if set != all {
			all.AddFlagSet(set)
		}
	}
	if err := all.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o, ignoredFlags(all), errors.Join(o.translate(), o.validate())
}

func TestFlagsOfTrainingOperatorAreAccepted(t *testing.T) {
	type settings struct {
		scheduler, api, namespace, metrics, health, lease string
		threads, burst                                    int
	}
	read := func(o *options) settings {
		return settings{o.schedulerName, o.podGroupAPI, o.namespace, o.serving.MetricsAddress, o.serving.HealthAddress, o.leaseName, o.threads, o.burst}
	}
	for name, tc := range map[string]struct {
		args []string
		want func(*settings)
	}{
		"none": {nil, func(*settings) {}},
		"those of the same meaning": {
			[]string{"--metrics-bind-address=:1", "--health-probe-bind-address=:2", "--leader-elect", "--leader-election-id=l",
				"--namespace=n", "--controller-threads=7", "--kube-api-qps=20", "--kube-api-burst=30", "--enable-scheme=TFJOB"},
			func(s *settings) {
				s.metrics, s.health, s.lease, s.namespace, s.threads, s.burst = ":1", ":2", "l", "n", 7, 30
			},
		},
		"a gang scheduler":      {[]string{"--gang-scheduler-name=mine"}, func(s *settings) { s.scheduler = "mine" }},
		"an empty one":          {[]string{"--gang-scheduler-name="}, func(*settings) {}},
		"the word for no gangs": {[]string{"--gang-scheduler-name=none"}, func(s *settings) { s.scheduler, s.api = "default-scheduler", "none" }},
	} {
		t.Run(name, func(t *testing.T) {
			o, warnings, err := parsed(t, tc.args)
			if err != nil || len(warnings) > 0 {
				t.Fatalf("error %v, warnings %q", err, warnings)
			}
			want := read(defaultOptions())
			tc.want(&want)
			if diff := cmp.Diff(want, read(o), cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagsWithoutAMeaningWarn(t *testing.T) {
	for _, flag := range ignored {
		args := []string{"--" + flag.name + "=5"}
		if flag.isSwitch {
			args = []string{"--" + flag.name}
		}
		_, warnings, err := parsed(t, args)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "--"+flag.name+" has no effect") {
			t.Errorf("%v: error %v, warnings %q", args, err, warnings)
		}
	}
}

func TestFlagsThatWouldMisleadAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ arg, want string }{
		"another kind of job": {"--enable-scheme=tfjob,pytorchjob", "--enable-scheme=pytorchjob is not supported; only tfjob is served"},
		"Volcano":             {"--gang-scheduler-name=Volcano", "no PodGroups of Volcano are made"},
		"half a certificate":  {"--metrics-cert-file=f", "need each other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parsed(t, []string{tc.arg})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
