// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli holds the commands of kubectl taintkeeper. Each is an options struct with complete, validate and run, as
// kubectl's own are; streams and clock come from outside.
//
//	source     where the objects come from: the API server, or files
//	output     -o, tables that fit the terminal, JSON and YAML of api/cli/v1alpha1
//	completion what a shell completes, from the cluster or from files
//	plan, ...  one file for each command, and one more for what it prints
package cli
