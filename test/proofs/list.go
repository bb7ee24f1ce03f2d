// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/rig/kubelets"
)

// proof is something that takes too long, or needs too much, for make test.
type proof struct {
	name string
	// says is what it proves, in a few words.
	says string
	// minutes is about how long it takes on two cores once everything is built.
	minutes int
	// seed is its default seed, if it makes random choices. It takes the place of {SEED}.
	seed string
	// needs are targets of make.
	needs []string
	// packages are tests of the root module, which make test leaves out. They run first, with the race detector and with
	// these flags of their own.
	packages, flags []string
	// commands run after them.
	commands []command
	// withArgs runs instead of all that if there are ARGS, which it gets. By default it is the tests of the packages.
	withArgs command
	// missing says why it cannot run on this machine, within a second. Then it is skipped, and the table says so.
	missing func(context.Context) string
	// onDemand keeps it out of a run of all proofs.
	onDemand bool
	// pace says what may run alongside it in a run of several proofs.
	pace pace
}

// pace says what a proof asks of the machine. Most measure when pods leave, so they have the machine to themselves but
// for those that compute.
type pace string

const (
	// waits is for a long proof that usually waits for time to pass, and judges no moment closely. Those run side by side.
	waits pace = "waits"
	// computes is for a proof without a control plane. Those run one after the other, at the lowest priority, next to
	// all others.
	computes pace = "computes"
)

// command is a program with arguments, and the folder in which it runs. {SETTABLE} stands for a kube-controller-manager
// of the chosen version of Kubernetes whose clock can be set, and {ROOT} for the folder of the root module.
type command struct {
	dir  string
	args []string
}

// in is a command in a folder.
func in(dir, line string) command { return command{dir, strings.Fields(line)} }

// test is a proof that consists of one package of test/.
func test(name, says string, minutes int, needs ...string) proof {
	return proof{name: name, says: says, minutes: minutes, needs: needs, packages: []string{"./test/" + name}}
}

const (
	plane    = "controlplane"
	settable = "{SETTABLE}"
)

// Commands that also take arguments.
var (
	histories   = in("", "go test -race -count=1 -timeout=3h ./taints ./verdict ./internal/... ./test/scenarios ./test/explore/...")
	parity      = in("test/parity", "go test -count=1 -timeout=0 -v ./histories ./matching ./kubectltaint -args")
	defects     = in("", "bin/defects -settable-kube-controller-manager="+settable)
	conformance = in("", "bin/conformance/run")
	mutation    = in("", "tools/mutation/run.sh")
)

// proofs are all proofs, in the order in which they run: first those that are most likely to fail, and fastest.
var proofs = []proof{
	{
		name: "rig", says: "the parts that other proofs are made of", minutes: 3, needs: []string{plane, "build"},
		packages: []string{"./test/rig/localcluster", "./test/wallclock"},
	},
	{
		name: "histories", says: "every random history and every sweep, in virtual time", minutes: 14,
		seed: "fixed", commands: []command{histories}, withArgs: histories, pace: computes,
	},
	test("e2e", "a story for each promise, also the long ones: outages, other leaders, what the built-in does, users", 30, plane, "bin/etcdutl", "bin/promtool"),
	{
		name: "kubelets", says: "real nodes: what containers see of taints, of failures of their nodes, and of holds", minutes: 3,
		needs: []string{plane, "machines"}, missing: kubelets.Missing,
		packages: []string{"./test/rig/kubelets", "./test/kubelets"},
	},
	test("chart", "the chart: install, upgrade, uninstall, policies", 4, plane, "bin/helm", "bin/helm3"),
	test("web", "the pages of plans and simulations, and the board, in a browser", 3, plane, "needs"),
	{
		name: "demo", says: "the acts of make demo, which both play, and the board of the playground", minutes: 4,
		needs: []string{plane, "build", "bin/demo", "needs"}, packages: []string{"./test/demo"},
		commands: []command{in("", "bin/demo")},
	},
	{
		name: "try", says: "the chart alongside the built-in: shadow mode, enforce mode and back", minutes: 2,
		needs: []string{plane, "build", "bin/helm", "bin/try"}, commands: []command{in("", "bin/try")},
	},
	{
		name: "docs", says: "the kubectl and helm commands in README and docs run as printed", minutes: 6,
		needs:    []string{plane, "build", "bin/helm", "bin/conformance/kubectl", "bin/docs"},
		commands: []command{in("", "bin/docs")}, withArgs: in("", "bin/docs"),
	},
	{
		name: "plans", says: "random plans come true", minutes: 2, seed: "1294", needs: []string{plane},
		packages: []string{"./test/plan"}, flags: []string{"-seed={SEED}"},
	},
	{
		name: "simulations", says: "random simulations come true", minutes: 4, seed: "11", needs: []string{plane},
		packages: []string{"./test/simulation"}, flags: []string{"-seed={SEED}"},
	},
	{
		name: "parity", says: "random histories through Kubernetes' own code and ours", minutes: 6, seed: "1",
		commands: []command{
			in("test/parity", "go test -count=1 ./conformance ./seed"), parity.with("-seed={SEED}"),
		},
		withArgs: parity.with("-seed={SEED}"), pace: computes,
	},
	{
		name: "defects", says: "every known defect: the built-in has it, Taintkeeper does not", minutes: 6,
		needs:    []string{plane, "build", "bin/defects", "bin/chaos-taintkeeper", settable},
		packages: []string{"./test/defects"}, withArgs: defects,
	},
	{
		name: "chaos", says: "faults, restarts and kills, alone and alongside the built-in", minutes: 10, seed: "1",
		needs: []string{plane, "bin/chaos", "bin/chaos-taintkeeper"}, packages: []string{"./test/chaos"},
		commands: []command{in("", "bin/chaos -seed={SEED}"), in("", "bin/chaos -seed={SEED} -coexist")},
		withArgs: in("", "bin/chaos -seed={SEED}"),
	},
	{
		name: "stops", says: "a stop in a storm, in every way, deletes no pod that should stay", minutes: 70,
		needs: []string{plane, "bin/chaos-taintkeeper", settable}, packages: []string{"./test/stops"},
		flags: []string{"-taintkeeper={ROOT}/bin/chaos-taintkeeper", "-settable-kube-controller-manager={ROOT}/" + settable},
		pace:  waits,
	},
	{
		name: "conformance", says: "Kubernetes' own end-to-end tests of taints", minutes: 40,
		needs:    []string{plane, "build", "bin/conformance/e2e.test", "bin/conformance/kubectl", "bin/conformance/run"},
		commands: []command{conformance}, withArgs: conformance, pace: waits,
	},
	{
		name: "mutation", says: "the tests of the packages that decide notice changes to the code", minutes: 90,
		needs: []string{"bin/gremlins"}, commands: []command{mutation}, withArgs: mutation, pace: computes,
	},
	{
		name: "compatibility", says: "the suites on another version of Kubernetes (KUBE=1.35)", minutes: 40, onDemand: true,
		needs:    []string{plane, "build", "bin/promtool", "bin/etcdutl", "bin/helm", "bin/helm3", "bin/compatibility"},
		commands: []command{in("", "bin/compatibility")}, withArgs: in("", "bin/compatibility"),
	},
}

