// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether EvictionPolicies object when a pod must leave.
//
// Policies do not change when a pod is due. A pod leaves when it is due and no policy objects. For each NoExecute
// taint that makes the pod due, each policy that selects the pod, its node and the taint gives one of four answers:
//
//	Free   the pod may be deleted
//	Ask    the Eviction API decides
//	Wait   the pod stays until an instant
//	Hold   the pod stays
//
// For one taint the strictest answer of all policies counts (Free < Ask < Wait < Hold). Across taints the mildest
// counts: the first taint that lets the pod go decides, just as the earliest due instant does. Policies therefore
// cannot conflict, none takes precedence, and adding a policy never makes an answer milder, as long as breakers and
// places stay as they are.
//
// Within one policy the first line that applies gives the answer:
//
//  1. a dry run, or a namespace that is being deleted: Free. A finished pod with finished: Keep: Hold
//  2. paused, or the breaker is open and has not been resumed since the pod became due: Hold
//  3. until the breaker has counted the pod for settle, or while it may turn out to be open: Wait
//  4. until the deadline with the action Hold, or with Evict and a budget that cannot allow it: Hold;
//     with Evict and a pod that must be read first: Wait
//  5. the pace has no room: Wait until it has
//  6. until the deadline with the action Evict: Ask
//  7. Free
//
// Lines 4 and 6 do not apply to the action Evict if the pod is not ready, unless unready is Ask.
//
// Line 3 does not apply to pods that were resumed, nor to those that something else keeps. When a deadline or a budget
// no longer keeps a pod, its breaker begins to count it, so a wave of pods that were due long ago does not pass.
//
// For a breaker, lines 2 and 3, a pod is due when the process first saw that it is due, if that is later. A due instant
// follows from records that many clients may write, and a breaker must not rely on one that says "long ago".
//
// A deadline counts from due, or from the end of the last halt if that is later. A halt is a pause or an open breaker,
// of any policy, that keeps the pod because of the taint. A pod that was halted for longer than a deadline is therefore
// not deleted when the halt ends: the Eviction API is asked first.
//
// The deadline ends only the action. Paused, breaker and pace outrank it, because the passing of time must not end a
// pause or let a storm through.
//
// The package is pure. What it cannot know is an argument of the rule, and what has happened is in the [Engine].
//
//	policy.go      an EvictionPolicy, and what it selects and applies to
//	facts.go       what the rule needs to know of a pod
//	says.go        the rule
//	answer.go      what it says
//	engine.go      what all policies remember, and their answers together
//	breakers.go    of breakers: what they count (demand.go), and which are open (latch.go)
//	places.go      of paces (window.go) and budgets (allowance.go), and who is next in line (line.go)
//	sights.go      of pods: since when they have been due, and what halted them (halt.go)
package policy
