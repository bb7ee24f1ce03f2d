// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package workflows

import (
	"path/filepath"
	"slices"
	"testing"
)

// form is what GitHub asks of an issue form.
type form struct {
	Name        string  `yaml:"name"`
	Description string  `yaml:"description"`
	Body        []field `yaml:"body"`
}

type field struct {
	Type       string `yaml:"type"`
	ID         string `yaml:"id"`
	Attributes struct {
		Label string `yaml:"label"`
		Value string `yaml:"value"`
	} `yaml:"attributes"`
}

// problem says what GitHub would refuse about a field, or nothing.
func (f field) problem() string {
	switch {
	case f.Type == "markdown" && f.Attributes.Value == "":
		return "a markdown element without a value"
	case f.Type == "markdown":
		return ""
	case !slices.Contains([]string{"textarea", "input", "dropdown", "checkboxes"}, f.Type):
		return "there is no element " + f.Type
	case f.ID == "" || f.Attributes.Label == "":
		return "an element without an id or a label"
	}
	return ""
}

func TestIssueFormsAreWhatGitHubAccepts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/ISSUE_TEMPLATE/*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "config.yml" })
	if len(files) == 0 {
		t.Fatal("no issue forms found")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkForm(t, load[form](t, file[len(root):])) })
	}
}

func checkForm(t *testing.T, form form) {
	t.Helper()
	if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
		t.Error("a form needs a name, a description and a body")
	}
	seen := map[string]bool{}
	for _, field := range form.Body {
		if problem := field.problem(); problem != "" {
			t.Error(problem)
		}
		if field.ID != "" && seen[field.ID] {
			t.Errorf("two elements have the id %s", field.ID)
		}
		seen[field.ID] = true
	}
}
