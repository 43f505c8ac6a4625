// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package placement answers: on which hosts does a gang run, and if nowhere, why?
package placement

// Plan places the whole gang or none of it.
func Plan(p Problem) Decision { return Decision{} }
