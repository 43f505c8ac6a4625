// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// line is one of a step, without the spaces around it.
type line struct {
	number int // from 1
	text   string
}

// word is key, key=value or key=(value, value).
type word struct {
	key    string
	values []string
}

// words cuts the line at spaces, but for those in parentheses.
func (l line) words() ([]word, error) {
	var words []word
	for rest := l.text; rest != ""; rest = strings.TrimSpace(rest) {
		end := strings.IndexFunc(rest, unicode.IsSpace)
		if end < 0 {
			end = len(rest)
		}
		key, value, valued := strings.Cut(rest[:end], "=")
		if strings.HasPrefix(value, "(") {
			list, after, closed := strings.Cut(rest[len(key)+len("=("):], ")")
			if !closed {
				return nil, at(l.number, "%q is not closed by )", rest)
			}
			value, rest = list, after
		} else {
			rest = rest[end:]
		}
		w := word{key: key}
		for v := range strings.SplitSeq(value, ",") {
			if v = strings.TrimSpace(v); v != "" {
				w.values = append(w.values, v)
			}
		}
		if key == "" || valued && len(w.values) == 0 {
			return nil, at(l.number, "%q says nothing; write key, key=value or key=(value, value)", key+"="+value)
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return nil, at(l.number, "is empty; write the step without empty lines")
	}
	return words, nil
}

// one is the word's only value.
func (l line) one(w word) (string, error) {
	if len(w.values) != 1 {
		return "", at(l.number, "%s has %d values, want one: %s=value", w.key, len(w.values), w.key)
	}
	return w.values[0], nil
}

// number is the word's only value as an integer in a range.
func (l line) integer(w word, least, most int64) (int64, error) {
	value, err := l.one(w)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, at(l.number, "%s=%s is no whole number from %d to %d", w.key, value, least, most)
	}
	return n, nil
}

// resources are the entries of all vectors; amounts are what a scenario calls them.
var (
	resources = []string{"cpu", "memory", "pods", "nvidia.com/gpu"}
	amounts   = []string{"cpu", "memory", "pods", "gpu"}
)

const (
	cpu, pods, gpu = 0, 2, 3
	millis         = 1000    // of a core
	maxAmount      = 1 << 40 // so that no sum over hosts or pods overflows
)

// setAmount reads key=value into a vector; cpu is in cores, memory in bytes.
func (l line) setAmount(vector []int64, w word, least int64) error {
	i := slices.Index(amounts, w.key)
	if i < 0 {
		return at(l.number, "%q is not known here", w.key)
	}
	n, err := l.integer(w, least, maxAmount)
	if err != nil {
		return err
	}
	if i == cpu {
		n *= millis
	}
	vector[i] = n
	return nil
}
