// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// narrator writes the output of upstream's binary to its log, and prints each spec that ends in it for the person who
// waits. Only the report is judged. (Upstream's own --progress-report-url posts nothing until the last spec has ended.)
type narrator struct {
	log  io.Writer
	tell func(line string)

	rest  []byte // of a line whose end is still to come
	spec  string // that runs
	ended int
}

// ending is the line after a spec: how it ended, unless it passed, and how long it took.
var ending = regexp.MustCompile(`^• (?:\[([A-Z!]+)\] )?\[([0-9.]+) seconds\]`)

// Write implements io.Writer.
func (n *narrator) Write(output []byte) (int, error) {
	written, err := n.log.Write(output)
	n.rest = append(n.rest, output[:written]...)
	for {
		line, rest, found := bytes.Cut(n.rest, []byte("\n"))
		if !found {
			return written, err
		}
		n.read(string(line))
		n.rest = rest
	}
}

func (n *narrator) read(line string) {
	for _, s := range specs {
		if strings.HasPrefix(line, s.name()) {
			n.spec = untagged(s.name())
			return
		}
	}
	if match := ending.FindStringSubmatch(line); match != nil {
		n.ended++
		n.tell(fmt.Sprintf("%d of %d %s after %s s: %s", n.ended, len(specs), how(match[1]), match[2], n.spec))
	}
}

func how(heading string) string {
	if heading == "" {
		return statusPassed
	}
	return strings.ToLower(strings.TrimSuffix(heading, "!"))
}
