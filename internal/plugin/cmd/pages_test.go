// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// inSentence is a command line in a sentence of a page. make docs-run runs those in blocks.
var inSentence = regexp.MustCompile("`kubectl taintkeeper ([^`]+)`")

func TestEveryCommandInASentenceOfAPageExistsAndHasItsFlags(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "../../../README.md", "../../../charts/taintkeeper/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range inSentence.FindAllStringSubmatch(string(text), -1) {
			root := cmd.New(cmd.Env{})
			command, args, err := root.Find(strings.Fields(line[1]))
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err != nil || command == root {
				t.Errorf("%s: %s: %v", page, line[0], err)
			}
		}
	}
}
