// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog reads what an API server notes in its audit log, and says what it is to note: who changed what,
// when, and how it was answered. It is the one witness of calls in all tests on a real API server.
package auditlog
