// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// written is where a command prints. It keeps the first error, so that a line that is lost does not pass for printed: a
// full disk has to end in an error, whoever printed.
type written struct {
	io.Writer

	err error
}

// Write implements io.Writer.
func (w *written) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// printable makes characters visible that a terminal would obey: names and messages are written by others.
func printable(text string) string { return sentence.Printable(text) }
