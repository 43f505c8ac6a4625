// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package examples runs the training programs of examples/ as plain processes:
// what they do when one of them is killed must be known before a cluster is
// asked the same.
package examples

import (
	"strconv"
	"testing"
)

const (
	parameterServer         = "../../examples/parameter-server/train.py"
	parameterServerStrategy = "../../examples/parameter-server-strategy/train.py"
	allReduce               = "../../examples/all-reduce/train.py"
)

const (
	steps  = 200
	target = 0.1
)

func TestTrainingSurvives(t *testing.T) {
	servers, strategy := map[string]int{"ps": 2, "worker": 2}, map[string]int{"chief": 1, "ps": 1, "worker": 2, "evaluator": 1}
	cases := map[string]struct {
		script string
		roles  map[string]int
		args   []string
		leader string // prints the progress and the result
		victim string // none where empty
		// resumes is the replica that says from which step it goes on, after the victim's death.
		resumes string
	}{
		"parameter-server/worker":          {parameterServer, servers, nil, "worker-0", "worker-1", "worker-1"},
		"parameter-server/chief":           {parameterServer, servers, nil, "worker-0", "worker-0", "worker-0"},
		"parameter-server/server":          {parameterServer, servers, nil, "worker-0", "ps-0", "worker-0"},
		"parameter-server/sync":            {parameterServer, servers, []string{"--sync"}, "worker-0", "", ""},
		"parameter-server-strategy/worker": {parameterServerStrategy, strategy, nil, "chief-0", "worker-1", ""},
		"parameter-server-strategy/server": {parameterServerStrategy, strategy, nil, "chief-0", "ps-0", "chief-0"},
		"parameter-server-strategy/chief":  {parameterServerStrategy, strategy, nil, "chief-0", "chief-0", "chief-0"},
		"all-reduce/worker":                {allReduce, map[string]int{"worker": 2}, nil, "worker-0", "worker-1", "worker-1"},
		"all-reduce/chief":                 {allReduce, map[string]int{"worker": 2}, nil, "worker-0", "worker-0", "worker-0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := start(t, tc.script, tc.roles, append(tc.args, "--steps="+strconv.Itoa(steps))...)
			p.await(tc.leader, `(?m)^step=`, 2)
			if tc.victim != "" {
				p.kill(tc.victim)
			}
			result := p.await(tc.leader, `(?m)^RESULT step=(\d+) loss=([\d.]+) resumed_from=\d+$`, 1)
			if step := number(t, result[1]); step < float64(steps) {
				t.Errorf("the result is of step %g, want %d", step, steps)
			}
			if loss := number(t, result[2]); loss > target {
				t.Errorf("the loss is %g, want at most %g", loss, target)
			}
			if tc.resumes != "" {
				if from := p.await(tc.resumes, `(?m)^START step=(\d+)$`, 2)[1]; number(t, from) == 0 {
					t.Errorf("%s began from step 0 after %s was killed", tc.resumes, tc.victim)
				}
			}
			if _, ok := tc.roles["evaluator"]; ok {
				p.await("evaluator-0", `(?m)^EVALUATED step=`+strconv.Itoa(steps)+` `, 1)
			}
		})
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
