// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin says which controllers kube-controller-manager runs, from what it leaves in the cluster: the command
// lines of its pods, and the fields of nodes that it wrote. It also says what its taint-eviction-controller does with
// pods: what its timers do ([Timers], [Tries] from outside), how long its evictions take ([Queue]), and what must be
// kept from it for a while ([Hold]). It is pure. Taintkeeper's process and its plugin both ask it, so they cannot
// disagree.
package builtin

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/commandline"
)

const (
	// Program is the name of the program, of the Lease with which its replicas elect a leader, and of the manager of
	// the fields that they write.
	Program = "kube-controller-manager"
	// Recent is how long after a write a controller counts as running.
	Recent = 10 * time.Minute
)

// Controller is a controller of kube-controller-manager: its name, and then earlier names that the program accepts.
type Controller []string

// The controllers that Taintkeeper replaces.
var (
	TaintEviction = Controller{"taint-eviction-controller"}
	NodeLifecycle = Controller{"node-lifecycle-controller", "nodelifecycle"}
)

// RunsWith reports whether the program runs the controller with a command line.
func (c Controller) RunsWith(words []string) bool {
	return SwitchedOn(strings.Split(commandline.ValueOf(flagControllers, words, "*"), ","), c...)
}

// SwitchedOn reports whether a list in the syntax of --controllers, which Taintkeeper has too, switches on a controller
// that may have several names. The first item that names it decides, otherwise a '*' anywhere.
func SwitchedOn(list []string, names ...string) bool {
	for _, item := range list {
		if name := strings.TrimPrefix(item, "-"); slices.Contains(names, name) {
			return name == item
		}
	}
	return slices.Contains(list, "*")
}

// The flags that say what the program runs, and which Lease its replicas use to elect a leader.
const (
	flagControllers       = "--controllers"
	flagElectionName      = "--leader-elect-resource-name"
	flagElectionNamespace = "--leader-elect-resource-namespace"
)

// CommandLine returns the program and those of its flags that this package reads, for a pod that runs the program and
// is not over. It is nil for any other pod.
func CommandLine(pod *corev1.Pod) []string {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for i := range pod.Spec.Containers {
		if words := CommandOf(&pod.Spec.Containers[i]); words != nil {
			return words
		}
	}
	return nil
}

// CommandOf is CommandLine of one container. Since a pod does not show the entrypoint of its image, a container without
// a command is identified by its name.
func CommandOf(container *corev1.Container) []string {
	words := slices.Concat(container.Command, container.Args)
	isProgram := func(word string) bool { return !strings.HasPrefix(word, "-") && path.Base(word) == Program }
	byName := len(container.Command) == 0 && container.Name == Program
	if !byName && !slices.ContainsFunc(words, isProgram) {
		return nil
	}
	return append([]string{Program}, kept(words)...)
}

// kept returns the flags that this package reads, with their values.
func kept(words []string) (flags []string) {
	valueFollows := false
	for _, word := range words {
		name, _, inOne := strings.Cut(word, "=")
		isRead := name == flagControllers || name == flagElectionName || name == flagElectionNamespace
		if isRead || valueFollows {
			flags = append(flags, word)
		}
		valueFollows = isRead && !inOne
	}
	return flags
}

// Election returns the name and the namespace of the Lease with which the program's replicas elect a leader, according
// to the flags of its pods. The namespace is empty if they do not say it.
func Election(pods []*corev1.Pod) (name, namespace string) {
	name = Program
	for _, pod := range pods {
		words := CommandLine(pod)
		name = commandline.ValueOf(flagElectionName, words, name)
		namespace = commandline.ValueOf(flagElectionNamespace, words, namespace)
	}
	return name, namespace
}

// The fields of a node that controllers of node health write. Of kube-controller-manager's controllers, only the
// node-lifecycle-controller writes them.
const (
	Taints     = `"f:taints"`
	Conditions = `"f:conditions"`
)

// LastWrite returns when a manager last wrote one of these fields of an object, or zero.
func LastWrite(entries []metav1.ManagedFieldsEntry, manager string, fields ...string) time.Time {
	var last time.Time
	for i := range entries {
		entry := &entries[i]
		about := func(field string) bool { return Writes(entry, field) }
		if entry.Manager == manager && slices.ContainsFunc(fields, about) && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// Writes reports whether an entry is about a field.
func Writes(entry *metav1.ManagedFieldsEntry, field string) bool {
	return entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(field))
}