// change says which proofs a change of some folders must run before it lands.
type change struct{ folders, proofs []string }

// changes is the table of CONTRIBUTING.md. A folder of test/ also needs the proof of its name.
var changes = []change{
	needs("internal/controller/eviction internal/controller/backlog", "histories e2e parity defects chaos kubelets"),
	needs("taints verdict", "histories parity defects plans mutation"),
	needs("internal/controller/policies internal/policy", "histories e2e plans simulations kubelets"),
	needs("internal/controller/coexist internal/controller/shadow", "histories e2e stops try kubelets"),
	needs("internal/controller/nodehealth internal/readiness", "histories e2e parity simulations kubelets"),
	needs("internal/controller/rules", "histories e2e"),
	needs("internal/cluster cmd/taintkeeper", "histories e2e chaos"),
	needs("internal/plugin api/cli cmd/kubectl-taintkeeper", "e2e plans simulations web docs"),
	needs("charts config api/v1alpha1", "e2e chart try docs"),
	needs("README.md docs", "docs"),
	needs("test/rig", "rig e2e defects chaos kubelets"),
}

func needs(folders, proofs string) change {
	return change{strings.Fields(folders), strings.Fields(proofs)}
}

// forFolder returns the names of the proofs for a change in a folder or a file. A folder needs what the folders in it
// need, or else what the nearest folder that it is in needs.
func forFolder(folder string) (found []string) {
	folder = path.Clean(strings.TrimPrefix(folder, "./"))
	nearest := change{}
	for _, c := range changes {
		for _, known := range c.folders {
			if within(known, folder) {
				found = append(found, c.proofs...)
			}
			if within(folder, known) && (nearest.folders == nil || len(known) > len(nearest.folders[0])) {
				nearest = change{[]string{known}, c.proofs}
			}
		}
	}
	if len(found) == 0 {
		found = nearest.proofs
	}
	return slices.DeleteFunc(names(), func(name string) bool {
		p, _ := find(name)
		isItsOwn := slices.ContainsFunc(p.folders(), func(its string) bool { return within(folder, its) })
		return !isItsOwn && !slices.Contains(found, name)
	})
}

// folders are where the tests of the proof are.
func (p proof) folders() (all []string) {
	for _, pkg := range p.packages {
		all = append(all, strings.TrimPrefix(pkg, "./"))
	}
	for _, c := range p.commands {
		if c.dir != "" {
			all = append(all, c.dir)
		}
	}
	return all
}

// within reports whether a folder or a file is in a folder, or is that folder.
func within(file, folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") }

// find returns the proof with a name.
func find(name string) (proof, bool) {
	i := slices.IndexFunc(proofs, func(p proof) bool { return p.name == name })
	if i < 0 {
		return proof{}, false
	}
	return proofs[i], true
}

// names returns the name of every proof.
func names() (all []string) {
	for _, p := range proofs {
		all = append(all, p.name)
	}
	return all
}

// describeSeed returns the seed for a table.
func (p proof) describeSeed() string { return cmp.Or(p.seed, "-") }
