// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
)

// padding fills up the last set of a division that does not come out even.
const padding = -1

// prefer chooses size GPUs of those available as NVIDIA's best-effort policy
// does: of all divisions of the available GPUs into sets of that size it takes
// the one with the highest score in total, and of its sets the best. Which of
// equals is taken is chance: the order in which the kubelet names GPUs is. A set
// filled up with padding may win, and has then too few GPUs.
func prefer(scores [][]int, available, required []int, size int, random *rand.Rand) []int {
	if size <= 0 || size > len(available) {
		return nil
	}
	order := slices.Clone(available)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for len(order)%size != 0 {
		order = append(order, padding)
	}
	var best []int
	bestTotal, bestScore := -1, -1
	divide(order, size, nil, func(sets [][]int) {
		total := 0
		var set []int
		score := -1
		for _, s := range sets {
			own := scoreOf(scores, s)
			total += own
			if own > score && includes(s, required) {
				set, score = s, own
			}
		}
		if score >= 0 && (total > bestTotal || total == bestTotal && score > bestScore) {
			best, bestTotal, bestScore = slices.Clone(set), total, score
		}
	})
	return slices.DeleteFunc(best, func(gpu int) bool { return gpu == padding })
}

// divide visits every division of rest into sets of that size, once each but
// for the padding.
func divide(rest []int, size int, sets [][]int, visit func([][]int)) {
	if len(rest) == 0 {
		visit(sets)
		return
	}
	choose(rest[1:], size-1, []int{rest[0]}, nil, func(set, left []int) {
		divide(left, size, append(slices.Clip(sets), set), visit)
	})
}

// choose visits every way to add n of rest to set.
func choose(rest []int, n int, set, left []int, visit func(set, left []int)) {
	if n == 0 {
		visit(set, append(slices.Clip(left), rest...))
		return
	}
	if len(rest) < n {
		return
	}
	choose(rest[1:], n-1, append(slices.Clip(set), rest[0]), left, visit)
	choose(rest[1:], n, set, append(slices.Clip(left), rest[0]), visit)
}

func scoreOf(scores [][]int, set []int) int {
	total := 0
	for i, a := range set {
		for _, b := range set[:i] {
			if a != padding && b != padding {
				total += scores[a][b]
			}
		}
	}
	return total
}

func includes(set, required []int) bool {
	return !slices.ContainsFunc(required, func(gpu int) bool { return !slices.Contains(set, gpu) })
}
