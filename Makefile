# Everything that contributors run. `make help` lists the targets.

GO ?= go
COMPONENTS := etcd kube-apiserver kube-controller-manager kube-scheduler kwok
# KUBE chooses the version of the control plane: the default in tools/controlplane, or one that only make compatibility
# needs, in a Go module of its own.
KUBE_VERSION := $(shell sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' tools/controlplane/go.mod)
KUBE_DEFAULT := $(subst v,,$(basename $(KUBE_VERSION)))
KUBE_OTHERS := $(sort $(patsubst tools/controlplane-%/go.mod,%,$(wildcard tools/controlplane-*/go.mod)))
KUBE ?= $(KUBE_DEFAULT)
ifeq ($(filter $(KUBE),$(KUBE_OTHERS) $(KUBE_DEFAULT)),)
$(error KUBE=$(KUBE) is not among the control planes that can be built here: choose one of $(KUBE_OTHERS) $(KUBE_DEFAULT))
endif
PLANE := controlplane$(if $(filter $(KUBE),$(KUBE_OTHERS)),-$(KUBE))
PLANE_VERSION := $(shell sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' tools/$(PLANE)/go.mod)
# Which binaries test/rig/localcluster starts.
export CONTROLPLANE := bin/$(PLANE)

kube_ldflags = -s -w \
	-X k8s.io/component-base/version.gitVersion=$(1) \
	-X k8s.io/component-base/version.gitMajor=1 \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(1)))
KUBE_LDFLAGS := $(call kube_ldflags,$(KUBE_VERSION))

# The proofs that import Kubernetes itself are a Go module of their own, and so are the tests of the Prometheus rules.
PROOFS := test/parity
# The programs that check files.
CHECKERS := bin/controller-gen bin/helm bin/helm3 bin/promtool bin/actionlint

VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),(devel))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

.PHONY: build
build: ## build bin/taintkeeper and bin/kubectl-taintkeeper
	@tools/needs.sh go
	@for name in taintkeeper kubectl-taintkeeper; do \
		CGO_ENABLED=0 $(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/$$name ./cmd/$$name || exit 1; \
	done

# Anything missing on this machine is reported, or installed, before anything is built. CI needs what the tests need.
.PHONY: needs needs-go
needs-go:
	@tools/needs.sh go git
needs: ## check that this machine has what make test needs: Go, git, a C compiler, Chromium; on Debian, as root, install what is missing
	@tools/needs.sh go git cc chromium

# Tests in real time run one package after the other, so that none slows another. Tests in virtual time use the idle
# processors meanwhile; their output comes at the end.
.PHONY: test
test: needs tools ## run all tests with the race detector, and make verify-files
	@mkdir -p bin; nice -n 19 $(MAKE) --no-print-directory test-virtual-time > bin/test-virtual-time.log 2>&1 & virtual=$$!; \
	$(MAKE) --no-print-directory test-real-time; real=$$?; \
	wait $$virtual; virtual=$$?; cat bin/test-virtual-time.log; \
	exit $$((real + virtual))

# Everything but the linter.
.PHONY: tools
tools: build controlplane $(CHECKERS) bin/etcdutl ## build the programs that tests in test/ run

# Packages that start a control plane run one at a time, except two that mostly wait. Many run programs that Go's cache of
# test results does not track.
.PHONY: test-real-time
test-real-time:
	@$(GO) test -race -count=1 -timeout 40m -p 2 ./test/coexist ./test/nodehealth
	@$(GO) test -race -count=1 -timeout 40m -p 1 $$($(GO) list ./test/... | grep -vE '/test/(coexist|nodehealth)$$')

# The proofs run without the race detector, which covers all of our code in its own tests: it would compile Kubernetes
# again, and run many times slower. Without cgo they share what was compiled for the control plane and for the linter.
.PHONY: test-virtual-time
test-virtual-time: verify-files
	@$(GO) test -race -timeout 60m $(CHECKED)
	@for module in $(PROOFS); do (cd $$module && CGO_ENABLED=0 $(GO) test -timeout 60m ./...) || exit 1; done

# Checks of files: what follows from the types in api/ and from the chart, what the chart renders with Helm 4
# and with Helm 3 (test/chart/golden), the workflows, and the alerts.
RULES := charts/taintkeeper/files/rules.yaml
.PHONY: verify-files
verify-files: build $(CHECKERS) ## check the files that the compiler does not check: CRDs, chart, workflows, Prometheus rules
	@tools/generate/api.sh
	@$(GO) test -count=1 ./test/chart/generate
	@test/chart/replay.sh
	@bin/actionlint -shellcheck= -pyflakes=
	@bin/promtool check rules --lint=all --lint-fatal $(RULES) >/dev/null
	@bin/promtool test rules tools/promtool/testdata/rules_test.yaml
	@cd tools/promtool && $(GO) test -count=1 ./...

# TIME is per target. Inputs that fail are kept as cases of the target's test.
.PHONY: fuzz
fuzz: ## give random input to the parsers and to the rule that decides when a pod leaves (TIME=1m)
	@for target in taints:FuzzParse taints:FuzzApply verdict:FuzzDecide internal/cluster/podwire:FuzzPods internal/cluster/podwire:FuzzWire; do \
		$(GO) test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(or $(TIME),1m) "./$${target%:*}" || exit 1; \
	done

# Tests without a control plane and the race detector: unit tests, and whole controllers in virtual time.
CHECKED = $$($(GO) list ./... | grep -v /test/)

# The packages that changed since BASE are linted. `make lint` lints all.
.PHONY: check
check: bin/golangci-lint ## the quick check before a commit: format, lint of changed packages, unit and virtual-time tests (BASE=main)
	@bin/golangci-lint fmt --diff
	@tools/lint/changed.sh $(BASE)
	@$(GO) test -timeout 10m $(CHECKED)

.PHONY: plan-comes-true
plan-comes-true: controlplane ## plan random taints of random clusters, set them, and compare the result with the plans (ROUNDS=20 SEED=...)
	@case '$(ROUNDS)$(SEED)' in *[!0-9]*) echo "make plan-comes-true: ROUNDS and SEED are whole numbers, for example ROUNDS=20 SEED=1"; exit 1;; esac
	@$(GO) test ./test/plan -count=1 -v -timeout 0 -args -rounds=$(or $(ROUNDS),20) -seed=$(or $(SEED),$$(date +%s))

