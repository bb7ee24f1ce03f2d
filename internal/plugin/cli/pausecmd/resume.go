// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pausecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// NewResume returns the command resume.
func NewResume(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return newOptions(env, config).resumeCommand()
}

func (o *options) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [NAME...]",
		Short: "End a pause: let taints evict pods again",
		Long: `End a pause by deleting the EvictionPolicy that pause created. If there are several, name those to delete; without a
name, resume lists them. It does not delete other policies. Use kubectl delete evictionpolicy for them.

Due pods leave at once, unless another policy holds or slows them. If that is too much, first create one with a pace.`,
		Example: `  # End the only pause
  kubectl taintkeeper resume

  # How many pods would leave?
  kubectl taintkeeper resume pause-2 --dry-run=client`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.dryRun.Validate(); err != nil {
				return err
			}
			if namespace := *o.config.Namespace; namespace != "" {
				return command.Usagef("--namespace=%s: resume identifies a pause by its name: remove --namespace", namespace)
			}
			return o.resume(cmd.Context(), args)
		},
	}
	o.dryRun.AddFlag(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// resume deletes the named policies, or the only one.
func (o *options) resume(ctx context.Context, names []string) error {
	reader, clock, err := o.connect(o.env, o.config)
	if err != nil {
		return err
	}
	all, err := reader.ListPolicies(ctx)
	if err != nil {
		return explain(ctx, reader, "list", err)
	}
	chosen, err := o.choose(all, names)
	if err != nil {
		return err
	}
	known, unread := read(ctx, reader, source.Wants{}) // before deleting them, because then pods leave
	var failed []error
	for _, object := range chosen {
		if err := o.remove(ctx, reader, object); err != nil {
			failed = append(failed, err)
			continue
		}
		o.output.Line("%s%s %s", shown, object.Name, o.dryRun.Done("deleted"))
		if unread != nil {
			o.uncertain(unread)
			continue
		}
		o.tell("%s", known.effect(object, clock.Latest()).ofResume())
		known.Policies = known.without(object)
	}
	return errors.Join(failed...)
}

// choose returns the named policies, or the only one that pause created.
func (o *options) choose(all []*v1alpha1.EvictionPolicy, names []string) ([]*v1alpha1.EvictionPolicy, error) {
	made := slices.DeleteFunc(slices.Clone(all), func(object *v1alpha1.EvictionPolicy) bool {
		return !policies.MadeByPause(object)
	})
	if len(names) == 0 {
		switch len(made) {
		case 0:
			return nil, errors.New("nothing to resume: pause has created no EvictionPolicy; 'kubectl get evictionpolicies' shows all others")
		case 1:
			return made, nil
		}
		return nil, command.Usagef("there are %d pauses, so name those that should end: %s", len(made), o.list(made))
	}
	var chosen []*v1alpha1.EvictionPolicy
	var unknown []error
	for _, name := range names {
		name = name[strings.LastIndex(name, "/")+1:] // in the form that pause prints
		i := slices.IndexFunc(all, func(object *v1alpha1.EvictionPolicy) bool { return object.Name == name })
		switch {
		case i < 0:
			near := command.DidYouMean(name, namesOf(made))
			unknown = append(unknown, fmt.Errorf("there is no EvictionPolicy %q%s", name, near))
		case !slices.Contains(made, all[i]):
			unknown = append(unknown, fmt.Errorf("EvictionPolicy %s was not created by pause: to delete it, use 'kubectl delete evictionpolicy %s'", name, name))
		case !slices.Contains(chosen, all[i]):
			chosen = append(chosen, all[i])
		}
	}
	return chosen, errors.Join(unknown...)
}

// list names pauses with their reasons and ages.
func (o *options) list(made []*v1alpha1.EvictionPolicy) string {
	var all []string
	for _, object := range made {
		reason := ""
		if object.Spec.Paused != nil {
			reason = *object.Spec.Paused + ", "
		}
		all = append(all, fmt.Sprintf("%s (%s%s)", object.Name, reason, output.Age(object.CreationTimestamp.Time, o.env.Clock.Now())))
	}
	return strings.Join(all, ", ")
}

func namesOf(objects []*v1alpha1.EvictionPolicy) []string {
	var names []string
	for _, object := range objects {
		names = append(names, object.Name)
	}
	return names
}

// remove deletes the policy that was read, but not a new one with the same name.
func (o *options) remove(ctx context.Context, reader *source.Reader, object *v1alpha1.EvictionPolicy) error {
	if o.dryRun == command.DryRunClient {
		return nil
	}
	options := metav1.DeleteOptions{DryRun: o.dryRun.Option()}
	if object.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(object.UID))
	}
	err := reader.Dynamic.Resource(source.EvictionPolicies).Delete(ctx, object.Name, options)
	if err != nil && !apierrors.IsNotFound(err) { // NotFound means that someone else has already ended it
		return fmt.Errorf("%s%s: %w", shown, object.Name, explain(ctx, reader, "delete", err))
	}
	return nil
}
