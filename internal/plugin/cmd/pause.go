// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

const (
	// manager is the field manager of the policies. Resume finds them by their label.
	manager   = policies.MadeBy
	madeLabel = policies.MadeLabel
	// shown is the name of the kind in kubectl's output.
	shown = "evictionpolicy.taintkeeper.dev/"
)

// pauseOptions are the options of both commands.
type pauseOptions struct {
	env     command.Env
	config  *genericclioptions.ConfigFlags
	output  output.Printer
	dryRun  dryRunFlag
	connect source.Dialer
	// patience is how long a pause waits until Taintkeeper has seen it.
	patience time.Duration

	reason                 string
	all                    bool // that there is to resume
	podSelector, nodeLabel string
	allNamespaces          bool
}

func pauseNewOptions(env command.Env, config *genericclioptions.ConfigFlags) *pauseOptions {
	return &pauseOptions{
		env: env, config: config, output: output.NewPrinter(env), connect: source.Dial, patience: 5 * time.Second,
	}
}

// newPause returns the command pause.
func newPause(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return pauseNewOptions(env, config).pauseCommand()
}

func (o *pauseOptions) pauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause REASON",
		Short: "Stop taint-based evictions now, until you resume",
		Long: `Stop taint-based evictions now: create an EvictionPolicy that holds all pods, or those that you select. The command
does not ask for confirmation. It creates the policy first, waits until Taintkeeper has seen it, and then says what the
policy holds and how to resume. If a pause of the same pods is already there, the command only changes its reason.

Taintkeeper checks for the policy before each call, so it takes effect at once, regardless of other policies. Pods on
nodes with the taint node.kubernetes.io/out-of-service still leave. The built-in controller ignores policies; kubectl
taintkeeper check says which controller evicts. With coexistence, the built-in leaves the selected pods alone even while
Taintkeeper is not running (ifDown: Hold). During that time, --node-selector has no effect, because the built-in leaves
them alone on every node. So resume before you stop or uninstall Taintkeeper.

A kubelet that starts ends pods that do not tolerate a NoExecute taint of their node at all. So Taintkeeper adds a
toleration of 0 seconds to the pods that it holds. It does not make them leave later.

A pause does not end by itself. If you want one that does, create an EvictionPolicy with the action Hold and a deadline.
It releases each pod once the pod has been due for that long.`,
		Example: `  # Stop everything
  kubectl taintkeeper pause the network in zone b is down

  # Only the pods of a namespace, or those on some nodes
  kubectl taintkeeper pause restoring the backup -n shop
  kubectl taintkeeper pause network is down --node-selector topology.kubernetes.io/zone=b

  # What would be created?
  kubectl taintkeeper pause network is down --dry-run=client -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.reason = strings.TrimSpace(strings.Join(args, " "))
			object, err := o.policy()
			if err != nil {
				return err
			}
			return o.pause(cmd.Context(), object)
		},
	}
	o.dryRun.AddFlag(cmd)
	cmd.Flags().StringVarP(&o.output.Format, "output", "o", "", "How to print the policy: json, yaml or name. The default is one line.")
	cmd.Flags().StringVarP(&o.podSelector, "selector", "l", "", "Only pods with these labels: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().StringVar(&o.nodeLabel, "node-selector", "", "Only pods on nodes with these labels.")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Pods of all namespaces. This is the default without --namespace.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

var formats = []string{output.JSON, output.YAML, output.Name}

// policy returns the policy that the command line describes.
func (o *pauseOptions) policy() (*v1alpha1.EvictionPolicy, error) {
	const most = 256 // the limit of the CRD
	namespace := *o.config.Namespace
	switch long := utf8.RuneCountInString(o.reason); {
	case o.reason == "":
		return nil, command.Usagef("no reason is given: say in a few words why no pod may leave, for example: kubectl taintkeeper pause network is down")
	case long > most:
		return nil, command.Usagef("the reason has %d characters: use at most %d", long, most)
	case o.allNamespaces && namespace != "":
		return nil, errNamespaces
	case o.output.Format != "" && !slices.Contains(formats, o.output.Format):
		return nil, command.Usagef("--output=%s: choose one of %s", o.output.Format, strings.Join(formats, ", "))
	}
	if err := o.dryRun.Validate(); err != nil {
		return nil, err
	}
	object := &v1alpha1.EvictionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "pause", Labels: map[string]string{madeLabel: manager},
		},
		Spec: v1alpha1.EvictionPolicySpec{
			Action: v1alpha1.ActionHold, Paused: &o.reason, IfDown: v1alpha1.IfDownHold,
		},
	}
	if namespace != "" {
		object.Spec.NamespaceSelector = &v1alpha1.Selector{
			MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: v1alpha1.LabelValue(namespace)},
		}
	}
	var err error
	if object.Spec.PodSelector, err = selectorOf("selector", o.podSelector); err != nil {
		return nil, err
	}
	object.Spec.NodeSelector, err = selectorOf("node-selector", o.nodeLabel)
	return object, err
}

// pause creates the policy under the first free name, and says what it holds.
func (o *pauseOptions) pause(ctx context.Context, object *v1alpha1.EvictionPolicy) error {
	if o.dryRun == dryRunClient {
		return o.print(object, "created")
	}
	reader, err := o.connect(o.env, o.config)
	if err != nil {
		return err
	}
	if err := o.checkNamespace(ctx, reader); err != nil {
		return err
	}
	created, done, err := o.make(ctx, reader, object)
	if err != nil {
		return pauseExplain(ctx, reader, "create", err)
	}
	if err := o.print(created, done); err != nil {
		return err
	}
	o.confirm(ctx, reader, created)
	found, err := read(ctx, reader, source.Wants{Signs: true})
	if err != nil {
		o.uncertain(err)
		return nil
	}
	now := reader.Clock.Latest()
	o.tell("%s", found.effect(ending{object: created}, now).ofPause(created.Name))
	if doubt := found.doubt(now); doubt != "" {
		o.tell("%s", doubt)
	}
	return nil
}

// checkNamespace refuses to pause a namespace that does not exist, because such a pause would hold nothing.
func (o *pauseOptions) checkNamespace(ctx context.Context, reader *source.Reader) error {
	name := *o.config.Namespace
	if name == "" {
		return nil
	}
	_, err := reader.Clients.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return nil // clients that may not read it can still pause it
	}
	return fmt.Errorf("nothing is paused: there is no namespace %q", name)
}

// make creates the policy under the first name that is free. If a pause of the same pods has one of the names, it
// changes only the reason of that pause. It returns the policy and what was done.
func (o *pauseOptions) make(ctx context.Context, reader *source.Reader, object *v1alpha1.EvictionPolicy) (
	made *v1alpha1.EvictionPolicy, done string, err error,
) {
	options := metav1.CreateOptions{FieldManager: manager, DryRun: o.dryRun.Option()}
	for next := 2; ; next++ {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, "", err
		}
		unsent := &unstructured.Unstructured{Object: content}
		created, err := reader.Dynamic.Resource(source.EvictionPolicies).Create(ctx, unsent, options)
		if err == nil {
			made, err = source.PolicyOf(created)
			return made, "created", err
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, "", err
		}
		there, err := o.get(ctx, reader, object.Name)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, "", err
		}
		if err == nil && isSamePause(there, object) {
			return o.restate(ctx, reader, there)
		}
		object.Name = fmt.Sprintf("pause-%d", next)
	}
}

func (o *pauseOptions) get(ctx context.Context, reader *source.Reader, name string) (*v1alpha1.EvictionPolicy, error) {
	object, err := reader.Dynamic.Resource(source.EvictionPolicies).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return source.PolicyOf(object)
}

// isSamePause reports whether a policy that exists pauses the same pods as another one would, whatever the reasons.
func isSamePause(there, wanted *v1alpha1.EvictionPolicy) bool {
	is, want := there.Spec, wanted.Spec
	is.Paused, want.Paused = nil, nil
	is.Finished, want.Finished = "", "" // the API server sets the default
	return policies.MadeByPause(there) && equality.Semantic.DeepEqual(is, want)
}

// restate gives a pause that exists the reason of the command line.
func (o *pauseOptions) restate(ctx context.Context, reader *source.Reader, there *v1alpha1.EvictionPolicy) (
	made *v1alpha1.EvictionPolicy, done string, err error,
) {
	if there.Spec.Paused != nil && *there.Spec.Paused == o.reason {
		return there, "unchanged", nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": there.ResourceVersion},
		"spec":     map[string]any{"paused": o.reason},
	})
	if err != nil {
		return nil, "", err
	}
	options := metav1.PatchOptions{FieldManager: manager, DryRun: o.dryRun.Option()}
	changed, err := reader.Dynamic.Resource(source.EvictionPolicies).
		Patch(ctx, there.Name, types.MergePatchType, patch, options)
	if err != nil {
		return nil, "", err
	}
	made, err = source.PolicyOf(changed)
	return made, "configured", err
}

// confirm waits until the status of a policy shows that Taintkeeper has seen it, and warns if that takes too long.
func (o *pauseOptions) confirm(ctx context.Context, reader *source.Reader, made *v1alpha1.EvictionPolicy) {
	if o.dryRun != dryRunNone {
		return
	}
	const each = 100 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, each, o.patience, true, func(ctx context.Context) (bool, error) {
		is, err := o.get(ctx, reader, made.Name)
		return err == nil && is.Status.ObservedGeneration >= made.Generation, nil // an error does not end the wait
	})
	if err != nil {
		o.tell("Warning: Taintkeeper has not confirmed the pause within %s, so pods may still leave: see 'kubectl taintkeeper status'.", o.patience)
	}
}

func (o *pauseOptions) print(object *v1alpha1.EvictionPolicy, done string) error {
	object.ManagedFields = nil
	if printed, err := o.output.Object(object); printed {
		return err
	}
	if o.output.Format == output.Name {
		o.output.Line("%s%s", shown, object.Name)
		return nil
	}
	o.output.Line("%s%s %s", shown, object.Name, o.dryRun.Done(done))
	return nil
}

func (o *pauseOptions) tell(format string, args ...any) {
	if o.dryRun != dryRunNone {
		format = "Without --dry-run: " + format
	}
	fmt.Fprintln(o.env.ErrOut, output.Printable(fmt.Sprintf(format, args...)))
}

// uncertain says that the effect cannot be told, because objects cannot be read.
func (o *pauseOptions) uncertain(err error) {
	fmt.Fprintln(o.env.ErrOut, output.Printable(fmt.Sprintf("Cannot tell which pods this concerns: %v", err)))
}

// pauseExplain says what to do when a call about EvictionPolicies fails.
func pauseExplain(ctx context.Context, reader *source.Reader, verb string, err error) error {
	doing := verb + " an EvictionPolicy"
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: ask for the right to %s evictionpolicies", doing, err, verb)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the API server %s does not have the resource: install Taintkeeper's chart, or apply config/crd.yaml", doing, reader.Server)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s: %w", doing, err)
	case source.IsUnanswered(err) && ctx.Err() == nil:
		return fmt.Errorf("%s: the API server %s does not answer: %w: see 'kubectl get evictionpolicies', and try again", doing, reader.Server, err)
	}
	return source.Failed(ctx, reader.Server, verb, source.EvictionPolicies.Resource, err)
}

// operators translates operators of label selectors on the command line into those of objects.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn,
	selection.In:        metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

// selectorOf parses the value of a flag as a selector. It returns nil if the value is empty.
func selectorOf(flag, text string) (*v1alpha1.Selector, error) {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil, command.Usagef("--%s=%q: %w", flag, text, err)
	}
	requirements, _ := parsed.Requirements()
	if len(requirements) == 0 {
		return nil, nil
	}
	selector := &v1alpha1.Selector{}
	for _, requirement := range requirements {
		operator, ok := operators[requirement.Operator()]
		if !ok {
			return nil, command.Usagef("--%s=%q: EvictionPolicies do not support the operator %q: use =, !=, in or notin", flag, text, requirement.Operator())
		}
		next := v1alpha1.SelectorRequirement{Key: requirement.Key(), Operator: operator}
		for _, value := range requirement.ValuesUnsorted() {
			next.Values = append(next.Values, v1alpha1.LabelValue(value))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, next)
	}
	return selector, nil
}
