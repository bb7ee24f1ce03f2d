# Everything that contributors run. `make help` lists the targets.

GO ?= go
VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),(devel))

# KUBE chooses the version of the control plane: the default in tools/controlplane/go.mod, or an older one in kube-*.mod.
kube_version = $(shell sed -n 's/^\tk8s.io\/kubernetes \(v[^ ]*\).*/\1/p' $(1))
KUBE_DEFAULT := $(subst v,,$(basename $(call kube_version,tools/controlplane/go.mod)))
KUBE_OTHERS := $(sort $(patsubst tools/controlplane/kube-%.mod,%,$(wildcard tools/controlplane/kube-*.mod)))
KUBE ?= $(KUBE_DEFAULT)
ifeq ($(filter $(KUBE),$(KUBE_OTHERS) $(KUBE_DEFAULT)),)
$(error KUBE=$(KUBE) is not among the control planes that can be built here: choose one of $(KUBE_OTHERS) $(KUBE_DEFAULT))
endif
OTHER := $(filter $(KUBE),$(KUBE_OTHERS))
MODFILE := $(if $(OTHER),kube-$(KUBE).mod,go.mod)
# Which binaries test/rig/localcluster starts.
export CONTROLPLANE := bin/controlplane$(if $(OTHER),-$(KUBE))
SETTABLE := bin/settable-kube-controller-manager$(if $(OTHER),-$(KUBE))

# The flags of a program that the Kubernetes in a go.mod is built into.
kube_flags = -ldflags '-s -w \
	-X k8s.io/component-base/version.gitVersion=$(call kube_version,$(1)) \
	-X k8s.io/component-base/version.gitMajor=1 \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(call kube_version,$(1))))'

# The programs that check files.
CHECKERS := bin/controller-gen bin/helm bin/helm3 bin/promtool bin/actionlint
# Tests without a control plane and the race detector: unit tests, and whole controllers in virtual time.
CHECKED = $$($(GO) list ./... | grep -v /test/)

PRODUCT := bin/taintkeeper bin/kubectl-taintkeeper
PROGRAMS := $(addprefix bin/,bench chaos compatibility defects demo docs proofs try)
PROOFS := parity conformance defects chaos stops plans simulations mutation compatibility kubelets

.DEFAULT_GOAL := help
.PHONY: help needs build check lint fmt verify-files generate screenshots test proofs $(PROOFS) bench demo try docs-run playground release \
	controlplane machines $(PRODUCT) $(PROGRAMS) bin/chaos-taintkeeper bin/conformance/run

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

# What is missing on this machine is reported, or installed, before anything is built.
needs:
	@tools/needs.sh go git $(if $(filter test proofs needs,$(MAKECMDGOALS)),cc) $(if $(filter needs,$(MAKECMDGOALS)),chromium) \
		$(if $(filter machines,$(MAKECMDGOALS)),ip runc cni)

build: needs $(PRODUCT) $(if $(ALL),controlplane $(CHECKERS) bin/etcdutl) ## build bin/taintkeeper and bin/kubectl-taintkeeper (ALL=1 also builds what the tests in test/ run)

# The packages that changed since BASE are linted. `make lint` lints all.
check: bin/golangci-lint ## the quick check before a commit: format, lint of changed packages, unit and virtual-time tests (BASE=main)
	@bin/golangci-lint fmt --diff
	@tools/lint/changed.sh $(BASE)
	@$(GO) test -short -timeout 10m $(CHECKED)

lint: bin/golangci-lint bin/vale ## check the English (tools/words.sh) and all code with golangci-lint (.golangci.yml)
	@tools/words.sh
	@for module in . tools test/parity; do \
		(cd $$module && CGO_ENABLED=0 $(CURDIR)/bin/golangci-lint run --concurrency 2 --timeout 30m -c $(CURDIR)/.golangci.yml ./...) || exit 1; \
	done

fmt: bin/golangci-lint ## format the code as make lint expects
	@bin/golangci-lint fmt

# What follows from the types in api/ and from the chart, what the chart renders with Helm 4 and with Helm 3
# (test/chart/golden), the workflows, and the alerts. It is compiled as the product, so that nothing is compiled twice.
verify-files: export CGO_ENABLED := 0
RULES := charts/taintkeeper/files/rules.yaml
verify-files: build $(CHECKERS) ## check the files that the compiler does not check: CRDs, chart, workflows, Prometheus rules
	@tools/generate/api.sh
	@$(GO) test -count=1 ./test/chart/generate
	@test/chart/replay.sh
	@bin/actionlint -shellcheck= -pyflakes=
	@bin/promtool check rules --lint=all --lint-fatal $(RULES) >/dev/null
	@bin/promtool test rules tools/promtool/testdata/rules_test.yaml
	@cd tools && $(GO) test -count=1 ./promtool

