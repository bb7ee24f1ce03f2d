// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// newResume returns the command resume.
func newResume(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return pauseNewOptions(env, config).resumeCommand()
}

func (o *pauseOptions) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [NAME...]",
		Short: "End a pause, or close an open breaker: let taints evict pods again",
		Long: `Let taints evict pods again. For an EvictionPolicy that pause created, resume deletes it. For any other that is
paused, it removes spec.paused. For one whose breaker is open, it sets spec.breaker.resumedAt, which releases the pods
that are due. Without a name, it ends the only pause, or lists what can be resumed. With --all, it does all of this.

Due pods leave at once, unless another policy holds or slows them. Deadlines count from now, so the Eviction API is
asked first about pods of a policy with the action Evict. The command says how many pods leave, and how many of them are
deleted without asking, and when. If that is too much, first create a policy with a pace.`,
		Example: `  # End the only pause
  kubectl taintkeeper resume

  # How many pods would leave?
  kubectl taintkeeper resume pause-2 --dry-run=client

  # End all pauses and close all breakers
  kubectl taintkeeper resume --all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.dryRun.Validate(); err != nil {
				return err
			}
			if namespace := *o.config.Namespace; namespace != "" {
				return command.Usagef("--namespace=%s: resume identifies a pause by its name: remove --namespace", namespace)
			}
			if o.all && len(args) > 0 {
				return command.Usagef("--all resumes everything: remove --all, or the names")
			}
			return o.resume(cmd.Context(), args)
		},
	}
	o.dryRun.AddFlag(cmd)
	cmd.Flags().BoolVar(&o.all, "all", false, "End all pauses and close all open breakers.")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// ending is what resume makes of a policy.
type ending struct {
	object  *v1alpha1.EvictionPolicy
	becomes *v1alpha1.EvictionPolicy // nil if it is deleted
	why     string                   // it holds pods
}

// endingOf returns what resume makes of a policy, and false if the policy is neither paused nor has an open breaker.
// A breaker releases what was due before an instant in whole seconds, so that is the next one.
func endingOf(object *v1alpha1.EvictionPolicy, now time.Time) (ending, bool) {
	paused := ""
	if object.Spec.Paused != nil {
		paused = *object.Spec.Paused
	}
	if policies.MadeByPause(object) {
		return ending{object, nil, paused}, true
	}
	changed := object.DeepCopy()
	switch {
	case object.Spec.Paused != nil:
		changed.Spec.Paused = nil
		return ending{object, changed, paused}, true
	case object.Spec.Breaker != nil && meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionTripped):
		changed.Spec.Breaker.ResumedAt = new(metav1.NewTime(now.UTC().Truncate(time.Second).Add(time.Second)))
		return ending{object, changed, "its breaker is open"}, true
	}
	return ending{}, false
}

// from returns when the ending takes effect if it is made now.
func (e ending) from(now time.Time) time.Time {
	if e.becomes != nil && e.becomes.Spec.Breaker != nil {
		if at := e.becomes.Spec.Breaker.ResumedAt; at != nil && at.After(now) {
			return at.Time
		}
	}
	return now
}

// resume ends the named pauses, the only one, or all that there is to resume.
func (o *pauseOptions) resume(ctx context.Context, names []string) error {
	reader, err := o.connect(o.env, o.config)
	if err != nil {
		return err
	}
	all, err := reader.ListPolicies(ctx)
	if err != nil {
		return pauseExplain(ctx, reader, "list", err)
	}
	chosen, err := o.choose(all, names, reader.Clock.Latest())
	if err != nil {
		return err
	}
	known, unread := read(ctx, reader, source.Wants{}) // before the change, because then pods leave
	var failed []error
	for _, e := range chosen {
		done, err := o.end(ctx, reader, e)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		o.output.Line("%s%s %s", shown, e.object.Name, o.dryRun.Done(done))
		if unread != nil {
			o.uncertain(unread)
			continue
		}
		o.tell("%s", known.effect(e, reader.Clock.Latest()).ofResume())
		known.Policies = known.policies(e.object.Name, e.becomes)
	}
	return errors.Join(failed...)
}

// choose returns the named policies, the only pause, or everything that there is to resume.
func (o *pauseOptions) choose(all []*v1alpha1.EvictionPolicy, names []string, now time.Time) ([]ending, error) {
	var endings []ending
	pauses := 0
	for _, object := range all {
		if e, ok := endingOf(object, now); ok {
			endings = append(endings, e)
			if policies.MadeByPause(object) {
				pauses++
			}
		}
	}
	switch {
	case len(names) > 0:
		return named(all, endings, names)
	case len(endings) == 0:
		return nil, errors.New("nothing to resume: no EvictionPolicy is paused, and no breaker is open; 'kubectl get evictionpolicies' shows all policies")
	case o.all, len(endings) == 1 && pauses == 1:
		return endings, nil
	}
	return nil, command.Usagef("name what to resume, or use --all: %s", o.list(endings))
}

// named returns what there is to resume of the named policies.
func named(all []*v1alpha1.EvictionPolicy, endings []ending, names []string) (chosen []ending, err error) {
	var unknown []error
	for _, name := range names {
		name = name[strings.LastIndex(name, "/")+1:] // in the form that pause prints
		is := func(e ending) bool { return e.object.Name == name }
		i := slices.IndexFunc(endings, is)
		exists := func(object *v1alpha1.EvictionPolicy) bool { return object.Name == name }
		switch {
		case !slices.ContainsFunc(all, exists):
			unknown = append(unknown, fmt.Errorf("there is no EvictionPolicy %q", name))
		case i < 0:
			unknown = append(unknown, fmt.Errorf("EvictionPolicy %s is not paused and its breaker is not open, so there is nothing to resume: "+
				"to let its pods leave, change its action or its selectors", name))
		case !slices.ContainsFunc(chosen, is):
			chosen = append(chosen, endings[i])
		}
	}
	return chosen, errors.Join(unknown...)
}

// list names what can be resumed, with why it holds pods and since when it exists.
func (o *pauseOptions) list(endings []ending) string {
	var all []string
	for _, e := range endings {
		why := e.why
		if why != "" {
			why += ", "
		}
		all = append(all, fmt.Sprintf("%s (%s%s)", e.object.Name, why, output.Age(e.object.CreationTimestamp.Time, o.env.Clock.Now())))
	}
	return strings.Join(all, ", ")
}

// end deletes or changes the policy that was read, but not a new one with the same name. It returns what was done.
func (o *pauseOptions) end(ctx context.Context, reader *source.Reader, e ending) (done string, err error) {
	verb := "patch"
	done = "resumed"
	if e.becomes == nil {
		verb, done = "delete", "deleted"
	}
	if o.dryRun == dryRunClient {
		return done, nil
	}
	of := reader.Dynamic.Resource(source.EvictionPolicies)
	if e.becomes != nil {
		options := metav1.PatchOptions{FieldManager: manager, DryRun: o.dryRun.Option()}
		_, err = of.Patch(ctx, e.object.Name, types.MergePatchType, e.patch(), options)
	} else {
		options := metav1.DeleteOptions{DryRun: o.dryRun.Option()}
		if e.object.UID != "" {
			options.Preconditions = metav1.NewUIDPreconditions(string(e.object.UID))
		}
		err = of.Delete(ctx, e.object.Name, options)
		if apierrors.IsNotFound(err) { // someone else has already ended it
			err = nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("%s%s: %w", shown, e.object.Name, pauseExplain(ctx, reader, verb, err))
	}
	return done, nil
}

// patch returns the change as a merge patch. The UID is a precondition.
func (e ending) patch() []byte {
	spec := map[string]any{"paused": nil}
	if e.object.Spec.Paused == nil {
		spec = map[string]any{"breaker": map[string]any{"resumedAt": e.becomes.Spec.Breaker.ResumedAt}}
	}
	change := map[string]any{"spec": spec}
	if e.object.UID != "" {
		change["metadata"] = map[string]any{"uid": e.object.UID}
	}
	patch, _ := json.Marshal(change) // maps of strings and a time
	return patch
}
