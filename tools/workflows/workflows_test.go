// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workflows tests what builds and releases Taintkeeper, and what no compiler looks at: GitHub's workflows and
// issue forms, the configuration of the release, and the notes that it takes from the changelog.
package workflows

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rhysd/actionlint"
)

const root = "../.."

func workflowFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows found (%v)", err)
	}
	return files
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func parsed(t *testing.T, path string) *actionlint.Workflow {
	t.Helper()
	workflow, errs := actionlint.Parse(read(t, path))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", path, errs[0])
	}
	return workflow
}

func TestActionlintFindsNothingInTheWorkflows(t *testing.T) {
	// Whether shellcheck and pyflakes are installed here makes no difference: they are not asked.
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: "", Pyflakes: ""})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := linter.LintFiles(workflowFiles(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Error(finding)
	}
}

func TestEveryActionIsPinnedToACommitAndSaysItsVersion(t *testing.T) {
	uses := regexp.MustCompile(`uses: (.*)`)
	pinned := regexp.MustCompile(`^(\./\.github/workflows/\S+\.yml|[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	for _, file := range workflowFiles(t) {
		for _, match := range uses.FindAllStringSubmatch(string(read(t, file)), -1) {
			if !pinned.MatchString(match[1]) {
				t.Errorf("%s uses %s: pin it to a commit, with the version as a comment", file, match[1])
			}
		}
	}
}

func TestAWorkflowGivesNoRightToWriteToAllItsJobs(t *testing.T) {
	for _, file := range workflowFiles(t) {
		rights := parsed(t, file).Permissions
		if rights == nil || rights.All != nil {
			t.Errorf("%s: name the permissions of the workflow one by one; without them it has the repository's default", file)
			continue
		}
		for name, scope := range rights.Scopes {
			if name != "contents" || scope.Value.Value != "read" {
				t.Errorf("%s gives %s: %s to all jobs; give it to the one that needs it", file, name, scope.Value.Value)
			}
		}
	}
}

func TestOnlyTheReleaseMayWrite(t *testing.T) {
	want := map[string]map[string]bool{
		"release": {"contents": true, "packages": true, "id-token": true},
		"chart":   {"packages": true, "id-token": true},
	}
	for _, file := range workflowFiles(t) {
		allowed := map[string]map[string]bool{}
		if filepath.Base(file) == "release.yml" {
			allowed = want
		}
		for name, job := range parsed(t, file).Jobs {
			for _, right := range writes(job) {
				if !allowed[name][right] {
					t.Errorf("%s: job %s may write %s", file, name, right)
				}
			}
		}
	}
}

func writes(job *actionlint.Job) []string {
	if job.Permissions == nil {
		return nil
	}
	var rights []string
	for name, scope := range job.Permissions.Scopes {
		if scope.Value.Value == "write" {
			rights = append(rights, name)
		}
	}
	return rights
}

func TestEveryJobHasATimeLimit(t *testing.T) {
	for _, file := range workflowFiles(t) {
		for name, job := range parsed(t, file).Jobs {
			if job.WorkflowCall == nil && job.TimeoutMinutes == nil {
				t.Errorf("%s: job %s may hang for six hours; give it timeout-minutes", file, name)
			}
		}
	}
}

// With its credentials in the checkout, whatever a build runs could push.
func TestNoCheckoutKeepsItsCredentials(t *testing.T) {
	checkout := regexp.MustCompile(`uses: actions/checkout@`)
	kept := regexp.MustCompile(`persist-credentials: false`)
	for _, file := range workflowFiles(t) {
		content := read(t, file)
		if got, want := len(kept.FindAll(content, -1)), len(checkout.FindAll(content, -1)); got != want {
			t.Errorf("%s: %d of %d checkouts have persist-credentials: false", file, got, want)
		}
	}
}
