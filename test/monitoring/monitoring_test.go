// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nothingToSee are queries that rightly show no number above zero here.
var nothingToSee = map[string]string{
	"Promised links A":                 "nobody asks for links",
	"Jobs in the controller's queue A": "the queue is empty within a second",
	"Sources that cannot see A":        "all can see",
}

// TestEveryTargetIsScraped with the rights that scrape.yaml gives.
func TestEveryTargetIsScraped(t *testing.T) {
	eventually(t, "all targets are up", func(ctx context.Context) error {
		answer, err := ask[struct {
			ActiveTargets []struct {
				Labels            map[string]string
				Health, LastError string
			}
		}](ctx, "targets", nil)
		var failures []error
		for _, target := range answer.ActiveTargets {
			if target.Health != "up" {
				failures = append(failures, fmt.Errorf("%v is %s: %s", target.Labels, target.Health, target.LastError))
			}
		}
		if len(answer.ActiveTargets) != 6 {
			failures = append(failures, fmt.Errorf("there are %d targets, want 6", len(answer.ActiveTargets)))
		}
		return errors.Join(append(failures, err)...)
	})
}

// TestEveryRuleIsEvaluated: rules are loaded as they are, each finds the metrics
// that it names, those that record do so, and on the demo no alert fires.
func TestEveryRuleIsEvaluated(t *testing.T) {
	play(t)
	eventually(t, "all rules are evaluated and record", func(ctx context.Context) error {
		loaded, err := rules(ctx)
		if err != nil || len(loaded) == 0 {
			return fmt.Errorf("%d rules, %w", len(loaded), err)
		}
		known, err := metrics(ctx)
		if err != nil {
			return err
		}
		var failures []error
		for _, r := range loaded {
			switch {
			case r.Health != "ok":
				err = fmt.Errorf("%s %s", r.Health, r.LastError)
			case r.State == "firing":
				err = fmt.Errorf("it fires: %+v", r.Alerts)
			case r.Type == "recording" && !slices.Contains(known, r.Name):
				err = errors.New("it records nothing")
			default:
				err = answered(ctx, known, r.Query)
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w in %s", r.Name, err, r.Query))
			}
		}
		return errors.Join(failures...)
	})
}

// TestEveryPanelShowsWhatHappened: each query is answered, each of its metrics was
// scraped, and what the demo moves is seen to move. A series that appears with its
// first event does not move: it has no increase then.
func TestEveryPanelShowsWhatHappened(t *testing.T) {
	play(t)
	all := queries(t)
	for name := range nothingToSee {
		if all[name] == "" {
			t.Errorf("there is no query %q any more", name)
		}
	}
	eventually(t, "all panels show what happened", func(ctx context.Context) error {
		known, err := metrics(ctx)
		failures := []error{err}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if err := shows(ctx, known, name, all[name]); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w in %s", name, err, all[name]))
			}
		}
		return errors.Join(failures...)
	})
}

// shows is nil when a panel's query is answered with numbers, and with one above
// zero unless there is nothing to see.
func shows(ctx context.Context, known []string, name, query string) error {
	if err := answered(ctx, known, query); err != nil {
		return err
	}
	lines, err := graph(ctx, query)
	if err != nil {
		return err
	}
	most, any := highest(lines)
	if !any || most <= 0 && nothingToSee[name] == "" {
		return fmt.Errorf("of %d series the highest value is %v (there is one: %t)", len(lines), most, any)
	}
	return nil
}

// answered is nil when Prometheus answers a query without complaint and has all
// metrics that it names.
func answered(ctx context.Context, known []string, query string) error {
	names, err := metricsOf(ctx, query)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no program serves %s", name)
		}
	}
	return instant(ctx, query)
}

// TestVariablesHaveValues to choose from.
func TestVariablesHaveValues(t *testing.T) {
	play(t)
	labelValues := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for file, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			query, _ := v.Query.(map[string]any)["query"].(string)
			parts := labelValues.FindStringSubmatch(query)
			if parts == nil {
				t.Errorf("%s: of variable %s this test does not understand %q", file, v.Name, query)
				continue
			}
			eventually(t, v.Name, func(ctx context.Context) error {
				values, err := ask[[]string](ctx, "label/"+parts[2]+"/values?"+url.Values{"match[]": {parts[1]}}.Encode(), nil)
				if err == nil && len(values) == 0 {
					err = fmt.Errorf("%s finds nothing", query)
				}
				return err
			})
		}
	}
}

// TestAlertsSayWhatHappens: those whose trouble can be made at once are pending, or
// fire if they wait for nothing, with a text that Prometheus could fill in.
func TestAlertsSayWhatHappens(t *testing.T) {
	play(t)
	apply(t, "testdata/trouble.yaml")
	for i := range 8 {
		job := find(t, objects(t, "testdata/jobs.yaml"), "fails")
		job.SetName(fmt.Sprint("fails-", i))
		must(t, stage.Apply(t.Context(), "default", job))
	}
	must(t, stage.agents[0].describe(2, 5))
	must(t, stage.agents[1].forget())
	alerts(t, map[string]string{
		"TuttiInvalidGangs":    "Gangs ask for something",
		"TuttiJobsFail":        "More TFJobs failed",
		"TuttiGangsIncomplete": "1 gangs have fewer pods",
		"TuttiGPUUnhealthy":    "2 GPUs of 127.0.0.1:",
		"TuttiAgentBlind":      "does not see file",
	})
	stage.schedulers[0].Stop()
	for _, controller := range stage.controllers {
		controller.Stop()
	}
	alerts(t, map[string]string{
		"TuttiReplicaMissing":       "tutti-scheduler has one replica",
		"TuttiControllerNotLeading": "No tutti-controller leads",
	})
	stage.schedulers[1].Stop()
	alerts(t, map[string]string{"TuttiSchedulerNotLeading": "No tutti-scheduler leads"})
}

// alerts waits until each is active and its summary says so.
func alerts(t *testing.T, want map[string]string) {
	t.Helper()
	eventually(t, "alerts", func(ctx context.Context) error {
		loaded, err := rules(ctx)
		if err != nil {
			return err
		}
		for name := range want {
			if !slices.ContainsFunc(loaded, func(r rule) bool { return r.Name == name }) {
				return fmt.Errorf("there is no %s", name)
			}
		}
		for _, r := range loaded {
			said := want[r.Name]
			state := "pending"
			if r.Duration == 0 {
				state = "firing"
			}
			if said != "" && r.State != state {
				return fmt.Errorf("%s is %s, want %s", r.Name, r.State, state)
			}
			for _, alert := range r.Alerts {
				if summary := alert.Annotations["summary"]; !strings.Contains(summary, said) || strings.Contains(summary, "<error") {
					return fmt.Errorf("%s says %q, want %q", r.Name, summary, said)
				}
			}
		}
		return nil
	})
}
