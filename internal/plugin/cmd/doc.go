// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cmd is kubectl taintkeeper: a file for each command, and what turns their errors into exit codes.
//
// A command is an options struct with complete, validate and run, like kubectl's own commands. Streams and clock are
// injected. What decides lives in the packages below, and does not know the command line. Imports point down:
//
//	cmd                    the commands: their flags, and what they print
//	summary                a summary of a plan
//	source                 where a cluster's state comes from: the API server, or files
//	output                 tables, JSON and YAML, and progress
//	command                the environment of a command, and errors of its command line
//	plan, check, page ...  what decides, and does not know the command line
//	state                  the cluster that it decides about
package cmd