# Each round takes 45 seconds.
.PHONY: simulation-comes-true
simulation-comes-true: controlplane ## play random outages in a control plane with kwok, and compare every taint and eviction with the simulations (ROUNDS=20 SEED=...)
	@case '$(ROUNDS)$(SEED)' in *[!0-9]*) echo "make simulation-comes-true: ROUNDS and SEED are whole numbers, for example ROUNDS=20 SEED=1"; exit 1;; esac
	@$(GO) test ./test/simulation -count=1 -v -timeout 0 -args -rounds=$(or $(ROUNDS),20) -seed=$(or $(SEED),$$(date +%s))

.PHONY: demo
demo: needs-go build controlplane bin/demo ## play and check five acts, about evictions and silent nodes, on a real control plane on this machine (1 minute; BOARD=1 shows the board as well)
	@bin/demo $(if $(BOARD),-board)

.PHONY: try
try: needs-go build controlplane bin/helm bin/try ## install the chart next to the built-in controllers, in shadow mode, in enforce mode and back, on a control plane on this machine (1 minute)
	@bin/try

.PHONY: bin/try
bin/try:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/chart/try

.PHONY: playground
playground: needs-go build controlplane bin/demo ## keep a control plane running, with Taintkeeper, workloads and the board, to try things out
	@bin/demo -playground

# Built instead of run with `go run`, which would hide the exit status and not pass on a SIGTERM.
.PHONY: bin/demo
bin/demo:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/demo

# RUNS=taintkeeper plays only that run; separate several with commas.
.PHONY: conformance
conformance: conformance-flags build controlplane bin/conformance/e2e.test bin/conformance/kubectl ## run Kubernetes' own end-to-end tests of taints with the built-in controllers, with none and with ours (half an hour)
	@bin/conformance/run $(if $(RUNS),-runs=$(RUNS))

.PHONY: conformance-flags
conformance-flags: bin/conformance/run
	@bin/conformance/run -check $(if $(RUNS),-runs=$(RUNS))

# Built without debug information, which halves the size.
bin/conformance/%: test/parity/go.mod test/parity/go.sum
	@echo "building $* of Kubernetes $(KUBE_VERSION) from source (the first build takes 6 minutes on two cores)"
	@mkdir -p $(@D)
	@cd test/parity && $(BUILD_$*)
BUILD_e2e.test = CGO_ENABLED=0 $(GO) test -c -ldflags '$(KUBE_LDFLAGS)' -o ../../bin/conformance/e2e.test k8s.io/kubernetes/test/e2e
BUILD_kubectl = CGO_ENABLED=0 $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o ../../bin/conformance/kubectl k8s.io/kubernetes/cmd/kubectl

.PHONY: bin/conformance/run
bin/conformance/run:
	@cd test/parity && CGO_ENABLED=0 $(GO) build -o ../../$@ ./conformance

