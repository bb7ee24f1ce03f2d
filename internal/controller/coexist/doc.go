// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coexist keeps the built-in taint-eviction-controller from evicting for as long as this process can.
//
// A ValidatingAdmissionPolicy (config/coexistence.yaml) refuses the condition with which the built-in begins an
// eviction, as long as an annotation of a ServiceAccount, the eviction clock, was renewed within the last 30 seconds.
// The leader renews it every 5 seconds. If it dies the clock stops, and the built-in evicts again; none of our
// processes needs to run for that. Evictions that the built-in began meanwhile stay refused for some minutes, as
// further annotations say: see hold.
package coexist
