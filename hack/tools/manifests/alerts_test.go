// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// series is a metric that began with a value two hours ago and grew by so much a minute.
type series struct {
	metric      string
	from, grows float64
}

const leads = `leader_election_master_status{name="l",job="monitoring/tutti-`

// calm is a cluster on which no alert fires.
var calm = []series{
	{leads + `scheduler",instance="a"}`, 1, 0}, {leads + `scheduler",instance="b"}`, 0, 0},
	{leads + `controller",instance="a"}`, 0, 0}, {leads + `controller",instance="b"}`, 1, 0},
	{`leader_election_master_status{name="kube-scheduler",job="kube-scheduler"}`, 1, 0},
	{`tutti_pending_gangs{profile="p",reason="Unschedulable"}`, 3, 0}, {`tutti_pending_gangs{profile="p",reason="Incomplete"}`, 0, 0},
	{`tutti_gang_attempts_total{profile="p",outcome="placed"}`, 10, 1}, {`tutti_gang_attempts_total{profile="p",outcome="invalid"}`, 4, 0},
	{`tutti_gang_attempts_total{profile="p",outcome="binding_failed"}`, 4, 0},
	{`profile:tutti_plan_duration_seconds:p99_5m{profile="p"}`, 0.1, 0},
	{`tutti_largest_free_devices{profile="p",level="rack",resource="gpu"}`, 30, 0},
	{`profile_resource:tutti_rack_free_devices:sum{profile="p",resource="gpu"}`, 80, 0},
	{`tutti_evicted_pods_total{preemptor="gang",victim="gang"}`, 7, 0.5},
	{`workqueue_depth{name="tfjob-controller"}`, 3, 0}, {`workqueue_depth{name="other"}`, 3000, 0},
	{`training_operator_jobs_failed_total`, 0, 0.2}, {`training_operator_jobs_successful_total`, 0, 2},
	{`rest_client_requests_total{job="tutti-scheduler",code="200"}`, 0, 600}, {`rest_client_requests_total{job="tutti-scheduler",code="500"}`, 0, 6},
	{`tutti_agent_source_up{source="driver"}`, 1, 0}, {`tutti_agent_gpus{state="unhealthy"}`, 0, 0}, {`tutti_agent_gpus{state="all"}`, 8, 0},
	{`tutti_agent_last_write_timestamp_seconds`, float64(now.Unix() - 7200), 60}, {`tutti_link_promises_total{result="broken"}`, 1, 0},
}

// trouble is what makes each alert fire, in place of the series of the same name and labels. A series that falls is gone.
var trouble = map[string][]series{
	"TuttiSchedulerNotLeading":  {{leads + `scheduler",instance="a"}`, 0, 0}},
	"TuttiControllerNotLeading": {{leads + `controller",instance="b"}`, 0, 0}},
	"TuttiReplicaMissing":       {{leads + `scheduler",instance="b"}`, 0, -1}},
	"TuttiNothingPlaced":        {{`tutti_gang_attempts_total{profile="p",outcome="placed"}`, 10, 0}},
	"TuttiGangsIncomplete":      {{`tutti_pending_gangs{profile="p",reason="Incomplete"}`, 1, 0}},
	"TuttiInvalidGangs":         {{`tutti_gang_attempts_total{profile="p",outcome="invalid"}`, 4, 1}},
	"TuttiBindingFails":         {{`tutti_gang_attempts_total{profile="p",outcome="binding_failed"}`, 4, 1}},
	"TuttiPlanningSlow":         {{`profile:tutti_plan_duration_seconds:p99_5m{profile="p"}`, 6, 0}},
	"TuttiFragmented":           {{`tutti_largest_free_devices{profile="p",level="rack",resource="gpu"}`, 8, 0}},
	"TuttiManyEvictions":        {{`tutti_evicted_pods_total{preemptor="gang",victim="gang"}`, 7, 3}},
	"TuttiJobQueueLong":         {{`workqueue_depth{name="tfjob-controller"}`, 300, 0}},
	"TuttiJobsFail":             {{`training_operator_jobs_failed_total`, 0, 4}},
	"TuttiRequestsFail":         {{`rest_client_requests_total{job="tutti-scheduler",code="500"}`, 0, 60}},
	"TuttiAgentBlind":           {{`tutti_agent_source_up{source="driver"}`, 0, 0}},
	"TuttiAgentSilent":          {{`tutti_agent_last_write_timestamp_seconds`, float64(now.Unix() - 1000), 0}},
	"TuttiGPUUnhealthy":         {{`tutti_agent_gpus{state="unhealthy"}`, 1, 0}},
	"TuttiLinkPromiseBroken":    {{`tutti_link_promises_total{result="broken"}`, 1, 0.1}},
}

var now = time.Unix(1_800_000_000, 0)

// TestAlertsFireForTheirTroubleAlone in Prometheus' own engine: none on a calm cluster, and each for what it is about.
func TestAlertsFireForTheirTroubleAlone(t *testing.T) {
	if got := firing(t, calm); len(got) > 0 {
		t.Errorf("on a calm cluster these fire: %v", got)
	}
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" && trouble[rule.Alert] == nil {
				t.Errorf("nothing shows when %s fires", rule.Alert)
			}
		}
	}
	for alert, changed := range trouble {
		cluster := slices.DeleteFunc(slices.Clone(calm), func(s series) bool {
			return slices.ContainsFunc(changed, func(c series) bool { return c.metric == s.metric })
		})
		if got := firing(t, append(cluster, changed...)); !slices.Equal(got, []string{alert}) {
			t.Errorf("the trouble of %s: %v fire", alert, got)
		}
	}
}

func firing(t *testing.T, cluster []series) []string {
	t.Helper()
	var alerts []string
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			found, err := evaluate(t, cluster, rule.Expr)
			if err != nil {
				t.Fatalf("%s: %v", rule.Alert, err)
			}
			if found > 0 {
				alerts = append(alerts, rule.Alert)
			}
		}
	}
	return alerts
}

// evaluate returns how many series a query finds at the time now.
func evaluate(t *testing.T, cluster []series, query string) (int, error) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: reader})
	defer engine.Close()
	q, err := engine.NewInstantQuery(t.Context(), &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &set{series: matching(t, cluster, matchers)}
		},
	}}, nil, query, now)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		return 0, result.Err
	}
	vector, err := result.Vector()
	return len(vector), err
}

func matching(t *testing.T, cluster []series, matchers []*labels.Matcher) []storage.Series {
	t.Helper()
	var found []storage.Series
	for _, s := range cluster {
		metric, err := reader.ParseMetric(s.metric)
		if err != nil {
			t.Fatalf("%s: %v", s.metric, err)
		}
		if s.grows < 0 || slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(metric.Get(m.Name)) }) {
			continue
		}
		points := []promql.FPoint{}
		for minute := range 121 {
			at := now.Add(time.Duration(minute-120) * time.Minute)
			points = append(points, promql.FPoint{T: at.UnixMilli(), F: s.from + float64(minute)*s.grows})
		}
		found = append(found, promql.NewStorageSeries(promql.Series{Metric: metric, Floats: points}))
	}
	return found
}

var reader = parser.NewParser(parser.Options{})
