// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// FingerprintOf is the Fingerprint of a status that takes just these pods into account, each as
// namespace/name, in any order. Pods that hold no GPU are not among them.
//
// A reader that computes it over the running pods with GPUs that it knows on the node, and finds
// it equal, knows that Free is up to date.
func FingerprintOf(pods []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(pods)))
	sum := sha256.Sum256([]byte(strings.Join(sorted, "\n")))
	return "pods-v1-" + hex.EncodeToString(sum[:8])
}