# The deep copies and the CRDs come from the types in api/v1alpha1. The other manifests in config/ and the golden files come
# from the chart.
generate: bin/controller-gen bin/helm build ## generate the deep copies, the CRDs, config/, what the chart renders, and the tables and pages that follow from code
	@tools/generate/api.sh -w
	@$(GO) run ./test/chart/generate
	@test/chart/replay.sh -w
	@$(GO) run ./internal/plugin/cmd/reference >docs/commands.md
	@$(GO) test ./cmd/taintkeeper -run '^TestThePageOfMetricsIsCurrent$$' -count=1 -args -write

screenshots: docs/cluster.svg ## draw the pictures of docs/, light and dark (needs Chromium)
	@$(GO) run ./test/web/screenshot

docs/cluster.svg: docs/cluster.d2 bin/d2
	@bin/d2 --elk-nodeNodeBetweenLayers=30 --elk-edgeNodeBetweenLayers=20 --elk-padding='[top=45,left=25,bottom=45,right=25]' $< $@
	@chmod 644 $@

test: needs build controlplane $(CHECKERS) bin/proofs ## play a story for each promise on a real control plane, and run all tests in virtual time and make verify-files (10 minutes)
	@bin/proofs -test

proofs: needs bin/proofs ## run everything else, against a real control plane or Kubernetes' own code (ONLY=chaos,stops or FOR=verdict; ARGS and SEED for one; LIST=1 lists them)
	@bin/proofs $(if $(LIST),-l) $(if $(ONLY),-only='$(ONLY)') $(if $(FOR),-for='$(FOR)') $(if $(SEED),-seed=$(SEED)) -- $(ARGS)

$(PROOFS):
	@$(MAKE) --no-print-directory proofs ONLY=$@

# BENCH holds flags, for example: make bench BENCH='-only storm -rounds 5'. With -only, the Go benchmarks do not run.
bench: build controlplane bin/bench ## measure storms, lateness, heartbeats, policies, 150,000 pods, plans, and simulations (an hour and a half; docs/measurements.md)
ifeq ($(findstring -only,$(BENCH)),)
	@$(GO) test -run '^$$' -bench '^Benchmark(Record15k|Record150k|Million)$$' -benchtime 1x ./internal/cluster/nodecache ./internal/cluster/podcache
	@$(GO) test -run '^$$' -bench '^Benchmark(Zone|OneNode)$$' -benchtime 1x -count 3 ./internal/controller/backlog
	@$(GO) test -run '^$$' -bench '^Benchmark(Of150k|Place|Zone)$$' -benchtime 1x ./internal/plugin/cmd ./internal/plugin/placement ./internal/plugin/course
endif
	@bin/bench $(BENCH)

demo: build controlplane bin/demo ## play five acts to kube-controller-manager alone and to Taintkeeper alongside it, on two control planes on this machine (2 minutes)
	@bin/demo

try: build controlplane bin/helm bin/try ## install the chart alongside the built-in controllers, in shadow mode, in enforce mode and back, on a control plane on this machine (1 minute)
	@bin/try

docs-run: build controlplane bin/helm bin/conformance/kubectl bin/docs ## run the kubectl and helm commands of README and docs as printed, each page on a control plane on this machine (5 minutes; PAGE=docs/plugin.md)
	@bin/docs $(PAGE)

playground: build controlplane bin/demo ## keep a control plane running, with Taintkeeper, workloads and the board, to try things out
	@bin/demo -playground

release: bin/goreleaser $(if $(CHECK),bin/ko bin/actionlint,bin/validate-krew-manifest) ## build the archives of a release into dist/ and publish nothing (CHECK=1 checks its configuration, the workflows and the image instead)
ifdef CHECK
	@bin/goreleaser check
	@bin/actionlint
	@cd tools && $(GO) test -count=1 -timeout 30m ./release
else
	@bin/goreleaser release --snapshot --clean --skip=ko,sign,sbom
	@bin/validate-krew-manifest -skip-install -manifest dist/krew/taintkeeper.yaml
endif

controlplane: $(addprefix $(CONTROLPLANE)/,etcd kube-apiserver kube-controller-manager kube-scheduler kwok) ## build etcd, Kubernetes and kwok from source into bin/controlplane (KUBE=1.35 into bin/controlplane-1.35)

