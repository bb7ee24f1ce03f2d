// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// taintOptions are the options of kubectl taintkeeper taint and untaint.
type taintOptions struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	output show.Printer
	nodes  nodeSelection

	overwrite bool
	dryRun    dryRunFlag
	yes       bool
	// asks is true if stdin is a terminal, so the command can ask for confirmation.
	asks bool

	wait    bool
	timeout time.Duration // of --wait; 0 means no limit

	connect source.Dialer

	edit taints.Edit
}

func taintNewOptions(env command.Env, config *genericclioptions.ConfigFlags) *taintOptions {
	return &taintOptions{
		env: env, config: config, output: show.NewPrinter(env), asks: show.IsTerminal(env.In), connect: source.Dial,
	}
}

const taintOutput = `

The plan and the question go to stderr. Stdout gets what kubectl taint prints: a line for each node, or with -o json and
-o yaml the changed nodes. -o wide adds their taints before and after.

If a node cannot be changed, the command names it and changes the others. In that case, the exit code is 1.`

// newTaint returns the command taint.
func newTaint(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return taintNewOptions(env, config).taintCommand()
}

func (o *taintOptions) taintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "taint (NODE... | -l SELECTOR | --all) TAINT...",
		Short: "Taint nodes, with a preview and a confirmation",
		Long: `Change the taints of nodes as kubectl taint does, but first say which pods leave, and ask for confirmation.
A change that would trip the breaker of an EvictionPolicy requires --yes.

` + taintSyntax + `
The command sets timeAdded on NoExecute taints, because tolerationSeconds count from it. If someone else changes a node
meanwhile, the command reads it again, and makes a new plan if its taints have changed.

Taint-based evictions ignore PodDisruptionBudgets, unless an EvictionPolicy with the action Evict selects the pods. A
policy with a pace makes pods leave a few at a time. Without policies, use kubectl drain before you taint.` +
			taintOutput,
		Example: `  # Taint a node, keep new pods off, and wait until all pods that must leave have left
  kubectl taintkeeper taint worker-1 maintenance=now:NoExecute maintenance=now:NoSchedule --wait --timeout 10m

  # Taint a zone
  kubectl taintkeeper taint -l topology.kubernetes.io/zone=a drill:NoExecute

  # How would the API server answer?
  kubectl taintkeeper taint worker-1 maintenance=now:NoExecute --dry-run=server -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.execute(cmd.Context(), o.completeTaint, args) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Replace taints with the same key and effect, as kubectl taint --overwrite does.")
	cmd.ValidArgsFunction = completeTaints(&source.Source{Env: o.env, Config: o.config})
	return cmd
}

// newUntaint returns the command untaint.
func newUntaint(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return taintNewOptions(env, config).untaintCommand()
}

func (o *taintOptions) untaintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "untaint (NODE... | -l SELECTOR | --all) KEY[:Effect]...",
		Short: "Remove taints from nodes, with a preview and a confirmation",
		Long: `Remove taints from nodes as kubectl taint does, but first say which pods then stay and which leave anyway, and ask for
confirmation.

KEY removes the taints with that key, whatever their effect. KEY:Effect removes one of them. A trailing "-", which
kubectl taint requires, is optional for the last key, and for all keys after --selector or --all. A node without the
taint is an error, as in kubectl taint, even with --all.` +
			taintOutput,
		Example: `  # Remove all taints with this key
  kubectl taintkeeper untaint worker-1 maintenance

  # On all nodes, only one effect
  kubectl taintkeeper untaint --all maintenance:NoSchedule --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.execute(cmd.Context(), o.completeUntaint, args)
		},
	}
	o.addFlags(cmd)
	cmd.ValidArgsFunction = completeRemovals(&source.Source{Env: o.env, Config: o.config})
	return cmd
}

func (o *taintOptions) addFlags(cmd *cobra.Command) {
	noFiles(cmd, cmd.Name()+" changes the nodes of a cluster: to see what it would do to the nodes in files, use plan")
	o.output.AddFlags(cmd)
	o.nodes.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	o.dryRun.AddFlag(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until all pods that must leave have left, including those that may stay for a while.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "The longest time to wait. After that, this command says why each pod is still there. 0 means no limit.")
}

func (o *taintOptions) execute(ctx context.Context, complete func([]string) error, args []string) error {
	if err := complete(args); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	return o.run(ctx)
}

func (o *taintOptions) completeTaint(args []string) error {
	nodes, specs, err := splitTaints(args)
	if err != nil {
		return err
	}
	o.nodes.Complete(nodes)
	o.edit, err = o.nodes.EditOf(specs)
	return err
}

