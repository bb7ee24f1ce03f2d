// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

func (o *pauseOptions) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume [NAME...]",
		Short: "End a pause, or close an open breaker: let taints evict pods again",
		Long: `Let taints evict pods again. If pause created the EvictionPolicy, resume deletes it. From any other that is paused,
resume removes spec.paused. For one whose breaker is open, it sets spec.breaker.resumedAt, which releases the pods that
are due. Without a name, it ends the only pause, or lists what can be resumed. With --all, it does so for all policies.

Due pods leave at once, unless another policy holds them or slows them down. Deadlines count from now, so the Eviction
API is asked first about pods of a policy with the action Evict. The command says how many pods leave, and how many of
them are deleted without asking, and when. If that is too many, first create a policy with a pace.`,
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
	spec    map[string]any           // the change, as a merge patch
	at      time.Time                // when the change takes effect
}

// endingOf returns what resume makes of a policy, and false if the policy is neither paused nor has an open breaker.
// A breaker releases what was due before an instant in whole seconds, so that is the next one.
func endingOf(object *v1alpha1.EvictionPolicy, now time.Time) (ending, bool) {
	e := ending{object: object, becomes: object.DeepCopy(), at: now}
	if object.Spec.Paused != nil {
		e.why = *object.Spec.Paused
	}
	switch {
	case policies.MadeByPause(object):
		e.becomes = nil
	case object.Spec.Paused != nil:
		e.becomes.Spec.Paused, e.spec = nil, map[string]any{"paused": nil}
	case object.Spec.Breaker != nil && meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionTripped):
		e.at = now.UTC().Truncate(time.Second).Add(time.Second)
		e.becomes.Spec.Breaker.ResumedAt, e.why = new(metav1.NewTime(e.at)), "its breaker is open"
		e.spec = map[string]any{"breaker": map[string]any{"resumedAt": e.becomes.Spec.Breaker.ResumedAt}}
	default:
		return e, false
	}
	return e, true
}

// in returns the policies with this one as given, or without it.
func (e ending) in(all []*v1alpha1.EvictionPolicy, is *v1alpha1.EvictionPolicy) []*v1alpha1.EvictionPolicy {
	isThis := func(object *v1alpha1.EvictionPolicy) bool { return object.Name == e.object.Name }
	all = slices.DeleteFunc(slices.Clone(all), isThis)
	if is != nil {
		all = append(all, is)
	}
	return all
}

// resume ends the named pauses, the only one, or all that there is to resume.
func (o *pauseOptions) resume(ctx context.Context, names []string) (err error) {
	if o.reader, err = o.connect(o.env, o.config); err != nil {
		return err
	}
	all, err := o.reader.ListPolicies(ctx)
	if err != nil {
		return o.explain(ctx, "list", err)
	}
	chosen, err := o.choose(all, names)
	if err != nil {
		return err
	}
	known, unread := o.read(ctx, source.Wants{}) // before the change, because then pods leave
	var failed []error
	for _, e := range chosen {
		done, err := o.end(ctx, e)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		o.output.Line("%s%s %s", shownPolicy, e.object.Name, o.dryRun.Done(done))
		if unread != nil {
			o.tell("Cannot tell which pods this concerns: %v", unread)
			continue
		}
		then := effectOf(known, e, o.reader.Clock.Latest()).ofEnd()
		o.tell("%s", strings.ToUpper(then[:1])+then[1:])
		known.Policies = e.in(known.Policies, e.becomes)
	}
	return errors.Join(failed...)
}

// choose returns the named policies, the only pause, or everything that there is to resume.
func (o *pauseOptions) choose(all []*v1alpha1.EvictionPolicy, names []string) ([]ending, error) {
	var endings []ending
	var list []string
	pauses := 0
	for _, object := range all {
		e, ok := endingOf(object, o.reader.Clock.Latest())
		if !ok {
			continue
		}
		endings = append(endings, e)
		if e.becomes == nil {
			pauses++
		}
		why := strings.TrimPrefix(e.why+", ", ", ") + sentence.Age(object.CreationTimestamp.Time, o.env.Clock.Now())
		list = append(list, fmt.Sprintf("%s (%s)", object.Name, why))
	}
	switch {
	case len(names) > 0:
		return named(all, endings, names)
	case len(endings) == 0:
		return nil, errors.New("nothing to resume: no EvictionPolicy is paused, and no breaker is open; 'kubectl get evictionpolicies' shows all policies")
	case o.all, len(endings) == 1 && pauses == 1:
		return endings, nil
	}
	return nil, command.Usagef("name what to resume, or use --all: %s", strings.Join(list, ", "))
}

// named returns what there is to resume of the named policies.
func named(all []*v1alpha1.EvictionPolicy, endings []ending, names []string) (chosen []ending, err error) {
	var unknown []error
	for _, name := range names {
		name = strings.TrimPrefix(name, shownPolicy)
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

// end deletes or changes the policy that was read, but not a new one with the same name. It returns what was done.
func (o *pauseOptions) end(ctx context.Context, e ending) (done string, err error) {
	verb, done := "patch", "resumed"
	if e.becomes == nil {
		verb, done = "delete", "deleted"
	}
	switch {
	case o.dryRun == dryRunClient:
	case e.becomes == nil:
		options := metav1.DeleteOptions{DryRun: o.dryRun.Option()}
		if e.object.UID != "" {
			options.Preconditions = metav1.NewUIDPreconditions(string(e.object.UID))
		}
		if err = o.policies().Delete(ctx, e.object.Name, options); apierrors.IsNotFound(err) {
			err = nil // someone else has already ended it
		}
	default:
		_, err = o.patch(ctx, e.object, e.spec)
	}
	if err != nil {
		return "", fmt.Errorf("%s%s: %w", shownPolicy, e.object.Name, o.explain(ctx, verb, err))
	}
	return done, nil
}
