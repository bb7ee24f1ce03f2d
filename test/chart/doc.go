// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart proves charts/taintkeeper with Helm's own library: what it renders, what it refuses, that a real API
// server takes every combination of values, that a release is installed, changed, rolled back and uninstalled without a
// trace, and what its admission policies make of pods, compared with upstream's own plugins. It is a Go module of its
// own, as Helm brings much along.
package chart
