// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	declaredTest = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	// namedTest matches a test as a page names it, perhaps after its folder, the end of that folder's path, or its
	// file.
	namedTest = regexp.MustCompile("(?:`([a-z_./]+)` )?`(Test\\w+)`")
)

func TestEachTestThatAPageNamesExists(t *testing.T) {
	repository := os.DirFS(root)
	declared := declaredTests(t, repository)
	pages, err := fs.Glob(repository, "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "test/README.md") {
		text, err := fs.ReadFile(repository, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range namedTest.FindAllStringSubmatch(string(text), -1) {
			folder, test := named[1], named[2]
			there := func(file string) bool { return folder == "" || strings.Contains("/"+file+"/", "/"+folder+"/") }
			if !slices.ContainsFunc(declared[test], there) {
				t.Errorf("%s names a test that does not exist: %s %s", page, folder, test)
			}
		}
	}
}

// declaredTests returns the files of each test, by its name.
func declaredTests(t *testing.T, repository fs.FS) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := fs.WalkDir(repository, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		code, err := fs.ReadFile(repository, name)
		for _, match := range declaredTest.FindAllSubmatch(code, -1) {
			files[string(match[1])] = append(files[string(match[1])], name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
