// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// block is a code block of a page that is indented, or fenced as sh, bash or console.
type block struct {
	page string
	line int
	// section is the heading of level 2 that it is under.
	section  string
	commands []string
	// output is what the page shows after it: the lines without a prompt if its commands have one, or else the next block
	// of the section that is fenced as text or as nothing.
	output []string
	skip   *skipped
}

// skipped says which commands of a block are not run: all after a comment <!-- not run: why -->, and those that begin
// so after <!-- not run (git clone): why -->.
type skipped struct{ begin, why string }

var comment = regexp.MustCompile(`(?s)^\s*<!-- not run(?: \(([^)]+)\))?: (.+?) -->\s*$`)

// readPage returns the blocks of commands of a page.
func readPage(path string) ([]block, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parsePage(path, source)
}

func parsePage(path string, source []byte) (blocks []block, err error) {
	section := ""
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
	return blocks, ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Type() != ast.TypeBlock || n.Lines().Len() == 0 {
			return ast.WalkContinue, nil
		}
		line := 1 + bytes.Count(source[:n.Lines().At(0).Start], []byte("\n"))
		if heading, ok := n.(*ast.Heading); ok && heading.Level == 2 {
			section = linesOf(n, source)
		}
		if skipOf(n, source) != nil && !ofCommands(languageOf(n.NextSibling(), source)) {
			return ast.WalkStop, fmt.Errorf("%s:%d: no block of commands follows", path, line)
		}
		switch language := languageOf(n, source); {
		case ofCommands(language):
			b := block{page: path, line: line, section: section, skip: skipOf(n.PreviousSibling(), source)}
			b.commands, b.output = split(linesOf(n, source))
			blocks = append(blocks, b)
		case language == "text":
			showOutput(blocks, section, linesOf(n, source))
		}
		return ast.WalkContinue, nil
	})
}

// ofCommands reports whether blocks in a language are commands.
func ofCommands(language string) bool {
	return slices.Contains([]string{"sh", "bash", "console"}, language)
}

// showOutput adds what the page shows to the last block, if that is of the same section and has no output yet.
func showOutput(blocks []block, section, output string) {
	if last := len(blocks) - 1; last >= 0 && blocks[last].section == section && blocks[last].output == nil {
		blocks[last].output = strings.Split(output, "\n")
	}
}

// languageOf returns the language of a block of code, and nothing for others.
func languageOf(n ast.Node, source []byte) string {
	switch n := n.(type) {
	case *ast.FencedCodeBlock:
		return cmp.Or(string(n.Language(source)), "text")
	case *ast.CodeBlock:
		return "sh"
	}
	return ""
}

func skipOf(n ast.Node, source []byte) *skipped {
	html, ok := n.(*ast.HTMLBlock)
	if !ok {
		return nil
	}
	code := linesOf(html, source)
	if html.HasClosure() {
		code += "\n" + string(html.ClosureLine.Value(source))
	}
	found := comment.FindStringSubmatch(code)
	if found == nil {
		return nil
	}
	return &skipped{found[1], strings.Join(strings.Fields(found[2]), " ")}
}

// says reports whether a command is not run.
func (s *skipped) says(command string) bool { return s != nil && strings.HasPrefix(command, s.begin) }

func linesOf(n ast.Node, source []byte) string {
	return strings.TrimRight(string(n.Lines().Value(source)), "\n")
}

const prompt = "$ "

// split separates commands from what they print, and joins the lines of a command, which end in a backslash or within
// quotes.
func split(code string) (commands, output []string) {
	prompted, open := strings.HasPrefix(code, prompt), ""
	for line := range strings.SplitSeq(code, "\n") {
		if prompted && open == "" && !strings.HasPrefix(line, prompt) {
			output = append(output, line)
			continue
		}
		command := open + strings.TrimPrefix(line, prompt)
		switch open = ""; {
		case strings.HasSuffix(command, "\\") || strings.Count(command, "'")%2 == 1:
			open = command + "\n"
		case strings.TrimSpace(command) != "":
			commands = append(commands, command)
		}
	}
	if open != "" { // bash says what is missing
		commands = append(commands, strings.TrimSuffix(open, "\n"))
	}
	return commands, output
}

// missing returns the first line of a page's output that a command did not print, or nothing. Counts, times and ages
// may differ: a line of the page must begin as one that was printed, up to dots or a word with a digit. Headings of
// columns must be the same. A line of dots stands for any lines.
func missing(shown []string, printed string) string {
	lines := strings.Split(printed, "\n")
	for _, want := range shown {
		words := stable(want)
		if len(words) == 0 || words[0] == "..." {
			continue
		}
		for {
			if len(lines) == 0 {
				return want
			}
			got := strings.Fields(lines[0])
			lines = lines[1:]
			if len(got) >= len(words) && strings.Join(got[:len(words)], " ") == strings.Join(words, " ") {
				break
			}
		}
	}
	return ""
}

func stable(line string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		if i > 0 && (word == "..." || strings.ContainsAny(word, "0123456789")) {
			return words[:i]
		}
	}
	return words
}
