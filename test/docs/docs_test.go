// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# A page

## First

<!-- not run (make): it is
built -->

    make build # comment
    kubectl get nodes \
      -o wide

1. In a list:

       kubectl get pods

   ~~~text
   NAME   READY
   ~~~

## Second

~~~
is about no command
~~~

~~~yaml
kind: Pod
~~~

~~~console
$ kubectl get evp
NAME   AGE
a      3d
~~~
`

func TestThePageSaysWhatRunsAndWhatItPrints(t *testing.T) {
	blocks, err := parsePage("page.md", []byte(strings.ReplaceAll(page, "~~~", "```")))
	if err != nil {
		t.Fatal(err)
	}
	want := []block{
		{
			page: "page.md", line: 8, section: "First", commands: []string{"make build # comment", "kubectl get nodes \\\n  -o wide"},
			skip: &skipped{"make", "it is built"},
		},
		{page: "page.md", line: 14, section: "First", commands: []string{"kubectl get pods"}, output: []string{"NAME   READY"}},
		{page: "page.md", line: 31, section: "Second", commands: []string{"kubectl get evp"}, output: []string{"NAME   AGE", "a      3d"}},
	}
	if diff := cmp.Diff(want, blocks, cmp.AllowUnexported(block{}, skipped{})); diff != "" {
		t.Error(diff)
	}
}

func TestACommentThatIsAboutNoBlockIsAnError(t *testing.T) {
	if _, err := parsePage("page.md", []byte("<!-- not run: why -->\n\ntext\n")); err == nil {
		t.Error("no error")
	}
}

func TestCountsAndAgesMayDifferFromThePage(t *testing.T) {
	const printed = "NAME  HELD  AGE\nbrake  0  7s\nslow  1  8s\n"
	for shown, want := range map[string]string{
		"NAME  HELD  AGE\nslow  12  3d":     "",
		"...\nbrake 3":                      "",
		"slow  1  8s\nbrake  0  7s":         "brake  0  7s",
		"NAME  AGE":                         "NAME  AGE",
		"NAME  HELD  AGE\n\nfast  12  3d\n": "fast  12  3d",
	} {
		if got := missing(strings.Split(shown, "\n"), printed); got != want {
			t.Errorf("%q lacks %q, want %q", shown, got, want)
		}
	}
}

func TestPlaceholdersAreNoVariables(t *testing.T) {
	s := story{words: map[string]string{"NODE": "n", "NAME": "x"}}
	const command = `kubectl taint NODE -l label/NAME="$NODE" ${NODE} key:NoExecute -o custom-columns=NAME:.metadata.name`
	const want = `kubectl taint n -l label/x="$NODE" ${NODE} key:NoExecute -o custom-columns=NAME:.metadata.name`
	if got := s.bind(command); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

var forCluster = regexp.MustCompile(`^(kubectl|helm) `)

func TestEveryCommandForAClusterIsInAStory(t *testing.T) {
	t.Chdir("../..")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "README.md", chart[0]) {
		blocks, err := readPage(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			asks := slices.ContainsFunc(b.commands, forCluster.MatchString)
			if asks && !slices.ContainsFunc(stories, func(s story) bool { return s.has(b) }) {
				t.Errorf("%s:%d is in no story of pages.go", page, b.line)
			}
		}
	}
}
