// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// logMark is a position in a contestant's log.
type logMark struct {
	path string
	size int64
}

func markLog(path string) (logMark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return logMark{}, fmt.Errorf("find the end of a log: %w", err)
	}
	return logMark{path: path, size: info.Size()}, nil
}

// lines returns how many lines that were written since contain a text.
func (m logMark) lines(text string) (int, error) {
	file, err := os.Open(m.path)
	if err != nil {
		return 0, fmt.Errorf("open a log: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, m.size, 1<<62))
	if err != nil {
		return 0, fmt.Errorf("read a log: %w", err)
	}
	n := 0
	for line := range bytes.Lines(content) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n, nil
}
