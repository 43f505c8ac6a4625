// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests answers what is to be installed: the CRDs, for programs that install them
// without the source tree at hand.
package manifests

import "embed"

// CRDs holds crds/*.yaml, one CustomResourceDefinition a file (and a kustomization).
//
//go:embed crds/*.yaml
var CRDs embed.FS
