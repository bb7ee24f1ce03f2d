// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// keeperUser is the user of the replicas.
const keeperUser = localcluster.TaintkeeperUser

// deletion is a DELETE of a pod that the API server accepted.
type deletion struct {
	span // from its receipt to its answer

	user string
}

// audited is what only the audit log knows.
type audited struct {
	deletions map[types.UID][]deletion
	foreign   []foreignCall
	clock     auditlog.EvictionClock
	marked    map[types.UID]bool // the pods that have a mark of the built-in now
}

// readAudit adds to the chronicles what the audit log has: who wrote which version and when, and versions that the
// watch missed. It returns the rest. A change that was under way when the API server was killed is missing.
func (o *observer) readAudit(path string) (audited, error) {
	found := audited{deletions: map[types.UID][]deletion{}, marked: map[types.UID]bool{}}
	changes, err := auditlog.New(path, auditlog.Accepted).Events()
	if err != nil {
		return found, err
	}
	if found.clock, err = auditlog.EvictionClockOf(changes); err != nil {
		return found, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	bindings := map[types.UID]auditlog.Event{}
	for _, e := range changes {
		switch {
		case !writes(e):
		case e.Resource == "nodes":
			err = o.auditNode(e)
		case strings.HasPrefix(e.Resource, "pods"):
			err = o.auditPod(e, &found, bindings)
		}
		if err != nil {
			return found, fmt.Errorf("parse the audit log entry about %s: %w", e.Name, err)
		}
	}
	for uid, e := range bindings {
		o.auditBinding(uid, e)
	}
	return found, nil
}

// writes reports whether the call could change something. For the replicas, the log has reads, too.
func writes(e auditlog.Event) bool {
	return !slices.Contains([]string{"get", "list", "watch"}, e.Verb)
}

func (o *observer) auditNode(e auditlog.Event) error {
	if e.Verb == "delete" {
		return nil
	}
	var node corev1.Node
	if err := json.Unmarshal(e.Response, &node); err != nil {
		return err
	}
	v := o.node(node.Name).at(number(node.ResourceVersion))
	v.facts = node.Spec.Taints
	attest(v, e)
	return nil
}

func (o *observer) auditPod(e auditlog.Event, found *audited, bindings map[types.UID]auditlog.Event) error {
	if e.Resource == "pods/binding" {
		bindings[e.UID] = e
		return nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(e.Response, &pod); err != nil {
		return err
	}
	found.noteForeign(e, &pod)
	if e.Verb == "delete" {
		deleted := deletion{span: oracle.Between(e.Received, e.Answered), user: e.User}
		found.deletions[pod.UID] = append(found.deletions[pod.UID], deleted)
		if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
			return nil // it was gone at once; the answer is its last version
		}
	}
	v := o.pod(pod.UID, pod.Namespace+"/"+pod.Name).at(number(pod.ResourceVersion))
	known := v.writer != "" || !v.seen.IsZero()
	if known && !v.facts.terminating && e.Verb == "delete" {
		// Of two simultaneous DELETEs, the second changes nothing: its answer has the previous version, with a
		// deletionTimestamp.
		return nil
	}
	v.facts = factsOfPod(&pod)
	attest(v, e)
	return nil
}

// attest notes when a version was written. A change that changed nothing has the earlier version.
func attest[F any](v *version[F], e auditlog.Event) {
	if v.writer == "" {
		v.written, v.writer = oracle.Between(e.Received, e.Answered), e.User
	}
}

// auditBinding notes when the first version with a node was written. The answer to a binding does not have the pod.
func (o *observer) auditBinding(uid types.UID, e auditlog.Event) {
	known := o.pods[uid]
	if known == nil {
		return
	}
	for _, v := range known.inOrder() {
		if v.facts.node != "" {
			attest(v, e)
			return
		}
	}
}
