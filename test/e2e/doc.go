// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Tutti on the cluster of `make kind-up`: real kubelets, real
// containers, TensorFlow that trains. The tests are run by `make test-e2e` and,
// those that -short leaves, by `make test-e2e-short`.
//
// Every test has a namespace and a volume of its own. What its containers
// printed, its events and its objects are kept in -dir when it has failed.
package e2e
