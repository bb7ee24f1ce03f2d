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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// taintOptions are one run of kubectl taintkeeper taint or untaint.
type taintOptions struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	output show.Printer
	nodes  nodeSelection
	edit   taints.Edit

	overwrite bool
	dryRun    dryRunFlag
	yes       bool
	// asks is true if stdin is a terminal, so the command can ask for confirmation.
	asks bool

	wait    bool
	timeout time.Duration // of --wait; 0 means no limit

	connect source.Dialer
	reader  *source.Reader
	// answers are the lines that the user types.
	answers *bufio.Reader
	// blind means that the user may not list pods, so the plan cannot say which leave.
	blind bool
}

func taintNewOptions(env command.Env, config *genericclioptions.ConfigFlags) *taintOptions {
	return &taintOptions{
		env: env, config: config, output: show.NewObjectPrinter(env, show.Name), asks: show.IsTerminal(env.In),
		answers: bufio.NewReader(env.In), connect: source.Dial,
	}
}

const taintOutput = `

The plan and the question go to stderr. Stdout gets what kubectl taint prints: a line for each node, or with -o json and
-o yaml the changed nodes.

If a node cannot be changed, the command names it and changes the others. In that case, the exit code is 1.`

func (o *taintOptions) taintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "taint (NODE... | -l SELECTOR | --all) TAINT...",
		Short: "Taint nodes, with a preview and a confirmation",
		Long: `Change the taints of nodes as kubectl taint does, but first say which pods leave, and ask for confirmation.
A change that would trip the breaker of an EvictionPolicy requires --yes.

` + taintSyntax + `
The command sets timeAdded on NoExecute taints, because tolerationSeconds counts from it. If someone else changes a node
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
		RunE: o.runE(o.completeTaint),
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Replace taints with the same key and effect, as kubectl taint --overwrite does.")
	cmd.ValidArgsFunction = completeTaints(&source.Source{Env: o.env, Config: o.config})
	return cmd
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
		RunE: o.runE(o.completeUntaint),
	}
	o.addFlags(cmd)
	cmd.ValidArgsFunction = completeRemovals(&source.Source{Env: o.env, Config: o.config})
	return cmd
}

func (o *taintOptions) addFlags(cmd *cobra.Command) {
	noFiles(cmd, cmd.Name()+" changes the nodes of a cluster: to see what it would do to the nodes in files, use plan")
	o.output.AddOutput(cmd, "a line for each node")
	o.nodes.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	o.dryRun.AddFlag(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until all pods that must leave have left, including those that may stay for a while.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "The longest time to wait. After that, this command says why each pod is still there. 0 means no limit.")
}

// runE returns the function of a command that completes the options from its arguments.
func (o *taintOptions) runE(complete func(args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return firstError(func() error { return complete(args) }, o.validate, func() error { return o.run(cmd.Context()) })
	}
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
	err := firstError(
		func() error { return noNamespace(o.config) }, o.nodes.Validate, o.output.Validate, o.dryRun.Validate,
	)
	switch dry := o.dryRun != dryRunNone; {
	case err != nil:
		return err
	case dry && o.wait:
		return command.Usagef("--dry-run=%s changes nothing, so there is nothing to wait for: remove --wait", o.dryRun)
	case o.timeout < 0:
		return command.Usagef("--timeout=%s: it cannot be less than 0", o.timeout)
	case o.timeout > 0 && !o.wait:
		return command.Usagef("--timeout=%s requires --wait", o.timeout)
	case !o.yes && !dry && !o.asks:
		return command.Usagef("stdin is not a terminal, so the command cannot ask for confirmation: add --yes to change the nodes without confirmation, or --dry-run=server to see what would change")
	}
	return nil
}

func (o *taintOptions) run(ctx context.Context) (err error) {
	if o.reader, err = o.connect(o.env, o.config); err != nil {
		return err
	}
	if err := o.read(ctx); err != nil {
		return err
	}
	nodes, err := o.nodes.Of(o.reader.Cluster)
	if err != nil {
		return err
	}
	if err := o.mayWait(ctx, nodes[0].Name); err != nil {
		return err
	}
	if err := o.propose(ctx, nodes); err != nil {
		return err
	}
	done, failed := o.apply(ctx, nodes)
	if len(done) == 0 || !o.wait {
		return failed
	}
	if failed != nil {
		o.tell("Failed so far (the rest continues): %s", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	err = o.await(ctx, done)
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("the change is not undone: %s on %s", o.edit, sentence.Enumerate(namesOfNodes(done))))
	}
	return errors.Join(failed, err)
}

// read reads the cluster. Users who may not list pods can taint nodes anyway, but cannot wait.
func (o *taintOptions) read(ctx context.Context) error {
	err := o.reader.Read(ctx, source.Wants{Policies: true, Budgets: true, Successors: true, Evictor: true})
	o.reader.Progress.End()
	var denied source.DeniedError
	if errors.As(err, &denied) && denied.Kind == "pods" && !o.wait {
		o.blind = true
		o.tell("Note: You may not list pods, so the plan cannot say which pods leave.")
		return nil
	}
	return err
}

// now returns the latest time that the API server's clock can show. Other programs read timeAdded, which must never be
// too early.
func (o *taintOptions) now() time.Time { return o.reader.Clock.Latest() }

func (o *taintOptions) tell(format string, args ...any) {
	fmt.Fprintln(o.env.ErrOut, show.Printable(fmt.Sprintf(format, args...)))
}

func (o *taintOptions) policy() taints.Overwrite {
	if o.overwrite {
		return taints.OverwriteExisting
	}
	return taints.KeepExisting
}

// propose prints the plan for nodes, and asks whether to change those that can be changed.
func (o *taintOptions) propose(ctx context.Context, nodes []*corev1.Node) error {
	request := plan.Request{Nodes: nodes, Edit: o.edit, Overwrite: o.policy(), At: o.now()}
	made, err := plan.Make(ctx, o.reader.Cluster, request)
	if err != nil {
		return err
	}
	lines := show.Lines(made)
	if o.blind {
		lines = lines[1:]
	}
	for _, line := range lines {
		o.tell("%s", line)
	}
	const much = 5 * time.Second
	if offset := o.reader.Clock.Offset(); offset.Abs() > much {
		o.tell("Note: This machine's clock and the API server's differ by %s; timeAdded uses the API server's.", offset.Abs().Round(time.Second))
	}
	if o.yes || o.dryRun != dryRunNone {
		return nil
	}
	if err := trips(made); err != nil {
		return err
	}
	of := ""
	if name := show.Cluster(made); name != "" {
		of = " of cluster " + name
	}
	var names []string
	for i := range made.Nodes {
		names = append(names, made.Nodes[i].Name)
	}
	o.tell("%s on %s%s: %s", o.edit, sentence.Counted(len(names), "node"), of, sentence.Enumerate(names))
	return o.confirm(ctx)
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

// confirm asks whether to go on. Any answer but yes is an error.
func (o *taintOptions) confirm(ctx context.Context) error {
	fmt.Fprint(o.env.ErrOut, "Continue? [y/N] ")
	// A read cannot be interrupted, so its goroutine may outlive the question.
	answers := make(chan string, 1)
	go func() {
		line, _ := o.answers.ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		o.tell("")
		return errors.New("interrupted: no taint was changed")
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New("the answer was not yes: no taint was changed")
	}
}

// apply changes the nodes one by one, and prints each. If one fails, it continues with the others.
func (o *taintOptions) apply(ctx context.Context, nodes []*corev1.Node) (done []*corev1.Node, _ error) {
	var errs []error
	for i, planned := range nodes {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("interrupted: not changed: %s", strings.Join(namesOfNodes(nodes[i:]), ", ")))
			break
		}
		node, err := o.change(ctx, planned)
		if err != nil {
			errs = append(errs, sentence.ErrorAbout("node", planned.Name, o.explain(err)))
			continue
		}
		if done = append(done, node); len(done) > 1 && o.output.Format == show.YAML {
			o.output.Line("---")
		}
		printed := node.DeepCopy()
		printed.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		if err := printChanged(&o.output, printed, "node/"+node.Name, o.dryRun.Done(o.operation())); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return done, errors.Join(errs...)
}

// operation is kubectl taint's word for the change.
func (o *taintOptions) operation() string {
	switch {
	case o.overwrite, len(o.edit.Add) > 0 && len(o.edit.Remove) > 0:
		return "modified"
	case len(o.edit.Add) > 0:
		return "tainted"
	}
	return "untainted"
}

// conflicts limits how often a node is read again when others change it at the same time. All these attempts together
// take about 10 s.
var conflicts = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 9}

// change changes one node. It does not undo other changes made meanwhile, because the patch applies only to the version
// that was read.
func (o *taintOptions) change(ctx context.Context, planned *corev1.Node) (changed *corev1.Node, err error) {
	err = errors.New("interrupted: not changed")
	_ = wait.ExponentialBackoffWithContext(ctx, conflicts, func(ctx context.Context) (bool, error) {
		changed, err = o.changeOnce(ctx, &planned)
		return !apierrors.IsConflict(err), nil
	})
	if apierrors.IsConflict(err) && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: not changed: %w", err)
	}
	return changed, err
}

// changeOnce reads a node and changes it. If it is no longer as planned, it makes a new plan first.
func (o *taintOptions) changeOnce(ctx context.Context, planned **corev1.Node) (*corev1.Node, error) {
	node, err := o.reader.Clients.CoreV1().Nodes().Get(ctx, (*planned).Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := o.edited(node.Spec.Taints); err != nil {
		return nil, err
	}
	if isOther(*planned, node) {
		o.tell("Node %s has changed in the meantime, so here is a new plan.", node.Name)
		if err := o.read(ctx); err != nil {
			return nil, err
		}
		if err := o.propose(ctx, []*corev1.Node{state.SlimNode(node)}); err != nil {
			return nil, err
		}
		*planned = node
	}
	edited, _ := o.edited(node.Spec.Taints) // timeAdded must not be earlier than the answer
	if o.dryRun == dryRunClient {
		node.Spec.Taints = edited
		return node, nil
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	options := metav1.PatchOptions{FieldManager: policies.MadeBy, DryRun: o.dryRun.Option()}
	return apicall.PatchTaints(ctx, o.reader.Clients, node, apicall.NodeEdit{Taints: edited}, options)
}

// isOther reports whether the plan no longer fits a node because it has other taints, or because it was replaced by a
// node with the same name.
func isOther(planned, node *corev1.Node) bool {
	same := func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }
	return planned.UID != node.UID || !slices.EqualFunc(planned.Spec.Taints, node.Spec.Taints, same)
}

// edited returns a node's taints after the edit. An added NoExecute taint gets a timeAdded. A taint that stays the
// same, including its value, keeps its timeAdded.
func (o *taintOptions) edited(current []corev1.Taint) ([]corev1.Taint, error) {
	edit := o.edit
	edit.Add = slices.Clone(edit.Add)
	for i := range edit.Add {
		taint := &edit.Add[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		taint.TimeAdded = new(metav1.NewTime(o.now().Truncate(time.Second)))
		for _, was := range current {
			if was.MatchTaint(taint) && was.Value == taint.Value && !was.TimeAdded.IsZero() {
				taint.TimeAdded = was.TimeAdded
			}
		}
	}
	return edit.Apply(current, o.policy())
}

// explain says what to do when a call about a node fails.
func (o *taintOptions) explain(err error) error {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), ` resource "nodes"`): // by RBAC, not by a webhook
		return fmt.Errorf("%w: ask for permission to patch nodes, and to get them", err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return fmt.Errorf("the API server refused the change: %w", err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("other writers keep changing it: %w: try again", err)
	case apierrors.IsNotFound(err):
		return errors.New("it no longer exists: someone deleted it")
	case source.IsUnanswered(err):
		return fmt.Errorf("the API server %s does not answer: %w: check the node before you try again", o.reader.Server, err)
	}
	return err
}

func namesOfNodes(nodes []*corev1.Node) []string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}
