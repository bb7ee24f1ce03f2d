// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// scene is something that contestants do one after the other.
type scene struct {
	name string
	play func(*bench, context.Context) error
	// onRequest marks scenes that many machines cannot play.
	onRequest bool
}

const sceneKubelets = "kubelets"

// scenes returns all of them in their order. Those with many pods come last, so that they do not affect the others.
func scenes() []scene {
	return []scene{
		{name: "storm", play: (*bench).storm},
		{name: "slow", play: (*bench).slow},
		{name: "lateness", play: (*bench).lateness},
		{name: "heartbeats", play: (*bench).heartbeats},
		{name: "policies", play: (*bench).policies},
		{name: "changes", play: (*bench).changes},
		{name: "rest", play: (*bench).rest},
		{name: "scale", play: (*bench).scale},
		{name: "million", play: (*bench).million, onRequest: true},      // takes much memory
		{name: sceneKubelets, play: (*bench).kubelets, onRequest: true}, // needs root
	}
}

func sceneNames() (names []string) {
	for _, s := range scenes() {
		names = append(names, s.name)
	}
	return names
}

func (o *options) plays(s scene) bool {
	return slices.Contains(o.only, s.name) || len(o.only) == 0 && !s.onRequest
}

// adminUser is the user name of this program.
const adminUser = "admin"

// bench is one run.
type bench struct {
	options
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	audit   audit
	etcd    etcd
	out     io.Writer
	report  report
	created int // nodes for storms
	crowd   crowd
	serial  int // makes names of canaries unique
}

// measure plays the chosen scenes on one cluster, and reports, even if an error cuts the run short.
func measure(ctx context.Context, o options) (err error) {
	fmt.Println("starting etcd and kube-apiserver")
	config := localcluster.Config{
		// Nothing else may evict, remove pods or take CPU time: see docs/measurements.md.
		Without:  []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		Audit:    auditlog.Calls,
		Binaries: localcluster.DefaultBinaries(),
	}
	if slices.Contains(o.only, sceneKubelets) {
		config.APIServerArgs = rig.APIServerArgs
	}
	cluster, err := localcluster.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	admin, err := kubernetes.NewForConfig(inProtobuf(cluster.AdminConfig()))
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	b := &bench{
		options: o, cluster: cluster, admin: admin, audit: audit{cluster.AuditLog()}, etcd: etcd{cluster},
		out: os.Stdout, report: newReport(),
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	return errors.Join(b.playAll(ctx), b.report.conclude(b.out))
}

func (b *bench) playAll(ctx context.Context) error {
	for _, s := range scenes() {
		if !b.plays(s) {
			continue
		}
		measured := len(b.report.Tables)
		err := s.play(b, ctx)
		for _, table := range b.report.Tables[measured:] {
			table.print(b.out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// note notes what was measured in a round, with the load of the machine, and shows the first two figures.
func (b *bench) note(table, column string, measured figures) {
	b.report.table(table).add(column, append(measured, figure{"load", loadAverage()}))
	b.say("  %s, %s: %s", column, table, measured[:min(len(measured), 2)])
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, format+"\n", args...) // a failure to show progress is ignored
}

// inProtobuf makes a client that writes and reads pods as controllers do.
func inProtobuf(config *rest.Config) *rest.Config {
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// turns is how contestants are measured one after the other, each in a new process.
type turns struct {
	every []string // contestants that take turns in every round
	once  []string // those that take minutes, in the first round only
	// controllers names those that a contestant runs, if it does not run the ones that evict.
	controllers map[string]string
	before      func(context.Context) error
	// play measures a process that is ready, and cleans up.
	play func(context.Context, *process) error
}

func (b *bench) take(ctx context.Context, t turns) error {
	for round := range b.rounds {
		names := t.every
		if round == 0 {
			names = slices.Concat(t.every, t.once)
		}
		for _, name := range names {
			if slices.Contains(b.without, name) || name == namePrevious && b.previous == "" {
				continue
			}
			if err := b.turn(ctx, t, name); err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, name, err)
			}
		}
	}
	return nil
}

func (b *bench) turn(ctx context.Context, t turns, name string) error {
	c, err := b.contestant(name, t.controllers[name])
	if err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	if t.before != nil {
		if err := t.before(ctx); err != nil {
			return err
		}
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	err = t.play(ctx, p)
	p.stop()
	return errors.Join(err, b.removePodsIn(ctx, canaryNamespace))
}
