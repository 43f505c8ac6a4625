// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests tests what is installed with the programs that will read it:
// Helm's engine and linter, kustomize, and Prometheus' parsers.
package manifests
