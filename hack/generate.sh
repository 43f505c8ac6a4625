#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

# Generates what is derived from the API types: deepcopy functions, typed clients, listers,
# informers and CRDs. The generators are those in bin/. The output depends on the sources alone,
# and what is no longer generated goes away.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CGO_ENABLED=0

module=$(go list -m)
out=pkg/generated
header=hack/boilerplate.go.txt
# API packages that get clients: group directory and version. kubeflow/v1alpha1 needs none, since
# its objects are served as v1 too.
clients=(kubeflow/v1 topology/v1alpha1)

step() { printf 'generate: %s\n' "$*" >&2; }

step "deepcopy functions"
bin/controller-gen "object:headerFile=$header" paths=./pkg/apis/...

packages=("${clients[@]/#/$module/pkg/apis/}")
# Emptied, not kept: a generator leaves behind the files of a type that has gone.
rm -rf "$out"

step "clientset"
bin/client-gen --go-header-file "$header" --input-base "$module/pkg/apis" "${clients[@]/#/--input=}" \
	--clientset-name versioned --output-dir "$out/clientset" --output-pkg "$module/$out/clientset"

step "listers"
bin/lister-gen --go-header-file "$header" --output-dir "$out/listers" --output-pkg "$module/$out/listers" \
	"${packages[@]}"

step "informers"
bin/informer-gen --go-header-file "$header" --output-dir "$out/informers" --output-pkg "$module/$out/informers" \
	--versioned-clientset-package "$module/$out/clientset/versioned" --listers-package "$module/$out/listers" \
	"${packages[@]}"

step "CRDs"
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
# Without descriptions: they are most of a CRD that embeds pod templates, and are in the Go types.
bin/controller-gen crd:maxDescLen=0,generateEmbeddedObjectMeta=true \
	paths=./pkg/apis/... "output:crd:dir=$raw"
bin/controller-gen crd:maxDescLen=0 \
	paths=sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1 "output:crd:dir=$raw"
go run ./hack/crdgen "$raw" manifests/crds

step "field table"
go run ./hack/fieldtable pkg/apis/kubeflow/v1 docs/tfjob.md
