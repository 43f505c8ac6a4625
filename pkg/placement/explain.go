// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// Explain puts the decision into one or two sentences for people. p is the
// problem it answers.
func (d Decision) Explain(p Problem) string { return "" }
