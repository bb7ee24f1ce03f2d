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
	"k8s.io/client-go/dynamic"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// shownPolicy is the name of the kind in kubectl's output.
const shownPolicy = "evictionpolicy.taintkeeper.dev/"

// pauseOptions are one run of kubectl taintkeeper pause or resume.
type pauseOptions struct {
	env     command.Env
	config  *genericclioptions.ConfigFlags
	output  show.Printer
	dryRun  dryRunFlag
	connect source.Dialer
	reader  *source.Reader
	// patience is how long a pause waits until Taintkeeper has seen it.
	patience time.Duration

	reason                 string
	all                    bool // that there is to resume
	podSelector, nodeLabel string
	allNamespaces          bool
}

func pauseNewOptions(env command.Env, config *genericclioptions.ConfigFlags) *pauseOptions {
	return &pauseOptions{
		env: env, config: config, output: show.NewObjectPrinter(env, show.Name), connect: source.Dial,
		patience: 5 * time.Second,
	}
}

func (o *pauseOptions) pauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause REASON",
		Short: "Stop taint-based evictions now, until you resume",
		Long: `Stop taint-based evictions now: create an EvictionPolicy that holds all pods, or those that you select. The command
does not ask for confirmation. It creates the policy first, waits until Taintkeeper has seen it, and then says what the
policy holds and how to resume. If a pause of the same pods is already there, the command only changes its reason.

A pause takes effect at once, regardless of other policies. Pods on nodes with the taint
node.kubernetes.io/out-of-service still leave. Without coexistence, and in shadow mode, a pause does not stop
kube-controller-manager. With coexistence, kube-controller-manager leaves the selected pods alone even while Taintkeeper
is not running, on every node, whatever --node-selector says. So resume before you stop or uninstall Taintkeeper.

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
	o.output.AddOutput(cmd, "one line")
	cmd.Flags().StringVarP(&o.podSelector, "selector", "l", "", "Only pods with these labels: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().StringVar(&o.nodeLabel, "node-selector", "", "Only pods on nodes with these labels.")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Pods of all namespaces. This is the default without --namespace.")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

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
	}
	spec := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: &o.reason, IfDown: v1alpha1.IfDownHold}
	if namespace != "" {
		spec.NamespaceSelector = &v1alpha1.Selector{
			MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: v1alpha1.LabelValue(namespace)},
		}
	}
	err := firstError(
		o.output.Validate, o.dryRun.Validate,
		func() (err error) { spec.PodSelector, err = selectorOf("selector", o.podSelector); return },
		func() (err error) { spec.NodeSelector, err = selectorOf("node-selector", o.nodeLabel); return },
	)
	return &v1alpha1.EvictionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EvictionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: "pause", Labels: map[string]string{policies.MadeLabel: policies.MadeBy}},
		Spec:       spec,
	}, err
}

// operators translates operators of label selectors on the command line into those of objects.
var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
	selection.In: metav1.LabelSelectorOpIn, selection.Exists: metav1.LabelSelectorOpExists,
	selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
	selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

// selectorOf parses the value of a flag as a selector. It returns nil if the value is empty.
func selectorOf(flag, text string) (selector *v1alpha1.Selector, _ error) {
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		return nil, command.Usagef("--%s=%q: %w", flag, text, err)
	}
	for _, requirement := range requirements {
		next := v1alpha1.SelectorRequirement{Key: requirement.Key(), Operator: operators[requirement.Operator()]}
		if next.Operator == "" {
			return nil, command.Usagef("--%s=%q: EvictionPolicies do not support the operator %q: use =, !=, in or notin", flag, text, requirement.Operator())
		}
		for _, value := range requirement.ValuesUnsorted() {
			next.Values = append(next.Values, v1alpha1.LabelValue(value))
		}
		if selector == nil {
			selector = &v1alpha1.Selector{}
		}
		selector.MatchExpressions = append(selector.MatchExpressions, next)
	}
	return selector, nil
}

// pause creates the policy under the first free name, and says what it holds.
func (o *pauseOptions) pause(ctx context.Context, object *v1alpha1.EvictionPolicy) (err error) {
	if o.dryRun == dryRunClient {
		return o.print(object, "created")
	}
	if o.reader, err = o.connect(o.env, o.config); err != nil {
		return err
	}
	if namespace := *o.config.Namespace; namespace != "" { // a pause of one that does not exist would hold nothing
		_, err := o.reader.Clients.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) { // clients that may not read it can still pause it
			return fmt.Errorf("nothing is paused: there is no namespace %q", namespace)
		}
	}
	created, done, err := o.make(ctx, object)
	if err != nil {
		return o.explain(ctx, "create", err)
	}
	if err := o.print(created, done); err != nil {
		return err
	}
	o.confirm(ctx, created)
	found, err := o.read(ctx, source.Wants{Signs: true})
	if err != nil {
		o.tell("Cannot tell which pods this concerns: %v", err)
		return nil
	}
	now := o.reader.Clock.Latest()
	o.tell("%s", effectOf(found, ending{object: created, at: now}, now).ofPause(created.Name))
	if doubt := doubtOf(found, now); doubt != "" {
		o.tell("%s", doubt)
	}
	return nil
}

func (o *pauseOptions) policies() dynamic.ResourceInterface {
	return o.reader.Dynamic.Resource(source.EvictionPolicies)
}

// make creates the policy under the first name that is free. If a pause of the same pods has one of the names, it
// changes only the reason of that pause. It returns the policy and what was done.
func (o *pauseOptions) make(ctx context.Context, object *v1alpha1.EvictionPolicy) (
	made *v1alpha1.EvictionPolicy, done string, err error,
) {
	options := metav1.CreateOptions{FieldManager: policies.MadeBy, DryRun: o.dryRun.Option()}
	for next := 2; ; next++ {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, "", err
		}
		created, err := o.policies().Create(ctx, &unstructured.Unstructured{Object: content}, options)
		if err == nil {
			made, err = source.PolicyOf(created)
			return made, "created", err
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, "", err
		}
		there, err := o.get(ctx, object.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, "", err
		case !isSamePause(there, object):
		case there.Spec.Paused != nil && *there.Spec.Paused == o.reason:
			return there, "unchanged", nil
		default:
			made, err = o.patch(ctx, there, map[string]any{"paused": o.reason})
			return made, "configured", err
		}
		object.Name = fmt.Sprintf("pause-%d", next)
	}
}

func (o *pauseOptions) get(ctx context.Context, name string) (*v1alpha1.EvictionPolicy, error) {
	object, err := o.policies().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return source.PolicyOf(object)
}

// patch changes the specification of a policy that was read, but not of a new one with the same name.
func (o *pauseOptions) patch(
	ctx context.Context, object *v1alpha1.EvictionPolicy, spec map[string]any,
) (*v1alpha1.EvictionPolicy, error) {
	change := map[string]any{"spec": spec}
	if object.UID != "" {
		change["metadata"] = map[string]any{"uid": object.UID}
	}
	data, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: policies.MadeBy, DryRun: o.dryRun.Option()}
	changed, err := o.policies().Patch(ctx, object.Name, types.MergePatchType, data, options)
	if err != nil {
		return nil, err
	}
	return source.PolicyOf(changed)
}

// isSamePause reports whether a policy that exists pauses the same pods as another one would, whatever the reasons.
func isSamePause(there, wanted *v1alpha1.EvictionPolicy) bool {
	is, want := there.Spec, wanted.Spec
	is.Paused, want.Paused = nil, nil
	is.Finished, want.Finished = "", "" // the API server sets the default
	return policies.MadeByPause(there) && equality.Semantic.DeepEqual(is, want)
}

// confirm waits until the status of a policy shows that Taintkeeper has seen it, and warns if that takes too long.
func (o *pauseOptions) confirm(ctx context.Context, made *v1alpha1.EvictionPolicy) {
	if o.dryRun != dryRunNone {
		return
	}
	const each = 100 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, each, o.patience, true, func(ctx context.Context) (bool, error) {
		is, err := o.get(ctx, made.Name)
		return err == nil && is.Status.ObservedGeneration >= made.Generation, nil // an error does not end the wait
	})
	if err != nil {
		o.tell("Warning: Taintkeeper has not confirmed the pause within %s, so pods may still leave: see 'kubectl taintkeeper status'.", o.patience)
	}
}

func (o *pauseOptions) print(object *v1alpha1.EvictionPolicy, done string) error {
	return printChanged(&o.output, object, shownPolicy+object.Name, o.dryRun.Done(done))
}

func (o *pauseOptions) tell(format string, args ...any) {
	if o.dryRun != dryRunNone {
		format = "Without --dry-run: " + format
	}
	fmt.Fprintln(o.env.ErrOut, show.Printable(fmt.Sprintf(format, args...)))
}

// explain says what to do when a call about EvictionPolicies fails.
func (o *pauseOptions) explain(ctx context.Context, verb string, err error) error {
	doing := verb + " an EvictionPolicy"
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: ask for permission to %s evictionpolicies", doing, err, verb)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the API server %s does not have the resource: install Taintkeeper's chart, or apply config/crd.yaml", doing, o.reader.Server)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return source.Failed(ctx, o.reader.Server, verb, source.EvictionPolicies.Resource, err)
}

// read reads the nodes, the pods and the policies. Without the right to read namespaces, each has the label that all
// have.
func (o *pauseOptions) read(ctx context.Context, wants source.Wants) (*state.Cluster, error) {
	defer o.reader.Progress.End()
	wants.Policies = true
	err := o.reader.Read(ctx, wants)
	cluster := o.reader.Cluster
	if len(cluster.Namespaces) == 0 {
		for _, pod := range cluster.Pods {
			cluster.Namespaces = append(cluster.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: pod.Namespace, Labels: map[string]string{corev1.LabelMetadataName: pod.Namespace},
			}})
		}
	}
	return cluster, err
}

// effect is what a policy does to pods: it selects some, and holds some of these that are due. Release is what happens
// to those that it holds when it ends, partly at the pace of policies.
type effect struct {
	selected, held int
	release        policies.Release
	paces          []string
}

// effectOf returns the effect of a policy at an instant, and of what resume makes of it.
func effectOf(cluster *state.Cluster, change ending, now time.Time) (e effect) {
	set := func(objects ...*v1alpha1.EvictionPolicy) *policies.Set {
		return policies.New(objects, cluster.Namespaces, cluster.BudgetsOf())
	}
	alone := set(change.object)
	before := set(change.in(cluster.Policies, change.object)...)
	after := set(change.in(cluster.Policies, change.becomes)...)
	pending := plan.Pending{Policies: alone}
	live := state.LiveOf(state.Evictor{}, cluster.Nodes, cluster.Pods, now)
	for node := range live.Nodes() {
		is := policies.NodeOf(node.Node)
		for pod := range node.Pods() {
			if pod.DeletionTimestamp == nil && len(alone.Selecting(policies.PodOf(pod.Pod), is)) > 0 {
				e.selected++
			}
		}
		for _, pod := range pending.On(node, now) {
			if held := plan.Count(&cliv1alpha1.PodsToGo{}, &pod, now); !held {
				continue
			}
			e.held++
			of := live.Pod(pod.UID)
			c := policies.Candidate{
				Pod: policies.PodOf(of.Pod), Node: is, Causes: policy.CausesOf(state.Rule, of.Facts, node.Taints),
			}
			c.By = before.Selecting(c.Pod, is)
			course := before.AfterHalts(after, c, change.at)
			if e.release.Add(course, change.at); !course.Held() {
				e.slow(after.Selecting(c.Pod, is), c.Causes)
			}
		}
	}
	return e
}

// slow notes which policies set a pace for a pod.
func (e *effect) slow(selecting []*policy.Policy, causes []policy.Cause) {
	for _, p := range selecting {
		_, applies := p.Due(causes)
		if p.Pace() != nil && !p.DryRun && applies && !slices.Contains(e.paces, p.Name) {
			e.paces = append(e.paces, p.Name)
		}
	}
}

// ofPause says what a pause does.
func (e effect) ofPause(name string) string {
	resume := fmt.Sprintf("'kubectl taintkeeper resume %s'", name)
	switch {
	case e.selected == 0:
		return "Warning: it selects no pods, so it holds nothing: check --namespace, --selector and --node-selector, and remove it with " + resume + "."
	case e.held == 0:
		return fmt.Sprintf("It selects %s and holds none now; pods that become due stay until you run %s.",
			sentence.Counted(e.selected, "pod"), resume)
	}
	return fmt.Sprintf("It selects %s, %d due now and held until you run %s; then %s",
		sentence.Counted(e.selected, "pod"), e.held, resume, e.ofEnd())
}

// ofEnd says what happens when the policy ends.
func (e effect) ofEnd() string {
	leave := sentence.Do(e.release.Leave, "pod", "leaves", "leave") + " at once"
	if len(e.paces) > 0 {
		leave = sentence.Do(e.release.Leave, "pod", "leaves", "leave") + " at the pace of " +
			sentence.Agree(len(e.paces), "EvictionPolicy", "EvictionPolicies") + " " + sentence.Enumerate(e.paces)
	}
	switch kept := e.held - e.release.Leave; {
	case e.held == 0:
		return "no pod leaves because of this: it held none."
	case e.release.Leave == 0:
		leave = "no pod leaves: EvictionPolicies still hold " + sentence.Counted(kept, "pod")
	case kept > 0:
		leave += fmt.Sprintf(", and EvictionPolicies still hold %d", kept)
	}
	return leave + "." + e.release.Deadlines()
}

// doubtOf warns that evictions may continue despite a pause. It is empty if only Taintkeeper evicts.
func doubtOf(cluster *state.Cluster, at time.Time) string {
	cluster.Signs.At = at
	eviction := check.Make(cluster, nil, "", at).Controllers[0]
	switch eviction.Who {
	case cliv1alpha1.WhoBuiltIn, cliv1alpha1.WhoBoth:
		return "Warning: the built-in controller evicts too, and only ValidatingAdmissionPolicy taintkeeper-held of " +
			"config/coexistence.yaml, if it is installed, keeps it from these pods: " + eviction.Message
	case cliv1alpha1.WhoUnknown:
		return "Note: " + eviction.Message + " Only Taintkeeper obeys EvictionPolicies."
	}
	return ""
}
