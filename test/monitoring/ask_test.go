// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ask a question of Prometheus' HTTP API. An answer with warnings, or with remarks
// on a query, is an error.
func ask[T any](ctx context.Context, page string, parameters url.Values) (T, error) {
	var answer struct {
		Status, Error string
		Data          T
		Warnings      []string
		Infos         []string
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, stage.prometheus+"/api/v1/"+page, strings.NewReader(parameters.Encode()))
	if err != nil {
		return answer.Data, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if parameters == nil {
		request.Method = http.MethodGet
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer.Data, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return answer.Data, fmt.Errorf("%s: %s: %w", page, response.Status, err)
	}
	if complaints := append(answer.Warnings, answer.Infos...); answer.Status != "success" || len(complaints) > 0 {
		return answer.Data, fmt.Errorf("%s: %s %v", answer.Status, answer.Error, complaints)
	}
	return answer.Data, nil
}

// series is one line of an answer, with a value per second.
type series struct {
	Metric map[string]string
	Values [][2]any
}

// graph is what a panel draws from the start of everything until now.
func graph(ctx context.Context, query string) ([]series, error) {
	answer, err := ask[struct{ Result []series }](ctx, "query_range", url.Values{
		"query": {query}, "step": {"1"},
		"start": {stage.began.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)},
	})
	return answer.Result, err
}

// highest of the numbers that are drawn, and whether there is one.
func highest(lines []series) (most float64, any bool) {
	for _, line := range lines {
		for _, value := range line.Values {
			text, _ := value[1].(string)
			number, err := strconv.ParseFloat(text, 64)
			if err != nil || number != number {
				continue // NaN is drawn as nothing
			}
			if !any || number > most {
				most = number
			}
			any = true
		}
	}
	return most, any
}

// instant is the answer at this moment.
func instant(ctx context.Context, query string) error {
	_, err := ask[json.RawMessage](ctx, "query", url.Values{"query": {query}})
	return err
}

// metricsOf a query, as Prometheus reads it.
func metricsOf(ctx context.Context, query string) ([]string, error) {
	tree, err := ask[any](ctx, "parse_query", url.Values{"query": {query}})
	if err != nil {
		return nil, err
	}
	var names []string
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case []any:
			for _, child := range n {
				walk(child)
			}
		case map[string]any:
			if n["type"] == "vectorSelector" || n["type"] == "matrixSelector" {
				names = append(names, fmt.Sprint(n["name"]))
			}
			for _, child := range n {
				walk(child)
			}
		}
	}
	walk(tree)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// metrics are the names of all that was scraped or recorded.
func metrics(ctx context.Context) ([]string, error) {
	return ask[[]string](ctx, "label/__name__/values", nil)
}

type rule struct {
	Type, Name, Query, Health, LastError, State string
	Duration                                    float64 // seconds
	Alerts                                      []struct {
		State               string
		Labels, Annotations map[string]string
	}
}

// rules as Prometheus has loaded them.
func rules(ctx context.Context) ([]rule, error) {
	answer, err := ask[struct{ Groups []struct{ Rules []rule } }](ctx, "rules", nil)
	var all []rule
	for _, group := range answer.Groups {
		all = append(all, group.Rules...)
	}
	return all, err
}