machines: needs $(addprefix $(CONTROLPLANE)/,kubelet containerd containerd-shim-runc-v2 ctr) ## build kubelet and containerd from source, for tests with real nodes, and install what else these need

# Our own programs are built each time, because Go knows best what has changed. They are not run with `go run`, which
# hides the exit status and passes on no SIGTERM.
$(PRODUCT) $(PROGRAMS): bin/%:
	@CGO_ENABLED=0 $(GO) build -ldflags '-X main.version=$(VERSION)' -o $@ ./$(wildcard cmd/$* test/$* test/chart/$*)
bin/conformance/run:
	@cd test/parity && CGO_ENABLED=0 $(GO) build -o ../../$@ ./conformance
# With a wall clock that can be set. The first build compiles nearly everything once more.
bin/chaos-taintkeeper:
	@$(GO) run ./test/wallclock/build $@ ./cmd/taintkeeper

# What others wrote is current if it is newer than its pins, and is built without debug information. tools/go.mod has all
# tools except actionlint.
bin/helm: package := helm.sh/helm/v4/cmd/helm
bin/helm3: package := helm.sh/helm/v3/cmd/helm
# Most of promtool discovers targets in clouds, which tests of rules do not need.
bin/promtool: flags := -tags remove_all_sd
# Vale parses Go with a C library.
bin/vale: cgo := 1
bin/%: tools/go.mod tools/go.sum
	@$(if $(cgo),tools/needs.sh cc)
	@echo "building $* from source (the first build of golangci-lint or goreleaser takes 5 minutes on two cores)"
	@cd tools && CGO_ENABLED=$(or $(cgo),0) CGO_CFLAGS=-w $(GO) build $(flags) -ldflags '-s -w' -o ../$@ \
		$(or $(package),$$($(GO) list tool | grep -E '/$*(/v[0-9]+)?$$'))
bin/actionlint: tools/standalone.txt
	@echo "building $(@F) from source"
	@GOBIN=$(CURDIR)/bin CGO_ENABLED=0 $(GO) install -ldflags '-s -w' $$(grep '/$(@F)@' $<)

define build_plane
	@echo "building $(@F) from source (the first build of a control plane takes 5 to 10 minutes on two cores)"
	@cd tools/controlplane && CGO_ENABLED=0 $(GO) build -modfile=$(1) $(call kube_flags,tools/controlplane/$(1)) -o ../../$@ $(2)
endef
$(CONTROLPLANE)/kube%: tools/controlplane/$(MODFILE) tools/controlplane/$(MODFILE:.mod=.sum)
	$(call build_plane,$(MODFILE),k8s.io/kubernetes/cmd/kube$*)
bin/controlplane/containerd bin/controlplane/containerd-shim-runc-v2 bin/controlplane/ctr: tools/controlplane/containerd.mod tools/controlplane/containerd.sum
	$(call build_plane,containerd.mod,github.com/containerd/containerd/v2/cmd/$(@F))
bin/controlplane/kwok: package := sigs.k8s.io/kwok/cmd/kwok
bin/controlplane/etcd: package := go.etcd.io/etcd/server/v3
bin/etcdutl: package := go.etcd.io/etcd/etcdutl/v3
bin/etcdutl bin/controlplane/etcd bin/controlplane/kwok: tools/controlplane/go.mod tools/controlplane/go.sum
	$(call build_plane,go.mod,$(package))
# Other versions of Kubernetes run with the same etcd and kwok.
bin/controlplane-$(KUBE)/%: bin/controlplane/%
	@mkdir -p $(@D) && ln -f $< $@

$(SETTABLE): tools/controlplane/$(MODFILE) tools/controlplane/$(MODFILE:.mod=.sum)
	@echo "building kube-controller-manager $(KUBE) from source, with a wall clock that can be set (the first build takes 5 minutes on two cores)"
	@$(GO) build -o bin/wallclock-build ./test/wallclock/build
	@cd tools/controlplane && ../../bin/wallclock-build ../../$@ k8s.io/kubernetes/cmd/kube-controller-manager -modfile=$(MODFILE) $(call kube_flags,$<)

bin/conformance/e2e.test: verb := test -c
bin/conformance/e2e.test: package := k8s.io/kubernetes/test/e2e
bin/conformance/kubectl: package := k8s.io/kubernetes/cmd/kubectl
bin/conformance/%: test/parity/go.mod test/parity/go.sum
	@echo "building $* of Kubernetes from source (the first build takes 6 minutes on two cores)"
	@cd test/parity && CGO_ENABLED=0 $(GO) $(or $(verb),build) $(call kube_flags,$<) -o ../../$@ $(package)
