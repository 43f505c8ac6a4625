// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a Kubernetes control plane of real programs on
// this machine: etcd, a stock kube-apiserver (no feature gates), the controllers
// of kube-controller-manager that a training job meets, KWOK in place of
// kubelets, and Tutti's own two programs from bin/.
//
//	Start ── etcd ── kube-apiserver ──┬── kube-controller-manager (as admin)
//	                                  ├── kwok                    (as admin)
//	         with CRDs, RBAC          ├── tutti-scheduler   (as its service account)
//	         and simulated nodes      └── tutti-controller  (as its service account)
//
// Invariants:
//   - Everything listens on loopback only, on ports free at the time.
//   - Every file is below Options.Dir; HOME of every child lies there too.
//   - No child outlives this process, however it ends: each gets SIGKILL from
//     the kernel when the thread that started it dies (see launch).
//
// The package knows nothing of package testing: the demo uses it as well.
package controlplane
