// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// tainting is one run of taint or untaint against a cluster.
type tainting struct {
	*options

	reader *source.Reader
	// clock estimates the API server's time from its answers.
	clock *timeline.Clock

	cluster *state.Cluster
	// answers are the lines that the user types.
	answers *bufio.Reader
	// printed is the number of nodes that were printed as objects.
	printed int
	// blind means that the user may not list pods, so the plan cannot say which leave.
	blind bool
}

func (t *tainting) run(ctx context.Context) error {
	if err := t.read(ctx); err != nil {
		return err
	}
	if err := t.resolve(t.cluster); err != nil {
		return err
	}
	nodes, err := t.nodes.Of(t.cluster)
	if err != nil {
		return err
	}
	possible, left := t.possible(nodes)
	if err := t.mayWait(ctx, possible); err != nil {
		return err
	}
	made, err := t.plan(ctx, nodes)
	if err != nil {
		return err
	}
	t.show(made)
	nodes = possible
	if err := t.confirm(ctx, made, nodes); err != nil {
		return err
	}
	done, failed := t.apply(ctx, nodes)
	failed = errors.Join(left, failed, t.print(done))
	if failed != nil && t.wait {
		t.tell("Failed so far (the rest continues): %s", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	return errors.Join(failed, t.follow(ctx, done))
}

// read reads the cluster. Users who may not list pods can taint nodes anyway, but cannot wait.
func (t *tainting) read(ctx context.Context) error {
	err := t.reader.Read(ctx, source.Wants{Policies: true, Budgets: true, Successors: true, Evictor: true})
	t.reader.Progress.End()
	t.cluster = t.reader.Cluster
	var denied source.DeniedError
	if errors.As(err, &denied) && denied.Kind == "pods" && !t.wait {
		t.blind = true
		t.tell("Note: You may not list pods, so the plan cannot say which pods leave.")
		return nil
	}
	return err
}

// now returns the latest time that the API server's clock can show. Other programs read timeAdded, which must never be
// too early.
func (t *tainting) now() time.Time { return t.clock.Latest() }

// machineTime returns the time of this machine's clock, which ends --timeout. Other clocks can be set, and
// timers stop while a machine sleeps.
func (t *tainting) machineTime() time.Time { return t.env.Clock.Now().Round(0) }

func (t *tainting) tell(format string, args ...any) {
	fmt.Fprintln(t.env.ErrOut, output.Printable(fmt.Sprintf(format, args...)))
}

func (t *tainting) plan(ctx context.Context, nodes []*corev1.Node) (*cliv1alpha1.TaintPlan, error) {
	return plan.Make(ctx, t.cluster, plan.Request{Nodes: nodes, Edit: t.edit, Overwrite: t.policy(), At: t.now()})
}

// show prints the plan.
func (t *tainting) show(made *cliv1alpha1.TaintPlan) {
	lines := summary.Lines(made)
	if t.blind {
		lines = lines[1:]
	}
	for _, line := range lines {
		t.tell("%s", line)
	}
	const much = 5 * time.Second
	if offset := t.clock.Offset(); offset.Abs() > much {
		t.tell("Note: This machine's clock and the API server's differ by %s; timeAdded uses the API server's.", offset.Abs().Round(time.Second))
	}
}

// trips returns an error if a plan makes pods leave and would trip a breaker, because the author of the breaker
// declared that so many evictions are a mistake.
func trips(made *cliv1alpha1.TaintPlan) error {
	leaves := func(pod cliv1alpha1.PlannedPod) bool {
		return pod.Change == cliv1alpha1.ChangeLeaves || pod.Change == cliv1alpha1.ChangeEarlier
	}
	var tripped []string
	for _, p := range made.Policies {
		if p.TripsAt != nil {
			tripped = append(tripped, p.Name)
		}
	}
	if len(tripped) == 0 || !slices.ContainsFunc(made.Pods, leaves) {
		return nil
	}
	allow := sentence.Agree(len(tripped), "EvictionPolicy %s allows", "EvictionPolicies %s allow")
	return fmt.Errorf("more pods would be due at once than "+allow+": add --yes to change the nodes anyway",
		sentence.Enumerate(tripped))
}

// possible returns the nodes that can be changed, and why the others cannot.
func (t *tainting) possible(nodes []*corev1.Node) ([]*corev1.Node, error) {
	var possible []*corev1.Node
	var errs []error
	for _, node := range nodes {
		if _, err := t.edit.Apply(node.Spec.Taints, t.policy()); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", node.Name, err))
			continue
		}
		possible = append(possible, node)
	}
	return possible, errors.Join(errs...)
}

// confirm asks whether to change nodes. Any answer but yes is an error.
func (t *tainting) confirm(ctx context.Context, made *cliv1alpha1.TaintPlan, nodes []*corev1.Node) error {
	if t.yes || t.dry() {
		return nil
	}
	if err := trips(made); err != nil {
		return err
	}
	of := ""
	if name := summary.Cluster(made); name != "" {
		of = " of cluster " + name
	}
	t.tell("%s on %s%s: %s", t.edit, sentence.Counted(len(nodes), "node"), of, sentence.Enumerate(namesOf(nodes)))
	fmt.Fprint(t.env.ErrOut, "Continue? [y/N] ")
	if t.answers == nil {
		t.answers = bufio.NewReader(t.env.In)
	}
	// A read cannot be interrupted, so its goroutine may outlive the question.
	answers := make(chan string, 1)
	go func() {
		line, _ := t.answers.ReadString('\n')
		answers <- line
	}()
	select {
	case <-ctx.Done():
		t.tell("")
		return errors.New("interrupted: no taint was changed")
	case line := <-answers:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New("the answer was not yes: no taint was changed")
	}
}

// follow waits until all pods have left, if --wait is set.
func (t *tainting) follow(ctx context.Context, done []changed) error {
	if len(done) == 0 || !t.wait {
		return nil
	}
	err := t.awaitDepartures(ctx, done)
	if apicall.Stopping(ctx) && len(t.edit.Add) > 0 {
		return errors.Join(err, t.interrupted(done))
	}
	return err
}

// interrupted says how to undo the change.
func (t *tainting) interrupted(done []changed) error {
	words := slices.Concat([]string{"kubectl", "taintkeeper", "untaint"}, t.connection(), nodesOf(done))
	for _, taint := range t.edit.Add {
		words = append(words, taints.Removal{Key: taint.Key, Effect: taint.Effect}.String())
	}
	return fmt.Errorf("interrupted: to remove %s from %s, run: %s", t.edit, sentence.Enumerate(nodesOf(done)), strings.Join(words, " "))
}

func nodesOf(done []changed) []string {
	var names []string
	for _, one := range done {
		names = append(names, one.node.Name)
	}
	return names
}

// connection returns the flags that selected the cluster of this command.
func (t *tainting) connection() []string {
	var words []string
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"kubeconfig", t.config.KubeConfig}, {"context", t.config.Context},
		{"cluster", t.config.ClusterName}, {"user", t.config.AuthInfoName},
	} {
		if flag.value != nil && *flag.value != "" {
			words = append(words, "--"+flag.name+"="+*flag.value)
		}
	}
	return words
}
