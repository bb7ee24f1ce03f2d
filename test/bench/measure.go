// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// The parts.
const (
	partStorm      = "storm"
	partSlow       = "slow"
	partLateness   = "lateness"
	partHeartbeats = "heartbeats"
	partPolicies   = "policies"
	partChanges    = "changes"
	partRest       = "rest"
	partScale      = "scale"
	partMillion    = "million"
	partKubelets   = "kubelets"
)

// allParts are in the order in which they run. Those with many pods come last, so that they do not affect the others.
var allParts = []string{
	partStorm, partSlow, partLateness, partHeartbeats, partPolicies, partChanges, partRest, partScale, partMillion,
	partKubelets,
}

// onRequest are the parts that many machines cannot run: one takes much memory, and the other needs root.
var onRequest = []string{partMillion, partKubelets}

// runs reports whether a part runs.
func (o *options) runs(part string) bool {
	return slices.Contains(o.only, part) || len(o.only) == 0 && !slices.Contains(onRequest, part)
}

// apiServerArgs let kubelets do their work if there are any.
func (o *options) apiServerArgs() []string {
	if o.runs(partKubelets) {
		return rig.APIServerArgs
	}
	return nil
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

// measure runs the chosen parts on one cluster, and reports.
func measure(ctx context.Context, o options) (err error) {
	fmt.Println("starting etcd and kube-apiserver")
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		// Nothing else may evict, remove pods or take CPU time: see docs/measurements.md.
		Without:  []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		Audit:    auditlog.Calls,
		Binaries: o.plane, APIServerArgs: o.apiServerArgs(),
	})
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
	return errors.Join(b.runParts(ctx), b.conclude())
}

func (b *bench) runParts(ctx context.Context) error {
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{partStorm, b.storm},
		{partSlow, b.slow},
		{partLateness, b.lateness},
		{partHeartbeats, b.heartbeats},
		{partPolicies, b.policies},
		{partChanges, b.changes},
		{partRest, b.rest},
		{partScale, b.scale},
		{partMillion, b.million},
		{partKubelets, b.kubelets},
	} {
		if !b.runs(part.name) {
			continue
		}
		b.report.Load[part.name] = loadAverage()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// conclude prints the targets and writes the file, even if an error has cut the run short.
func (b *bench) conclude() error {
	b.report.setGoals()
	b.report.printGoals(b.out)
	if err := os.MkdirAll(filepath.Dir(b.file), 0o755); err != nil {
		return fmt.Errorf("make the folder for the figures: %w", err)
	}
	if err := b.report.write(b.file); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
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
