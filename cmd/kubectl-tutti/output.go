// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// print writes v in the form asked for, or as table does for people.
func (e *environment) print(v any, table func(w io.Writer) error) error {
	switch e.output {
	case "":
		w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
		if err := table(w); err != nil {
			return err
		}
		return w.Flush()
	case "json":
		encoder := json.NewEncoder(e.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case "yaml":
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = e.out.Write(data)
		return err
	}
	return fmt.Errorf("-o %s: want json or yaml", e.output)
}

// plural is "1 pod", "2 pods".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
