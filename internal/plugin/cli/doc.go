// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl taintkeeper: it lists the commands, and turns their errors into exit codes.
//
// Each command has a package below this one, and imports no other command. It is an options struct with complete,
// validate and run, like kubectl's own commands. Streams and clock are injected. Imports point down:
//
//	cli                    the list of commands, and exit codes
//	plancmd, taintcmd, ..  a command: its flags, and what it prints
//	completion             what a shell completes
//	summary, selection     a summary of a plan; how a command line names nodes and taints
//	source                 where a cluster's state comes from: the API server, or files
//	output                 tables, JSON and YAML, and progress
//	command                the environment of a command, and errors of its command line
//	plan, check, page ...  what decides, and does not know the command line
//	state                  the cluster that it decides about
package cli