# N is how many histories and generated inputs are played, and SEED the first seed.
.PHONY: parity
parity: ## run random histories through Kubernetes' own code and ours, in virtual time, and explain every difference (N=100000 SEED=1)
	@case '$(N)$(SEED)' in *[!0-9]*) echo "make parity: N and SEED are whole numbers, for example N=100000 SEED=1"; exit 1;; esac
	@cd test/parity && $(GO) test -count=1 -timeout 0 -v ./evictions ./health ./matching ./scheduling ./kubectltaint -args $(if $(N),-n=$(N)) $(if $(SEED),-seed=$(SEED))

# MACHINE describes the machine. ONLY=6,15 plays only those rows and writes nothing. An older Kubernetes (KUBE=1.35)
# writes nothing either.
SETTABLE := bin/settable-kube-controller-manager$(PLANE:controlplane%=%)
.PHONY: defects
defects: build controlplane bin/defects bin/chaos-taintkeeper $(SETTABLE) ## run the scenario of every known defect, and of everything that must not break, with the built-in controller and with ours, and write docs/defects.md (4 minutes)
	@bin/defects -settable-kube-controller-manager=$(SETTABLE) $(if $(COEXIST),-coexist,$(if $(ONLY),-only=$(ONLY),$(if $(filter $(KUBE),$(KUBE_DEFAULT)),-write=docs/defects.md))) $(if $(MACHINE),-machine='$(MACHINE)')

.PHONY: bin/defects
bin/defects:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/defects

# The control plane's, with a wall clock that can be set.
$(SETTABLE): tools/$(PLANE)/go.mod tools/$(PLANE)/go.sum
	@echo "building kube-controller-manager $(PLANE_VERSION) from source, with a wall clock that can be set (the first build takes 5 minutes on two cores)"
	@$(GO) build -o bin/wallclock-build ./test/wallclock/build
	@cd tools/$(PLANE) && ../../bin/wallclock-build ../../$@ k8s.io/kubernetes/cmd/kube-controller-manager -ldflags '$(call kube_ldflags,$(PLANE_VERSION))'

# SUITES=integration,nodehealth runs only those.
.PHONY: compatibility
compatibility: build controlplane bin/promtool bin/helm bin/helm3 bin/compatibility ## run the tests that need a control plane on another Kubernetes (KUBE=1.35), and record the result in docs/compatibility.md
	@bin/compatibility -write=docs/compatibility.md $(if $(SUITES),-suites=$(SUITES))

.PHONY: bin/compatibility
bin/compatibility:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/compatibility

# PODS=500 makes that many pods due at once, and ONLY=etcd plays only the scenes with that in their names.
# TAINTKEEPER=path tests another program. The default is one whose wall clock can be set.
.PHONY: stops
stops: controlplane bin/chaos-taintkeeper $(SETTABLE) ## stop Taintkeeper in every way in the middle of a storm, and count the pods that kube-controller-manager deletes by mistake (75 minutes; PODS=160 ONLY=etcd)
	@$(GO) test ./test/stops -run TestStops -count=1 -v -timeout 0 -args -all $(if $(PODS),-pods=$(PODS)) $(if $(ONLY),-only='$(ONLY)') \
		-taintkeeper=$(abspath $(or $(TAINTKEEPER),bin/chaos-taintkeeper)) -settable-kube-controller-manager=$(abspath $(SETTABLE))

.PHONY: chaos
chaos: controlplane bin/chaos bin/chaos-taintkeeper ## break everything around two replicas and account for every eviction (DURATION=3m SEED=... COEXIST=1)
	@bin/chaos $(if $(COEXIST),-coexist) $(if $(DURATION),-duration=$(DURATION)) $(if $(SEED),-seed=$(SEED))

.PHONY: bin/chaos
bin/chaos:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/chaos

# Taintkeeper, with a wall clock that can be set. The first build compiles nearly everything once more.
.PHONY: bin/chaos-taintkeeper
bin/chaos-taintkeeper:
	@$(GO) run ./test/wallclock/build $@ ./cmd/taintkeeper

# BENCH holds flags, for example: make bench BENCH='-only storm -rounds 5'. With -only, the Go benchmarks do not run.
.PHONY: bench
bench: build controlplane bin/bench ## measure storms, slow admissions, lateness, heartbeats, admission policies, changes, 150,000 pods next to the built-in controllers, plans, and simulations (an hour and a half; docs/measurements.md)
ifeq ($(findstring -only,$(BENCH)),)
	@$(GO) test -run '^$$' -bench '^Benchmark(Record15k|Record150k|Million)$$' -benchtime 1x ./internal/cluster/nodecache ./internal/cluster/podcache
	@$(GO) test -run '^$$' -bench '^Benchmark(Zone|OneNode)$$' -benchtime 1x -count 3 ./internal/controller/backlog
	@$(GO) test -run '^$$' -bench '^Benchmark(PlanOf150k|Place|Zone)$$' -benchtime 1x ./internal/plugin/cli ./internal/plugin/placement ./internal/plugin/simulate
