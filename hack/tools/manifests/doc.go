// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests tests what is installed with the libraries of the programs that
// will read it: Helm's engine, kustomize, and Prometheus' engine. The programs
// themselves are built from this module for test/monitoring and test/install.
package manifests