// completeUntaint takes arguments that cannot be nodes as keys. If there are none, the last argument is the key.
func (o *taintOptions) completeUntaint(args []string) error {
	nodes, keys := args, []string(nil)
	if first := slices.IndexFunc(args, looksLikeTaint); first >= 0 {
		nodes, keys = args[:first], args[first:]
	}
	nodes = o.nodes.WithoutWord(nodes)
	switch last := len(nodes) - 1; {
	case o.nodes.All || o.nodes.Selector != "":
		nodes, keys = nil, slices.Concat(nodes, keys)
	case len(keys) == 0 && last > 0:
		nodes, keys = nodes[:last], nodes[last:]
	}
	if len(keys) == 0 {
		return command.Usagef("no taint is given: name at least one after the nodes, as key or key:Effect")
	}
	o.nodes.Complete(nodes)
	for _, key := range keys {
		removal, err := taints.ParseRemoval(strings.TrimSuffix(key, "-") + "-")
		if err != nil {
			return command.Usagef("%w", err)
		}
		o.edit.Remove = append(o.edit.Remove, removal)
	}
	return nil
}

func (o *taintOptions) validate() error {
	return firstError(
		func() error { return noNamespace(o.config) },
		o.nodes.Validate, o.output.Validate, o.validateDryRun, o.validateWait, o.validateQuestion,
	)
}

func (o *taintOptions) validateDryRun() error {
	if err := o.dryRun.Validate(); err != nil {
		return err
	}
	if o.dry() && o.wait {
		return command.Usagef("--dry-run=%s changes nothing, so there is nothing to wait for: remove --wait", o.dryRun)
	}
	return nil
}

func (o *taintOptions) validateWait() error {
	switch {
	case o.timeout < 0:
		return command.Usagef("--timeout=%s: it cannot be less than 0", o.timeout)
	case o.timeout > 0 && !o.wait:
		return command.Usagef("--timeout=%s requires --wait", o.timeout)
	}
	return nil
}

func (o *taintOptions) validateQuestion() error {
	if o.yes || o.dry() || o.asks {
		return nil
	}
	return command.Usagef("stdin is not a terminal, so the command cannot ask for confirmation: add --yes to change the nodes without confirmation, or --dry-run=server to see what would change")
}

// dry reports whether this is a dry run.
func (o *taintOptions) dry() bool { return o.dryRun != dryRunNone }

func (o *taintOptions) policy() taints.Overwrite {
	if o.overwrite {
		return taints.OverwriteExisting
	}
	return taints.KeepExisting
}

func (o *taintOptions) run(ctx context.Context) error {
	reader, err := o.connect(o.env, o.config)
	if err != nil {
		return err
	}
	return (&tainting{taintOptions: o, reader: reader}).run(ctx)
}

// tainting is one run of taint or untaint against a cluster.
type tainting struct {
	*taintOptions

	reader  *source.Reader
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
	t.print(done)
	failed = errors.Join(left, failed)
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
func (t *tainting) now() time.Time { return t.reader.Clock.Latest() }

// machineTime returns the time of this machine's clock, which ends --timeout. Other clocks can be set, and
// timers stop while a machine sleeps.
func (t *tainting) machineTime() time.Time { return t.env.Clock.Now().Round(0) }

func (t *tainting) tell(format string, args ...any) {
	fmt.Fprintln(t.env.ErrOut, show.Printable(fmt.Sprintf(format, args...)))
}

func (t *tainting) plan(ctx context.Context, nodes []*corev1.Node) (*cliv1alpha1.TaintPlan, error) {
	return plan.Make(ctx, t.cluster, plan.Request{Nodes: nodes, Edit: t.edit, Overwrite: t.policy(), At: t.now()})
}

// show prints the plan.
func (t *tainting) show(made *cliv1alpha1.TaintPlan) {
	lines := show.Lines(made)
	if t.blind {
		lines = lines[1:]
	}
	for _, line := range lines {
		t.tell("%s", line)
	}
	const much = 5 * time.Second
	if offset := t.reader.Clock.Offset(); offset.Abs() > much {
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
			errs = append(errs, sentence.ErrorAbout("node", node.Name, err))
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
	if name := show.Cluster(made); name != "" {
		of = " of cluster " + name
	}
	t.tell("%s on %s%s: %s", t.edit, sentence.Counted(len(nodes), "node"), of, sentence.Enumerate(taintNamesOf(nodes)))
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
	if apicall.Stopping(ctx) {
		return errors.Join(err, fmt.Errorf("the change is not undone: %s on %s", t.edit, sentence.Enumerate(nodesOf(done))))
	}
	return err
}

func nodesOf(done []changed) []string {
	var names []string
	for _, one := range done {
		names = append(names, one.node.Name)
	}
	return names
}
