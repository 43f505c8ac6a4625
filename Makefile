# SPDX-FileCopyrightText: The Tutti Authors
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One setting for product, tools and tests: every package is compiled once.
export CGO_ENABLED := 0
export GOTOOLCHAIN := local
export GOFLAGS := $(GOFLAGS) -buildvcs=false

TOOLS_MODULE := hack/tools/go.mod hack/tools/go.sum hack/tools/build.sh
LINT_MODULE := hack/tools/lint/go.mod hack/tools/lint/go.sum hack/tools/build.sh
PROGRAMS := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok
GENERATORS := client-gen lister-gen informer-gen controller-gen
GENERATOR_PACKAGES := $(addprefix k8s.io/code-generator/cmd/,client-gen lister-gen informer-gen) sigs.k8s.io/controller-tools/cmd/controller-gen

PURE := ./pkg/topology/... ./pkg/placement/... ./pkg/clusterspec/...
GO_FILES = git ls-files -z --cached --others --exclude-standard -- '*.go' ':!pkg/generated'

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: tools build ## Run everything on this machine and show it (DEMO=once: exit by itself).
	@exec bin/demo

##@ Build

.PHONY: build
build: ## Build the product's programs and the demo into bin/.
	@hack/tools/build.sh . bin/ ./cmd/... ./hack/demo

# The driver's library is loaded by cgo; the packages that could use it as well do not, so that they are compiled once.
.PHONY: agent
agent: ## Build the agent that can ask the NVIDIA driver into bin/cgo/ (that of make build cannot; needs gcc).
	@CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) -tags=netgo,osusergo" hack/tools/build.sh . bin/cgo/tutti-agent ./cmd/tutti-agent

.PHONY: tools
tools: bin/controlplane $(addprefix bin/,$(PROGRAMS)) bin/controller-gen bin/golangci-lint ## Build the tools and the test control plane into bin/.

bin/controlplane: $(TOOLS_MODULE) $(wildcard hack/tools/controlplane/*.go)
	@hack/tools/build.sh hack/tools ../../$@ ./controlplane

$(addprefix bin/,$(PROGRAMS)): bin/controlplane
	@ln -sf controlplane $@

# One target stands for all generators: one command builds them.
bin/controller-gen: $(TOOLS_MODULE)
	@hack/tools/build.sh hack/tools ../../bin/ $(GENERATOR_PACKAGES)
	@touch $(addprefix bin/,$(GENERATORS))

# What the nodes of the cluster of make kind-up run, and what makes images.
NODE_PROGRAMS := node coredns pause runcfit image

$(addprefix bin/,$(NODE_PROGRAMS)): bin/%: $(TOOLS_MODULE) $(wildcard hack/tools/*/*.go)
	@hack/tools/build.sh hack/tools ../../$@ ./$*

bin/kind: $(TOOLS_MODULE)
	@hack/tools/build.sh hack/tools ../../$@ sigs.k8s.io/kind

.PHONY: images
images: build agent bin/image ## Write the product's container images to bin/images/, without a container engine.
	@for program in tutti-scheduler tutti-controller; do \
		bin/image -o bin/images/$$program.tar -user 65532:65532 $$program:dev=bin/$$program; \
	done
	@hack/agent-root.sh bin/cgo/tutti-agent bin/cgo/root
	@bin/image -o bin/images/tutti-agent.tar -user 0:0 -entrypoint /tutti-agent tutti-agent:dev=bin/cgo/root

MANIFESTS_MODULE := hack/tools/manifests/go.mod hack/tools/manifests/go.sum hack/tools/build.sh

# Without service discovery, of which the tests use none and which is most of the program.
bin/prometheus: $(MANIFESTS_MODULE)
	@GOFLAGS="$(GOFLAGS) -tags=remove_all_sd" hack/tools/build.sh hack/tools/manifests ../../../$@ github.com/prometheus/prometheus/cmd/prometheus

bin/helm: $(MANIFESTS_MODULE)
	@hack/tools/build.sh hack/tools/manifests ../../../$@ helm.sh/helm/v4/cmd/helm

.PHONY: install-yaml
install-yaml: bin/kubectl ## Write all that is installed into one file, bin/install.yaml (REGISTRY, TAG: whose images).
	@bin/kubectl kustomize manifests/base | sed -E 's|image: (tutti-[a-z]+):dev$$|image: $(if $(REGISTRY),$(REGISTRY)/)\1:$(or $(TAG),dev)|' >bin/install.yaml
	@echo bin/install.yaml

bin/golangci-lint: $(LINT_MODULE)
	@hack/tools/build.sh hack/tools/lint ../../../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: clean
