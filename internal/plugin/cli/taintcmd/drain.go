// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/drain"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// draining is --drain and its flags, which have the same names as in kubectl drain.
type draining struct {
	is          bool
	podSelector string
	force       bool
	emptyDir    bool
}

func (d *draining) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&d.is, "drain", false,
		"Cordon the nodes and evict their pods within PodDisruptionBudgets before setting the taints. The nodes stay cordoned.")
	flags.StringVar(&d.podSelector, "pod-selector", "", "With --drain, evict only pods that match this label selector.")
	flags.BoolVar(&d.force, "force", false, "With --drain, also evict pods without a controller. Nothing replaces them.")
	flags.BoolVar(&d.emptyDir, "delete-emptydir-data", false, "With --drain, also evict pods with emptyDir volumes. Their data is lost.")
}

func (o *options) validateDrain() error {
	d := o.drain
	if !d.is {
		for _, flag := range []struct {
			name  string
			given bool
		}{{"pod-selector", d.podSelector != ""}, {"force", d.force}, {"delete-emptydir-data", d.emptyDir}} {
			if flag.given {
				return command.Usagef("--%s requires --drain", flag.name)
			}
		}
		return nil
	}
	if _, err := labels.Parse(d.podSelector); err != nil {
		return command.Usagef("--pod-selector=%q: %w", d.podSelector, err)
	}
	switch {
	case len(o.edit.Add) == 0:
		return command.Usagef("--drain is for adding taints, and this command only removes taints: remove --drain")
	case o.lasts != 0:
		return command.Usagef("--for=%s removes the taints again, but nodes stay cordoned after --drain: remove one of the two", o.lasts)
	}
	return nil
}

// drainer is the helper that kubectl drain --ignore-daemonsets uses.
func (t *tainting) drainer(ctx context.Context) *drain.Helper {
	const again, page = 5 * time.Second, 500 // the values of kubectl
	out := &onceWriter{tell: t.tell, said: map[string]bool{}}
	return &drain.Helper{
		Ctx: ctx, Client: t.reader.Clients,
		Force: t.drain.force, DeleteEmptyDirData: t.drain.emptyDir, PodSelector: t.drain.podSelector,
		IgnoreAllDaemonSets: true, GracePeriodSeconds: -1, ChunkSize: page,
		Timeout: t.timeout, EvictErrorRetryDelay: again,
		Out: io.Discard, ErrOut: out,
		OnPodDeletionOrEvictionFinished: func(pod *corev1.Pod, _ bool, err error) {
			if err == nil {
				fmt.Fprintf(out, "%s evicted\n", output.PodName(pod.Namespace, pod.Name))
			}
		},
	}
}

// onceWriter writes each line only once, because a budget refuses repeatedly. Evictions run in parallel.
type onceWriter struct {
	tell func(format string, args ...any)

	mu   sync.Mutex
	said map[string]bool
}

// Write implements io.Writer.
func (w *onceWriter) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); !w.said[line] {
			w.said[line] = true
			w.tell("%s", line)
		}
	}
	return len(data), nil
}

// foresee says what --drain evicts, and removes these pods from the plan. Its error names the pods that kubectl drain
// refuses to evict.
func (t *tainting) foresee(ctx context.Context, nodes []*corev1.Node) error {
	if !t.drain.is || len(nodes) == 0 {
		return nil
	}
	evicted := map[types.UID]bool{}
	var warnings []string
	var errs []error
	for _, node := range nodes {
		list, refused := t.drainer(ctx).GetPodsForDeletion(node.Name)
		for _, err := range refused {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, err))
		}
		if len(refused) > 0 {
			continue
		}
		if warning := list.Warnings(); warning != "" {
			warnings = append(warnings, fmt.Sprintf("Node %s: %s", node.Name, warning))
		}
		for _, pod := range list.Pods() {
			evicted[pod.UID] = true
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	left := *t.cluster
	left.Pods = slices.DeleteFunc(slices.Clone(left.Pods), func(pod *corev1.Pod) bool { return evicted[pod.UID] })
	t.cluster = &left
	t.tell("--drain cordons %s first and evicts %s within PodDisruptionBudgets. The plan covers the pods that are left.",
		sentence.Counted(len(nodes), "node"), sentence.Counted(len(evicted), "pod"))
	for _, warning := range output.Merged(warnings) {
		t.tell("Note: %s.", warning)
	}
	return nil
}

// cordon cordons all nodes before the first one is drained, so that no pod moves from one to the next. It returns the
// nodes that can be drained. Without --drain it does nothing.
func (t *tainting) cordon(ctx context.Context, nodes []*corev1.Node) ([]*corev1.Node, error) {
	if !t.drain.is || t.dry() {
		return nodes, nil
	}
	var cordoned []*corev1.Node
	var errs []error
	for i, node := range nodes {
		if apicall.Stopping(ctx) {
			return slices.Concat(cordoned, nodes[i:]), errors.Join(errs...)
		}
		if err := t.cordonOne(ctx, node); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, t.explain(err)))
			continue
		}
		cordoned = append(cordoned, node)
	}
	return cordoned, errors.Join(errs...)
}

func (t *tainting) cordonOne(ctx context.Context, planned *corev1.Node) error {
	node, err := t.node(ctx, planned.Name)
	if err != nil {
		return err
	}
	if node.UID != planned.UID {
		return errors.New("it was replaced by another node with the same name: try again")
	}
	if node.Spec.Unschedulable {
		return nil
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	if err := drain.RunCordonOrUncordon(t.drainer(ctx), node, true); err != nil {
		return err
	}
	t.cordoned = append(t.cordoned, node.Name)
	t.tell("node/%s cordoned", node.Name)
	return nil
}

// empty evicts the pods of a cordoned node and waits until they have left.
func (t *tainting) empty(ctx context.Context, node string) error {
	if !t.drain.is || t.dry() {
		return nil
	}
	drainer := t.drainer(ctx)
	list, refused := drainer.GetPodsForDeletion(node)
	err := errors.Join(refused...)
	if err == nil {
		err = drainer.DeleteOrEvictPods(list.Pods())
	}
	switch {
	case apicall.Stopping(ctx):
		return errors.New("interrupted: neither drained nor tainted")
	case err != nil:
		return fmt.Errorf("neither drained nor tainted: %w", err)
	}
	t.tell("node/%s drained", node)
	return nil
}

// tellCordoned says which nodes this command has cordoned, and how to undo that.
func (t *tainting) tellCordoned() {
	if len(t.cordoned) == 0 {
		return
	}
	undo := strings.Join(slices.Concat([]string{"kubectl", "uncordon"}, t.connection(), t.cordoned), " ")
	t.tell("Cordoned: %s. Undo this with: %s", strings.Join(t.cordoned, ", "), undo)
}
