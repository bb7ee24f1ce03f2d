// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/localcluster"
)

// auditPolicy makes the API server note all changes of pods and nodes.
//
//go:embed audit-policy.yaml
var auditPolicy []byte

// keeperUser is who the replicas are for the API server.
const keeperUser = localcluster.TaintkeeperUser

// entry is a finished change of a pod or a node, by the audit log. What is under way when the API server is killed has none.
type entry struct {
	Verb     string
	User     struct{ Username string }
	Received time.Time `json:"requestReceivedTimestamp"`
	Finished time.Time `json:"stageTimestamp"`
	Ref      struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	Status  struct{ Code int } `json:"responseStatus"`
	Request struct {
		Metadata struct{ UID types.UID }
	} `json:"requestObject"`
	Response json.RawMessage `json:"responseObject"`
}

func (e entry) succeeded() bool { return e.Status.Code >= 200 && e.Status.Code < 300 }

// deletion is a DELETE of a pod that the API server accepted.
type deletion struct {
	span // from its receipt to its answer

	user string
}

// parseAudit reads the lines of an audit log; the last may be half written.
func parseAudit(content []byte) ([]entry, error) {
	var entries []entry
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("understand a line of the audit log: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// readAudit adds to the chronicles what the audit log has: who wrote which version and when, and versions that the watch
// missed. It returns the deletions of each pod.
func (o *observer) readAudit(path string) (map[types.UID][]deletion, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	entries, err := parseAudit(content)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	deletions := map[types.UID][]deletion{}
	bindings := map[types.UID]entry{}
	for _, e := range entries {
		if !e.succeeded() {
			continue
		}
		if e.Ref.Resource == "nodes" {
			err = o.auditNode(e)
		} else {
			err = o.auditPod(e, deletions, bindings)
		}
		if err != nil {
			return nil, fmt.Errorf("understand what became of %s in the audit log: %w", e.Ref.Name, err)
		}
	}
	for uid, e := range bindings {
		o.auditBinding(uid, e)
	}
	return deletions, nil
}

func (o *observer) auditNode(e entry) error {
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

func (o *observer) auditPod(e entry, deletions map[types.UID][]deletion, bindings map[types.UID]entry) error {
	if e.Ref.Subresource == "binding" {
		bindings[e.Request.Metadata.UID] = e
		return nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(e.Response, &pod); err != nil {
		return err
	}
	if e.Verb == "delete" {
		deletions[pod.UID] = append(deletions[pod.UID], deletion{span: span{e.Received, e.Finished}, user: e.User.Username})
		if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
			return nil // it was gone at once; what is answered is its last version
		}
	}
	v := o.pod(pod.UID, pod.Namespace+"/"+pod.Name).at(number(pod.ResourceVersion))
	v.facts = factsOfPod(&pod)
	attest(v, e)
	return nil
}

// attest notes when a version was written. A change that changed nothing has the version that was there before.
func attest[F any](v *version[F], e entry) {
	if v.writer == "" {
		v.written, v.writer = span{e.Received, e.Finished}, e.User.Username
	}
}

// auditBinding notes when the version was written that has a node first. A binding is not answered with the pod.
func (o *observer) auditBinding(uid types.UID, e entry) {
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
