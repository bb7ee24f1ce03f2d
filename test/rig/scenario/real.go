// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// Real is a [Stage] on a real control plane. Who starts the contestant may say how it is restarted or held up.
type Real struct {
	User    string // the contestant, in the audit log
	Version string // of Kubernetes

	cluster *localcluster.Cluster
	client  kubernetes.Interface
	seen    *observer.Pods
	audit   *auditlog.Log
}

// NewReal makes a stage of a cluster that has an audit log. It watches pods until the context ends.
func NewReal(ctx context.Context, cluster *localcluster.Cluster, user string) (*Real, error) {
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	seen, err := observer.WatchPods(ctx, client, metav1.NamespaceAll)
	cluster.Stalls() // from now on
	return &Real{user, version.GitVersion, cluster, client, seen, auditlog.New(cluster.AuditLog())}, err
}

// Simulated makes nodes whose kubelets the cluster simulates: they say that they are alive, and pods that are deleted
// are gone at once. The zone of a node is what its name in the cluster says before the last dash.
func Simulated(names ...string) Step {
	return func(ctx context.Context, p *Play) error {
		var specs []localcluster.NodeSpec
		for _, name := range names {
			name = p.NodeName(name)
			zone := name[:strings.LastIndex(name, "-")]
			specs = append(specs, localcluster.NodeSpec{Name: name, Zone: zone, Labels: p.Labels()})
		}
		return p.Stage.(interface{ Cluster() *localcluster.Cluster }).Cluster().AddNodes(ctx, specs...)
	}
}

// Cluster is where the stage is.
func (r *Real) Cluster() *localcluster.Cluster { return r.cluster }

// Client implements [Stage].
func (r *Real) Client() kubernetes.Interface { return r.client }

// Seen implements [Stage].
func (r *Real) Seen() *observer.Pods { return r.seen }

// Calls implements [Stage].
func (r *Real) Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return r.CallsBy(r.User, wanted...)
}

// CallsBy returns what somebody has called so far.
func (r *Real) CallsBy(user string, wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return r.audit.Events(append(wanted, auditlog.By(user))...)
}

// CallsByAll returns what all clients have called so far.
func (r *Real) CallsByAll(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return r.audit.Events(wanted...)
}

// Restart implements [Stage].
func (r *Real) Restart(context.Context) error {
	return errors.New("the contestant cannot be restarted on this stage")
}

// Lag implements [Stage].
func (r *Real) Lag() (release func()) { panic("watches cannot be held up on this stage") }

// Refuse implements [Stage].
func (r *Real) Refuse(ctx context.Context, of scene.Scene, probe *corev1.Pod) (allow func() error, err error) {
	return of.RefuseDeletes(ctx, probe)
}

// Patience implements [Stage].
func (r *Real) Patience() time.Duration { return stall.Bound }

// Stalled implements [Stage].
func (r *Real) Stalled(from, to time.Time) time.Duration { return r.cluster.Stalls().In(from, to) }