endif
	@bin/bench $(BENCH)

.PHONY: bin/bench
bin/bench:
	@CGO_ENABLED=0 $(GO) build -o $@ ./test/bench

.PHONY: controlplane
controlplane: $(COMPONENTS:%=bin/$(PLANE)/%) ## build etcd, the Kubernetes control plane and kwok from source into bin/controlplane (KUBE=1.35 into bin/controlplane-1.35)

# One line of progress per binary. A binary is current if it is newer than the pins.
bin/controlplane/%: tools/controlplane/go.mod tools/controlplane/go.sum
	@echo "building $* from source (the first build of all five takes 5 to 10 minutes on two cores)"
	@cd tools/controlplane && CGO_ENABLED=0 $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o ../../$@ $$($(GO) list tool | grep -E '/($*|$*/server/v3)$$')

# The control plane of another version, with the same etcd and kwok.
bin/controlplane-$(KUBE)/kube-%: tools/controlplane-$(KUBE)/go.mod tools/controlplane-$(KUBE)/go.sum
	@echo "building kube-$* $(PLANE_VERSION) from source (the first build of all three takes 5 to 10 minutes on two cores)"
	@cd tools/$(PLANE) && CGO_ENABLED=0 $(GO) build -ldflags '$(call kube_ldflags,$(PLANE_VERSION))' -o ../../$@ k8s.io/kubernetes/cmd/kube-$*
bin/controlplane-$(KUBE)/%: bin/controlplane/%
	@mkdir -p $(@D) && ln -f $< $@

# Like the control plane, the linter is current if it is newer than its pins.
bin/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	@echo "building golangci-lint from source (the first build takes 3 to 5 minutes on two cores)"
	@cd tools/lint && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: words bin/golangci-lint ## check the English (make words) and the code with golangci-lint (.golangci.yml)
	@for module in . $(PROOFS) tools/promtool tools/release; do (cd $$module && CGO_ENABLED=0 $(CURDIR)/bin/golangci-lint run --concurrency 2 --timeout 30m -c $(CURDIR)/.golangci.yml ./...) || exit 1; done

# Vale parses Go with a C library.
bin/vale: tools/prose/go.mod tools/prose/go.sum
	@tools/needs.sh cc
	@echo "building vale from source (the first build takes 2 minutes on two cores)"
	@cd tools/prose && CGO_ENABLED=1 CGO_CFLAGS=-w $(GO) build -ldflags '-s -w' -o ../../$@ github.com/vale-cli/vale/v3/cmd/vale

# FILES="README.md docs/security.md" checks only those.
.PHONY: words
words: needs-go bin/vale ## check the English of docs, comments, messages and manifests (.vale.ini; FILES=README.md)
	@git ls-files --cached --others --exclude-standard $(or $(FILES),'*.md' '*.go' '*.yaml' '*.tpl' '*.html' '*.js' '*.sh') | xargs bin/vale --output=line

bin/gremlins: tools/mutation/go.mod tools/mutation/go.sum
	@cd tools/mutation && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/go-gremlins/gremlins/cmd/gremlins

# PACKAGES="taints verdict" plays only those. gremlins copies the whole folder in which it runs, so it runs in a copy
# without binaries. Vet is off, because what vet finds was not found by a test.
.PHONY: mutation
mutation: bin/gremlins ## change the packages that only decide, one place at a time, and list the changes that no test notices (half an hour; PACKAGES=verdict)
	@for package in $(PACKAGES); do [ -d "$$package" ] || { echo "make mutation: there is no folder $$package: PACKAGES=\"taints verdict\" names packages from here"; exit 1; }; done
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && tar -c --exclude=./.git --exclude=./bin --exclude=./dist . | tar -x -C "$$dir" && cd "$$dir" && \
	for package in $(or $(PACKAGES),$(shell sed -n 's/^  - //p' tools/mutation/gremlins.yaml)); do \
		echo "== $$package"; \
		GOFLAGS="$$GOFLAGS -vet=off -ldflags=-w" nice -n 19 $(CURDIR)/bin/gremlins unleash --config tools/mutation/gremlins.yaml "./$$package" || exit 1; \
	done

