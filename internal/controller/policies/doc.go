// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies follows the EvictionPolicies of a cluster, and decides whether due pods may leave.
//
// The rule is in package policy. This package passes it what it needs: the policies, the labels of pods, namespaces
// and nodes, and what happened before. All of that is looked up again for each answer, so an answer is never older than
// the caches. Anything that is not known yet makes an answer stricter: a pod leaves later, never sooner.
//
//	follower.go     the policies, and who is told when answers may change
//	engine.go       the policy.Engine, which answers, behind one lock and one wake-up
//	changes.go      which changes of pods and nodes change answers
//	selects.go      which policies select a pod, and how many pods a policy selects
//	kept.go         which labels of pods are kept
//	namespaces.go   the labels of namespaces
//	facts.go        what is read of due pods: which budgets select them, and since when they have not been ready
//	unready.go      since when nodes have not been ready
//	budgets.go      PodDisruptionBudgets, and the right to ask the Eviction API
//	status.go       what is written to a policy's status, from tally.go (its pods) and down.go (what ifDown does)
package policies
