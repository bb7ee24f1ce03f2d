// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog reads an API server's audit log, and defines what the API server logs: who changed what, when, and
// what the answer was. It is the only record of calls in all tests on a real API server.
package auditlog
