// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coexist keeps the built-in taint-eviction-controller from evicting for as long as this process can.
//
// A ValidatingAdmissionPolicy (config/coexistence.yaml) refuses the condition with which the built-in begins an
// eviction, as long as an annotation of a ServiceAccount, the eviction clock, was renewed within the last 30 seconds.
// The leader renews it every 5 seconds. If it dies the clock stops, and the built-in evicts again; nothing of ours
// must run for that. What the built-in has left of evictions that it began meanwhile stays refused for some minutes, as
// more annotations say: see hold.
package coexist
