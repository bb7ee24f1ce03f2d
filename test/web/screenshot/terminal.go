// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// typed are the commands of the README, as somebody types them, and how many lines of what each prints are shown.
var typed = []struct {
	line  string
	args  []string
	lines int
}{
	{"go install github.com/taintkeeper/taintkeeper/cmd/kubectl-taintkeeper@latest", nil, 0},
	{"kubectl taintkeeper check", []string{"check"}, 14},
	{"kubectl taintkeeper plan worker-a1 maintenance=planned:NoExecute", []string{"plan", "worker-a1", "maintenance=planned:NoExecute"}, 16},
}

const (
	columns = 108
	// In pixels. A character is six tenths as wide as it is high.
	letter, lineHeight, margin = 13, 18, 16
	// A command appears letter by letter, and the lines that it prints at once. Then there is time to read.
	perLetter = 40 * time.Millisecond
	toRead    = 3500 * time.Millisecond
	atTheEnd  = 9 * time.Second
)

// shown is a line of the terminal, and when it appears.
type shown struct {
	text  string
	class string
	at    time.Duration
}

// drawTerminal writes a moving picture of a terminal in which the commands of the README are typed, light and dark.
func drawTerminal(cluster, out string) error {
	lines, took, err := session(cluster)
	if err != nil {
		return err
	}
	for scheme, colors := range map[string]palette{
		"light": {"#ffffff", "#d0d7de", "#1f2328", "#0969da", "#59636e"},
		"dark":  {"#0d1117", "#30363d", "#e6edf3", "#58a6ff", "#8b949e"},
	} {
		path := filepath.Join(out, "terminal-"+scheme+".svg")
		if err := os.WriteFile(path, []byte(svg(lines, took, colors)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// session is what the terminal shows, and how long that takes.
func session(cluster string) (lines []shown, took time.Duration, err error) {
	for _, command := range typed {
		lines = append(lines, shown{"$ " + command.line, "command", took})
		took += time.Duration(len(command.line)) * perLetter
		if command.args == nil {
			took += time.Second
			lines = append(lines, shown{})
			continue
		}
		printed, err := web.Print(append(command.args, "-f", cluster)...)
		if err != nil {
			return nil, 0, err
		}
		var all []string
		for line := range strings.SplitSeq(strings.TrimRight(string(printed), "\n"), "\n") {
			all = append(all, strings.Split(show.Wrap(line, columns), "\n")...)
		}
		for _, line := range all[:min(len(all), command.lines)] {
			lines = append(lines, shown{line, "", took})
		}
		if len(all) > command.lines {
			lines = append(lines, shown{"...", "more", took})
		}
		lines = append(lines, shown{})
		took += toRead
	}
	return lines[:len(lines)-1], took + atTheEnd, nil
}

type palette struct{ ground, border, text, command, more string }

// svg draws lines that appear one after the other, again and again. Who wants no movement sees them all.
func svg(lines []shown, took time.Duration, c palette) string {
	width, height := columns*letter*6/10+2*margin, len(lines)*lineHeight+2*margin
	var styles, texts strings.Builder
	for i, line := range lines {
		if line.text == "" {
			continue
		}
		begins := 100 * line.at.Seconds() / took.Seconds()
		fmt.Fprintf(&styles, "@keyframes l%d{0%%,%.2f%%{opacity:0}%.2f%%,100%%{opacity:1}}#l%d{animation:l%d %.1fs linear infinite}\n",
			i, begins, begins+0.01, i, i, took.Seconds())
		fmt.Fprintf(&texts, "<text id=\"l%d\" class=\"%s\" x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n",
			i, line.class, margin, margin+(i+1)*lineHeight-5, html.EscapeString(line.text))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>A terminal: go install, kubectl taintkeeper check, and kubectl taintkeeper plan</title>
<style>
text{font:%[3]dpx ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;fill:%[4]s}
.command{fill:%[5]s;font-weight:600}.more{fill:%[6]s}
%[7]s@media (prefers-reduced-motion:reduce){text{animation:none!important}}
</style>
<rect x="0.5" y="0.5" width="%[8]d" height="%[9]d" rx="8" fill="%[10]s" stroke="%[11]s"/>
%[12]s</svg>
`, width, height, letter, c.text, c.command, c.more, styles.String(), width-1, height-1, c.ground, c.border, texts.String())
}
