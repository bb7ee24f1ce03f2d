// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Real is a [Stage] on a real control plane. Who starts the contestant may say how it is restarted or held up.
type Real struct {
	User string // the contestant, in the audit log

	client kubernetes.Interface
	seen   *observer.Pods
	audit  *auditlog.Log
}

// NewReal makes a stage of an API server and its audit log. It watches pods until the context ends.
func NewReal(ctx context.Context, access *rest.Config, log, user string) (*Real, error) {
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	seen, err := observer.WatchPods(ctx, client, metav1.NamespaceAll)
	return &Real{User: user, client: client, seen: seen, audit: auditlog.New(log)}, err
}

// Client implements [Stage], as do the others.
func (r *Real) Client() kubernetes.Interface { return r.client }

func (r *Real) Seen() *observer.Pods { return r.seen }

func (r *Real) Calls(wanted ...auditlog.Filter) ([]auditlog.Event, error) {
	return r.audit.Events(append(wanted, auditlog.By(r.User))...)
}

func (r *Real) Restart(context.Context) error {
	return errors.New("the contestant cannot be restarted on this stage")
}

func (r *Real) Lag() (release func()) { panic("watches cannot be held up on this stage") }

func (r *Real) Refuse(ctx context.Context, of scene.Scene, probe *corev1.Pod) (allow func() error, err error) {
	return of.RefuseDeletes(ctx, probe)
}

// Patience is how late an eviction may be on a machine that is busy with other things.
func (r *Real) Patience() time.Duration { return 4 * time.Second }
