// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"github.com/go-logr/logr"
)

// lineCounter is a log that keeps nothing but the number of its lines. It is not safe for concurrent use.
type lineCounter struct {
	lines int
}

func (c *lineCounter) logger() logr.Logger { return logr.New(c) }

func (c *lineCounter) Init(logr.RuntimeInfo)          {}
func (c *lineCounter) Enabled(int) bool               { return true }
func (c *lineCounter) Info(int, string, ...any)       { c.lines++ }
func (c *lineCounter) Error(error, string, ...any)    { c.lines++ }
func (c *lineCounter) WithValues(...any) logr.LogSink { return c }
func (c *lineCounter) WithName(string) logr.LogSink   { return c }
