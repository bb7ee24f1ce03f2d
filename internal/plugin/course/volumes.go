// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// forcedDetach is how long the attach-detach controller waits for the kubelet of an unhealthy node to unmount a volume
// that no pod of the node needs anymore (ReconcilerMaxWaitForUnmountDuration in pkg/controller/volume/attachdetach).
const forcedDetach = 6 * time.Minute

// attachments are the volumes that only one node at a time can use. They follow the attach-detach controller. A volume
// stays attached to a node as long as a pod of that node needs it, even a pod that is Terminating. After that, the
// kubelet of the node must unmount it. If the kubelet is silent, the volume is detached after [forcedDetach], or
// at once if the node is out of service.
type attachments struct {
	exclusive placement.Exclusive
	attached  map[string]*attachment // by the name of the volume
	unused    map[*node][]string     // volumes that silent nodes no longer need
	waiting   []*pod                 // bound, for volumes that are attached to other nodes
	retry     once
}

// attachment is where a volume is attached.
type attachment struct {
	on     *node     // nil if unknown
	users  []*pod    // on that node
	unused time.Time // since when there are no users
}

// loadAttachments attaches volumes to the nodes that VolumeAttachments say or, if these are not known, to the nodes of
// the pods that use them, the oldest first.
func (s *simulation) loadAttachments() {
	a := &s.attachments
	a.attached, a.unused = map[string]*attachment{}, map[*node][]string{}
	a.retry = once{queue: &s.queue, kind: attaches, do: s.retryAttachments}
	for volume, name := range a.exclusive.On {
		on := s.nodes[name]
		if on == nil { // it has been deleted
			on = &node{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, silent: true}
		}
		a.attached[volume] = &attachment{on: on, unused: s.start}
	}
	var users []*pod
	for _, n := range s.nodes {
		for _, p := range n.pods {
			if len(p.volumes) > 0 {
				users = append(users, p)
			}
		}
	}
	slices.SortFunc(users, func(a, b *pod) int {
		return cmp.Or(
			a.facts.Bound.Compare(b.facts.Bound), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	for _, p := range users {
		if !s.attach(p) && p.stage == bound && !p.ready {
			p.starts = false
			s.await(p)
		}
	}
	for volume, is := range a.attached {
		if len(is.users) == 0 {
			s.unmount(volume, is)
		}
	}
}

// attach attaches the volumes of a pod to its node, and reports whether it has them all.
func (s *simulation) attach(p *pod) bool {
	all := true
	for _, volume := range p.volumes {
		is := s.attachments.attached[volume.Name]
		if is == nil || is.on != p.on && s.isForced(is) {
			is = &attachment{on: p.on}
			s.attachments.attached[volume.Name] = is
		}
		switch {
		case is.on != p.on:
			all = false
		case !slices.Contains(is.users, p):
			is.users = append(is.users, p)
		}
	}
	return all
}

// isForced reports whether a volume has been detached from a node whose kubelet is silent. If it may be later, the pods
// that wait try again then.
func (s *simulation) isForced(is *attachment) bool {
	if len(is.users) > 0 {
		return false
	}
	forced := is.unused.Add(forcedDetach)
	if s.now.Before(forced) {
		s.attachments.retry.set(forced)
		return false
	}
	return !readiness.IsReady(is.on.Node)
}

// unmount detaches a volume that no pod of a node needs anymore, or later if the kubelet must unmount it and is silent.
func (s *simulation) unmount(volume string, is *attachment) {
	if is.on == nil || is.on.unmounts() {
		delete(s.attachments.attached, volume)
		return
	}
	is.unused = s.now
	s.attachments.unused[is.on] = append(s.attachments.unused[is.on], volume)
}

// unmounts reports whether volumes that a node no longer needs are detached at once.
func (n *node) unmounts() bool {
	return !n.silent || slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeOutOfService
	})
}

// unmountAll detaches the volumes that a node no longer needs, if it can be done now.
func (s *simulation) unmountAll(n *node) {
	if n.unmounts() {
		for _, volume := range s.attachments.unused[n] {
			if is := s.attachments.attached[volume]; is != nil && is.on == n && len(is.users) == 0 {
				delete(s.attachments.attached, volume)
			}
		}
		delete(s.attachments.unused, n)
	}
	s.mayAttach()
}

// mayAttach lets pods that wait for volumes try again.
func (s *simulation) mayAttach() {
	if len(s.attachments.waiting) > 0 {
		s.attachments.retry.set(s.now)
	}
}

// release ends the use of volumes by a pod that is gone.
func (s *simulation) release(p *pod) {
	for _, volume := range p.volumes {
		is := s.attachments.attached[volume.Name]
		if is == nil || !slices.Contains(is.users, p) {
			continue
		}
		is.users = slices.DeleteFunc(is.users, func(other *pod) bool { return other == p })
		if len(is.users) == 0 {
			s.unmount(volume.Name, is)
		}
		s.mayAttach()
	}
}

// await lets a bound pod wait for its volumes.
func (s *simulation) await(p *pod) {
	s.attachments.waiting = append(s.attachments.waiting, p)
	s.refused = append(s.refused, refused{pod: p})
	p.awaits = true
}

// retryAttachments starts the pods that wait for volumes, if these can be attached now.
func (s *simulation) retryAttachments(now time.Time) {
	s.attachments.waiting = slices.DeleteFunc(s.attachments.waiting, func(p *pod) bool {
		if p.awaits = p.stage == bound && !s.attach(p); p.awaits {
			return false
		}
		if p.stage == bound {
			s.begin(p, now)
		}
		return true
	})
}

// tellUnattached reports the pods that still wait for volumes at the end.
func (s *simulation) tellUnattached() (pods int) {
	assumed := false
	for _, p := range s.attachments.waiting {
		if p.stage != bound {
			continue
		}
		pods++
		assumed = !s.attachments.exclusive.Known() && s.cluster.Knows(state.Attachments.Resource)
		s.tellPod(p).Volume = s.attachments.why(p)
	}
	if assumed {
		s.note("It is not known which volumes are attached to which nodes, so the simulation assumes that a volume of a " +
			"CSI driver is attached to the node of the pod that uses it.")
	}
	return pods
}

// missing names a volume that a pod waits for, and says where that is still attached.
func (a *attachments) missing(p *pod) (volume, where string) {
	for _, volume := range p.volumes {
		if is := a.attached[volume.Name]; is != nil && is.on != p.on {
			return placement.NameOf(volume), is.where()
		}
	}
	return "", ""
}

// why says which volume a pod waits for, and why.
func (a *attachments) why(p *pod) string {
	volume, where := a.missing(p)
	return fmt.Sprintf("Volume %s is still attached to %s.", volume, where)
}

// where says where a volume is attached, and why it is not detached.
func (is *attachment) where() string {
	switch {
	case is.on == nil:
		return "another node"
	case is.on.silent:
		return "node " + is.on.Name + ", which is silent"
	case len(is.users) > 0:
		return "node " + is.on.Name + ", where pod " + is.users[0].Name + " uses it"
	}
	return "node " + is.on.Name
}