clean: ## Remove what was built and what runs left.
	rm -rf bin .bench .demo .test .kind/cache .kind/log

##@ Real nodes (docs/kind.md)

.PHONY: kind-up
kind-up: images bin/kind bin/kubectl ## Make a kind cluster with Tutti on it; needs neither a container engine nor a registry.
	@hack/kind/up.sh

.PHONY: kind-check
kind-check: ## Say whether this machine can run that, and what is missing if not.
	@hack/kind/check.sh

.PHONY: kind-equip
kind-equip: bin/image ## Give the cluster TensorFlow with the programs of examples/, a volume and simulated GPUs.
	@hack/tools/build.sh . bin/gpusim ./test/e2e/gpusim
	@hack/kind/equip.sh

.PHONY: kind-load
kind-load: images ## Build Tutti, load it into the cluster and restart it.
	@hack/kind/install.sh

.PHONY: kind-down
kind-down: ## Take the cluster away; leaves .kind/cache, with which the next one is up in a minute or two.
	@hack/kind/down.sh

##@ Check

.PHONY: test
test: test-unit test-integration ## Run the unit tests, then the integration tests.

.PHONY: test-unit
test-unit: ## Run the unit tests, the pure packages first.
	go test -shuffle=on $(PURE)
	go test -shuffle=on $$(go list ./... | grep -v /tutti/test/)
	cd hack/tools && go test ./versions ./image ./runcfit
	cd hack/tools/manifests && go test ./...
	$(MAKE) test-driver

.PHONY: test-driver
test-driver: ## Test what asks the NVIDIA driver, with a mock of its binding and a stub of its library (needs gcc).
	CGO_ENABLED=1 go test -tags=netgo,osusergo ./pkg/discovery/nvml ./cmd/tutti-agent

.PHONY: test-integration
test-integration: tools build bin/helm ## Run the integration tests on a real control plane.
	go test -count=1 -p 1 -timeout 20m $$(go list ./test/... | grep -v -e /test/examples -e /test/monitoring -e '/test/e2e$$')

.PHONY: test-examples
test-examples: .test/tensorflow/.done ## Run the training programs as plain processes, and kill some of them.
	go test -count=1 -timeout 40m -v ./test/examples -args -python=$(CURDIR)/.test/tensorflow/bin/python

.test/tensorflow/.done: examples/requirements.txt
	rm -rf .test/tensorflow
	python3 -m venv .test/tensorflow
	.test/tensorflow/bin/pip install -q -r examples/requirements.txt
	@touch $@

.PHONY: test-browser
test-browser: tools build ## Test the page of kubectl tutti ui on snapshots and on the demo, in Chromium, which is installed if there is none (SHOTS: a folder for screenshots).
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	cd hack/tools/browser && go test -count=1 -timeout 10m -v . -args -screenshots=$(SHOTS)

.PHONY: test-monitoring
test-monitoring: tools build bin/prometheus ## Let a real Prometheus scrape the programs and answer what rules and dashboard ask (another 380 packages to compile).
	go test -count=1 -timeout 10m ./test/monitoring

.PHONY: test-faults
test-faults: tools build ## Let 2,000 jobs live through faults and killed controllers (RUNS: another number).
	go test -count=1 -timeout 30m -v ./test/faults -args -runs=$(or $(RUNS),2000)

.PHONY: test-e2e
test-e2e: kind-up kind-equip bin/e2e.test ## Train with TensorFlow on real nodes, and kill what can be killed (RUN: a pattern of tests).
	.kind/enter bin/e2e.test -test.v -test.parallel 3 -test.timeout 120m -test.run '$(RUN)'

.PHONY: test-e2e-short
test-e2e-short: kind-up kind-equip bin/e2e.test ## The short ones of these.
	.kind/enter bin/e2e.test -test.v -test.short -test.timeout 30m

.PHONY: bin/e2e.test
bin/e2e.test:
	@go test -c -o $@ ./test/e2e

.PHONY: test-upgrade
test-upgrade: tools build ## Upgrade from an older commit while jobs run (FROM: another commit than the one before).
	@rm -rf .test/upgrade && mkdir -p .test/upgrade
	git archive $(or $(FROM),HEAD~1) | tar -x -C .test/upgrade
	@hack/tools/build.sh .test/upgrade bin/ ./cmd/tutti-scheduler ./cmd/tutti-controller
	TUTTI_TEST_UPGRADE_FROM=.test/upgrade go test -count=1 -timeout 5m -v -run UpgradeFromThere ./test/install