bin/controller-gen: tools/generate/go.mod tools/generate/go.sum
	@cd tools/generate && CGO_ENABLED=0 $(GO) build -o ../../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

# The deep copies and the CRD come from the types in api/. The other manifests in config/, the golden files, and the
# table of values in the chart's README come from the chart.
.PHONY: generate
generate: bin/controller-gen bin/helm build ## generate the deep copies, the CRD, config/, what the chart renders, the tables of values and of metrics, docs/commands.md and docs/output.md
	@tools/generate/api.sh -w
	@$(GO) run ./test/chart/generate
	@test/chart/replay.sh -w
	@$(GO) run ./internal/plugin/cli/reference/generate
	@$(GO) test ./cmd/taintkeeper -run '^TestThePageOfMetricsIsCurrent$$' -count=1 -args -write

bin/govulncheck: tools/vulnerabilities/go.mod tools/vulnerabilities/go.sum
	@cd tools/vulnerabilities && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o ../../$@ golang.org/x/vuln/cmd/govulncheck

.PHONY: vulnerabilities
vulnerabilities: needs-go bin/govulncheck ## look for known vulnerabilities in the code that the programs call (uses vuln.go.dev)
	@bin/govulncheck ./...

.PHONY: fmt
fmt: bin/golangci-lint ## format the code as make lint expects
	@bin/golangci-lint fmt

# goreleaser is big, so no other target needs it.
bin/goreleaser bin/ko: tools/release/go.mod tools/release/go.sum
	@echo "building $(@F) from source (goreleaser's first build takes 5 to 10 minutes on two cores)"
	@cd tools/release && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o ../../$@ $$($(GO) list tool | grep -E '/$(@F)(/v[0-9]+)?$$')

bin/actionlint: tools/workflows/go.mod tools/workflows/go.sum
	@cd tools/workflows && CGO_ENABLED=0 $(GO) build -o ../../$@ github.com/rhysd/actionlint/cmd/actionlint

bin/helm bin/helm3: tools/helm/go.mod tools/helm/go.sum
	@echo "building $(@F) from source"
	@cd tools/helm && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o ../../$@ helm.sh/helm/v$(if $(findstring 3,$(@F)),3,4)/cmd/helm

bin/validate-krew-manifest: tools/krew/go.mod tools/krew/go.sum
	@cd tools/krew && CGO_ENABLED=0 $(GO) build -o ../../$@ sigs.k8s.io/krew/cmd/validate-krew-manifest

# Most of promtool discovers targets in clouds, which tests of rules do not need.
bin/promtool: tools/promtool/go.mod tools/promtool/go.sum
	@echo "building promtool from source"
	@cd tools/promtool && CGO_ENABLED=0 $(GO) build -tags remove_all_sd -ldflags '-s -w' -o ../../$@ github.com/prometheus/prometheus/cmd/promtool

bin/etcdutl: tools/etcdutl/go.mod tools/etcdutl/go.sum
	@echo "building etcdutl from source"
	@cd tools/etcdutl && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o ../../$@ go.etcd.io/etcd/etcdutl/v3

bin/d2: tools/diagram/go.mod tools/diagram/go.sum
	@echo "building d2 from source (the first build takes a minute on two cores)"
	@cd tools/diagram && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o ../../$@ oss.terrastruct.com/d2

.PHONY: release-check
release-check: bin/goreleaser bin/ko bin/actionlint ## check the parts of a release: the configuration, the workflows, the image for two architectures
	@bin/goreleaser check
	@bin/actionlint
	@cd tools/release && $(GO) test -count=1 -timeout 30m ./...

.PHONY: release-snapshot
release-snapshot: bin/goreleaser bin/validate-krew-manifest ## build the archives of a release into dist/, check the manifest for krew, and publish nothing
	@bin/goreleaser release --snapshot --clean --skip=ko,sign,sbom
	@bin/validate-krew-manifest -skip-install -manifest dist/krew/taintkeeper.yaml

.PHONY: screenshots
screenshots: ## take the pictures of a plan, a simulation and the board in docs/, light and dark (needs Chromium)
	@$(GO) run ./test/page/screenshot
	@$(GO) run ./test/board/screenshot

.PHONY: diagram
diagram: bin/d2 ## draw docs/cluster.svg from docs/cluster.d2
	@bin/d2 --elk-nodeNodeBetweenLayers=30 --elk-edgeNodeBetweenLayers=20 \
		--elk-padding='[top=45,left=25,bottom=45,right=25]' docs/cluster.d2 docs/cluster.svg
	@chmod 644 docs/cluster.svg
