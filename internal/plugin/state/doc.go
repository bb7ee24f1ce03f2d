// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state is a cluster as commands see it: its nodes, pods, policies and budgets, and what shows who controls
// them. It is pure: the API server and files fill it, and it keeps of each object only what commands need.
package state