# The oldest API server that Tutti supports. Native PodGroups are not there.
.PHONY: test-skew
test-skew: tools build ## Run the integration tests on the oldest API server that is supported (another 1,700 packages to compile).
	@hack/tools/build.sh hack/skew ../../bin/skew/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	TUTTI_TEST_APISERVER=bin/skew/kube-apiserver go test -count=1 -timeout 20m ./test/integration -skip Native $(if $(RUN),-run '$(RUN)')

.PHONY: test-gang-faults
test-gang-faults: tools build ## Let gangs live through 1,000 histories with faults and killed schedulers (RUNS: another number).
	go test -count=1 -timeout 5h -v ./test/gangfaults -args -runs=$(or $(RUNS),1000) -worlds=8

.PHONY: test-agreement
test-agreement: tools build ## Compare what kubectl tutti plan says with what the scheduler does, on 1,000 states of clusters (STATES: another number).
	go test -count=1 -timeout 2h -v ./test/agreement -args -states=$(or $(STATES),1000) -planes=2

.PHONY: fuzz
fuzz: ## Fuzz every fuzz target, one after the other (FUZZTIME: of each, 1m).
	@for package in $$(go list $(PURE) ./pkg/controller/...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),1m) $$package; \
		done; \
	done

.PHONY: bench
bench: tools build ## Measure gangs on 5,000 nodes beside kube-scheduler and a bind-only loop, some 40 minutes (BENCH: flags).
	@hack/tools/build.sh . bin/bench-gang ./test/gangbench
	@exec bin/bench-gang $(BENCH)

.PHONY: bench-pending
bench-pending: tools build ## Measure what 2,000 gangs that do not fit cost 100 that do.
	@hack/tools/build.sh . bin/bench-pending ./test/pendingbench
	@exec bin/bench-pending $(BENCH)

.PHONY: bench-go
bench-go: ## Run the Go benchmarks of the pure packages.
	go test -run '^$$' -bench . -benchmem $(PURE)

.PHONY: bench-planner
bench-planner: ## Measure the planner alone, over hosts and gangs, against a plain pass over all hosts.
	@hack/tools/build.sh . bin/bench-planner ./test/plannerbench
	@exec bin/bench-planner

.PHONY: bench-quality
bench-quality: ## Simulate months of a trace under several policies; writes docs/benchmarks.md.
	@hack/tools/build.sh . bin/bench-quality ./test/quality
	@exec bin/bench-quality

.PHONY: bench-controller
bench-controller: tools build ## Measure a job of 500 and 400 jobs of 10 beside loops that only create, and what 5,000 finished jobs cost.
	@hack/tools/build.sh . bin/bench-controller ./test/controllerbench
	@exec bin/bench-controller

.PHONY: bench-agent
bench-agent: tools build ## Measure the requests of 1,000 agents at rest and while pods come and go, and one agent's cost.
	@hack/tools/build.sh . bin/bench-agent ./test/agentbench
	@exec bin/bench-agent

.PHONY: verify
verify: tools ## Check that generated code, go.mod files and formatting are up to date; vet and lint.
	@hack/verify.sh
	cd hack/tools && go run ./versions ../../go.mod go.mod
	go vet ./...
	$(MAKE) lint

.PHONY: verify-docs
verify-docs: tools build ## Run the commands of the documents on the demo's cluster, and compare what they print.
	go test -count=1 -timeout 10m ./test/docs

.PHONY: verify-docs-kind
verify-docs-kind: kind-up kind-equip ## Run the quick start's commands on real nodes.
	go test -c -o bin/docs.test ./test/docs
	cd test/docs && nodes=3 image=tutti-examples:dev $(CURDIR)/.kind/enter $(CURDIR)/bin/docs.test -test.v -test.run Documents -cluster $(CURDIR)/.kind/kubeconfig

.PHONY: lint
lint: bin/golangci-lint ## Run the linters.
	bin/golangci-lint run --allow-parallel-runners ./...
	cd hack/tools && ../../bin/golangci-lint run --allow-parallel-runners --config ../../.golangci.yaml ./...
	cd hack/tools/manifests && ../../../bin/golangci-lint run --allow-parallel-runners --config ../../../.golangci.yaml ./...
	cd hack/tools/browser && ../../../bin/golangci-lint run --allow-parallel-runners --config ../../../.golangci.yaml ./...

##@ Change

.PHONY: generate
generate: bin/controller-gen ## Generate deep copies, clients, informers, listers and CRDs.
	hack/generate.sh

.PHONY: fmt
fmt: ## Format the Go code.
	$(GO_FILES) | xargs -0 gofmt -s -w

.PHONY: tidy
tidy: ## Tidy the go.mod files.
	go mod tidy
	cd hack/tools && go mod tidy
	cd hack/tools/lint && go mod tidy
	cd hack/tools/manifests && go mod tidy
	cd hack/tools/browser && go mod tidy
