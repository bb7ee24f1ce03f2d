// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart proves on real API servers what charts/taintkeeper does there: that they take what it renders, that a
// release is installed, changed, rolled back and uninstalled without a trace, that the program has the rights it needs,
// and what the admission policies do to pods, compared with upstream's own plugins. What it renders and refuses is in
// the files of golden/, which replay.sh compares.
package chart
