// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/explore"
)

// The kinds of disturbances.
const (
	Taint        = "taint"
	Untaint      = "untaint"
	Tolerate     = "tolerate"
	DeletePod    = "delete a pod"
	Crash        = "crash"
	Stop         = "stop"
	RestartKCM   = "restart kube-controller-manager"
	Pause        = "pause"
	Refuse       = "refuse"
	Lose         = "lose an answer"
	RemovePolicy = "remove the admission policy"
)

// disturb adds a disturbance of a kind.
type disturb func(kind string, do explore.Step)

// disturbances adds what users and failures do.
func (w *World) disturbances(add disturb) {
	for _, name := range nodeNames {
		for _, key := range []string{"out", "slow"} {
			if len(w.size.Taints) == 0 || slices.Contains(w.size.Taints, key) {
				w.ofTaint(name, key, add)
			}
		}
	}
	for _, p := range w.pods {
		if p != nil && !p.terminating {
			w.ofPod(p, add)
		}
	}
	for _, r := range w.replicas {
		w.ofProcess(r, add)
	}
	add(RestartKCM, does(w.builtIn.restart, "kube-controller-manager restarts"))
	add(Pause, does(func() {
		w.paused, w.unpaused = !w.paused, w.now
	}, "somebody pauses the EvictionPolicy: %t", !w.paused))
	if w.inForce {
		add(RemovePolicy, does(func() { w.inForce = false }, "somebody removes the admission policy"))
	}
}

// ofTaint adds that somebody sets or removes a taint of a node.
func (w *World) ofTaint(name, key string, add disturb) {
	taints := slices.Clone(w.nodes[name].taints)
	at := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.Key == key })
	if at >= 0 {
		add(Untaint, does(func() {
			w.changed = true
			w.taint(name, slices.Delete(taints, at, at+1))
		}, "somebody removes the taint %s from node %s", key, name))
		return
	}
	add(Taint, does(func() {
		w.changed = true
		w.taint(name, append(taints, w.noExecute(key)))
	}, "somebody taints node %s with %s:NoExecute", name, key))
}

// ofPod adds what somebody does to a pod.
func (w *World) ofPod(p *pod, add disturb) {
	if len(p.tolerations) == len(p.workload.tolerations) && p.workload.name != "db" {
		add(Tolerate, does(func() {
			w.changed = true
			w.outOfStep()
			w.edit(p, func(p *pod) { p.tolerations = append(slices.Clone(p.tolerations), tolerates("", indefinitely)) })
		}, "somebody lets pod %s tolerate every taint", p.name))
	}
	add(DeletePod, does(func() { w.delete(p) }, "somebody deletes pod %s", p.name))
}

// ofProcess adds what happens to a replica and to its calls.
func (w *World) ofProcess(r *replica, add disturb) {
	if !r.up {
		add(Crash, does(r.start, "%s starts", r.name))
		return
	}
	add(Crash, does(func() { w.noLead(r); r.end() }, "%s is killed", r.name))
	if !r.leads {
		return
	}
	add(Stop, does(func() {
		w.noLead(r)
		r.stopping, r.leads, r.try = true, false, nil
	}, "%s begins to stop", r.name))
	if r.try != nil && (r.try.marked || r.try.asks) {
		for with, kind := range []string{refused: Refuse, lost: Lose, hangs: Lose} {
			if kind != "" {
				add(kind, w.calls(func() (string, string) { w.hindered = w.now; return r.call(answer(with)) }))
			}
		}
	}
}

// noLead notes that a replica no longer leads.
func (w *World) noLead(r *replica) {
	if r.leads {
		w.idle = w.now
	}
}
