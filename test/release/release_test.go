// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release tests what builds and releases Taintkeeper, as far as actionlint and goreleaser have nothing to say
// about it: rights and pins of GitHub's workflows, issue forms, and the notes of a release.
package release

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	await.Must(t, err)
	return string(text)
}

func load[T any](t *testing.T, name string) T {
	t.Helper()
	var into T
	await.Must(t, yaml.Unmarshal([]byte(read(t, name)), &into))
	return into
}

// each calls a function with every file in a folder of .github.
func each[T any](t *testing.T, folder string, with func(name string, file T)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", folder, "*.yml"))
	await.Must(t, err)
	if len(files) == 0 {
		t.Errorf("no files in %s", folder)
	}
	for _, file := range files {
		with(filepath.Base(file), load[T](t, strings.TrimPrefix(file, root)))
	}
}

type rights map[string]string

type workflow struct {
	Permissions rights
	Jobs        map[string]struct {
		Uses           string
		TimeoutMinutes int `json:"timeout-minutes"`
		Permissions    rights
		Steps          []struct {
			Uses string
			With map[string]any
		}
	}
}

func TestEveryActionIsPinnedToACommitAndSaysItsVersion(t *testing.T) {
	uses := regexp.MustCompile(`uses: (.*)`)
	pinned := regexp.MustCompile(`^(\./\.github/workflows/\S+\.yml|[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+)$`)
	each(t, "workflows", func(name string, _ workflow) {
		for _, match := range uses.FindAllStringSubmatch(read(t, ".github/workflows/"+name), -1) {
			if !pinned.MatchString(match[1]) {
				t.Errorf("%s uses %s: pin it to a commit, with the version as a comment", name, match[1])
			}
		}
	})
}

func TestOnlyJobsThatPublishMayWrite(t *testing.T) {
	allowed := map[string][]string{
		"release.yml release": {"contents", "packages", "id-token", "attestations"},
		"release.yml chart":   {"packages", "id-token", "attestations"},
		"security.yml codeql": {"security-events"},
	}
	each(t, "workflows", func(name string, file workflow) {
		if file.Permissions == nil {
			t.Errorf("%s: name the permissions of the workflow; without them it has the repository's default", name)
		}
		for right, level := range file.Permissions {
			if right != "contents" || level != "read" {
				t.Errorf("%s gives %s: %s to all jobs; give it to the one that needs it", name, right, level)
			}
		}
		for job, is := range file.Jobs {
			for right, level := range is.Permissions {
				if level != "read" && !slices.Contains(allowed[name+" "+job], right) {
					t.Errorf("%s: job %s has %s: %s", name, job, right, level)
				}
			}
		}
	})
}

// With its credentials in the checkout, whatever a build runs could push.
func TestEveryJobHasATimeLimitAndNoCheckoutKeepsItsCredentials(t *testing.T) {
	each(t, "workflows", func(name string, file workflow) {
		for job, is := range file.Jobs {
			if is.Uses == "" && is.TimeoutMinutes == 0 {
				t.Errorf("%s: job %s may hang for six hours; give it timeout-minutes", name, job)
			}
			for _, step := range is.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: job %s: give the checkout persist-credentials: false", name, job)
				}
			}
		}
	})
}

type dependabot struct {
	Updates []struct {
		Ecosystem   string `json:"package-ecosystem"`
		Directory   string
		Directories []string
	}
}

func TestDependabotKeepsEveryModuleAndWorkflowCurrent(t *testing.T) {
	listed := map[string][]string{}
	for _, update := range load[dependabot](t, ".github/dependabot.yml").Updates {
		if update.Directory != "" {
			update.Directories = append(update.Directories, update.Directory)
		}
		listed[update.Ecosystem] = append(listed[update.Ecosystem], update.Directories...)
	}
	var modules []string
	await.Must(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "go.mod" {
			modules = append(modules, path.Join("/", strings.TrimPrefix(filepath.Dir(file), root)))
		}
		return err
	}))
	slices.Sort(modules)
	slices.Sort(listed["gomod"])
	if !slices.Equal(listed["gomod"], modules) {
		t.Errorf("dependabot.yml lists the modules %q, there are %q", listed["gomod"], modules)
	}
	for _, ecosystem := range []string{"github-actions", "docker"} {
		if !slices.Equal(listed[ecosystem], []string{"/"}) {
			t.Errorf("%s is listed for %q, want /", ecosystem, listed[ecosystem])
		}
	}
}

// form is what GitHub asks of an issue form.
type form struct {
	Name, Description string
	Body              []field
}

type field struct {
	Type, ID   string
	Attributes struct{ Label, Value string }
}

// acceptable says whether GitHub takes a field.
func (f field) acceptable() bool {
	if f.Type == "markdown" {
		return f.Attributes.Value != ""
	}
	return slices.Contains([]string{"textarea", "input", "dropdown", "checkboxes"}, f.Type) && f.ID != "" && f.Attributes.Label != ""
}

func TestIssueFormsAreWhatGitHubAccepts(t *testing.T) {
	each(t, "ISSUE_TEMPLATE", func(name string, file form) {
		if name == "config.yml" {
			return
		}
		if file.Name == "" || file.Description == "" || len(file.Body) == 0 {
			t.Errorf("%s: a form needs a name, a description and a body", name)
		}
		seen := map[string]bool{"": false}
		for _, field := range file.Body {
			if !field.acceptable() || seen[field.ID] {
				t.Errorf("%s: GitHub refuses the field %+v", name, field)
			}
			seen[field.ID] = field.ID != ""
		}
	})
}

// recipe is how a binary or an image of Taintkeeper is built.
type recipe struct {
	ID, Main            string
	Env, Flags, LDFlags []string
}

type goreleaserFile struct {
	Builds []recipe
	Images []struct {
		BaseImage string `json:"base_image"`
		Platforms []string
	} `json:"kos"`
}

type koFile struct {
	BaseImage string   `json:"defaultBaseImage"`
	Platforms []string `json:"defaultPlatforms"`
	Builds    []recipe
}

// parts are what is the same in every tool's words; the version is filled in by each in its own way.
func (r recipe) parts() []string {
	ldflags, _, _ := strings.Cut(strings.Join(r.LDFlags, " "), "main.version=")
	return append(slices.Concat(r.Env, r.Flags), ldflags+"main.version=", r.Main)
}

func TestArchivesAndImagesAreBuiltAlikeOnAnyMachine(t *testing.T) {
	release, ko := load[goreleaserFile](t, ".goreleaser.yaml"), load[koFile](t, ".ko.yaml")
	if len(release.Builds) != 2 || release.Builds[0].ID != "taintkeeper" || len(release.Images) != 1 || len(ko.Builds) != 1 {
		t.Fatalf("goreleaser builds %v and %d images, ko %d; want the controller, the plugin, and an image", release.Builds, len(release.Images), len(ko.Builds))
	}
	for _, build := range release.Builds {
		if !slices.Contains(build.Env, "CGO_ENABLED=0") || !slices.Contains(build.Flags, "-trimpath") {
			t.Errorf("built with %q and %q, want CGO_ENABLED=0 and -trimpath", build.Env, build.Flags)
		}
	}
	archive := append(release.Builds[0].parts(), append(release.Images[0].Platforms, release.Images[0].BaseImage)...)
	image := append(ko.Builds[0].parts(), append(ko.Platforms, ko.BaseImage)...)
	if !slices.Equal(archive, image) {
		t.Errorf(".goreleaser.yaml has %q, .ko.yaml %q", archive, image)
	}
	docker := read(t, "Dockerfile")
	for _, part := range release.Builds[0].parts() {
		if !strings.Contains(docker, part) {
			t.Errorf("the Dockerfile builds without %q", part)
		}
	}
}

// notes returns what is written about a tag.
func notes(t *testing.T, tag, changelog string) (string, error) {
	t.Helper()
	script, err := exec.LookPath(filepath.Join(root, "tools/release/notes.sh"))
	await.Must(t, err)
	text, err := exec.CommandContext(t.Context(), script, tag, changelog).Output()
	return strings.TrimSpace(string(text)), err
}

func TestTheReleaseNotesAreTheSectionOfTheVersion(t *testing.T) {
	changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
	const text = "# Changelog\n\n## [Unreleased]\n\n## [1.10.0] - 2030-01-02\n\n### Fixed\n\n- Ten.\n\n" +
		"## [1.1.0]\n\n- One.\n\n[1.1.0]: https://example.com/1.1.0\n"
	await.Must(t, os.WriteFile(changelog, []byte(text), 0o600))
	for name, test := range map[string]struct {
		tag, want string
		refused   bool
	}{
		"a section ends with the next":                {tag: "v1.10.0", want: "### Fixed\n\n- Ten."},
		"the links at the end belong to no section":   {tag: "v1.1.0", want: "- One."},
		"a version without a section is refused":      {tag: "v1.1", refused: true},
		"a section without a word is refused as well": {tag: "vUnreleased", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := notes(t, test.tag, changelog); got != test.want || (err != nil) != test.refused {
				t.Errorf("notes %q, error %v", got, err)
			}
		})
	}
}

// Until the first release the newest section is Unreleased, and the pages that a stranger reads first say so.
func TestTheNewestVersionOfTheChangelogHasNotesAndALink(t *testing.T) {
	changelog := read(t, "CHANGELOG.md")
	versions := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(changelog)
	unreleased := regexp.MustCompile(`(?i)\b(nothing|no version) is released yet`)
	for _, name := range []string{
		"CHANGELOG.md", "SECURITY.md", "README.md", "charts/taintkeeper/README.md",
		"docs/README.md", "docs/installation.md",
	} {
		if says := unreleased.MatchString(read(t, name)); says != (versions == nil) {
			t.Errorf("%s says that nothing is released yet: %t; versions in CHANGELOG.md: %v", name, says, versions)
		}
	}
	newest := "Unreleased"
	if versions != nil {
		newest = versions[1]
	}
	if _, err := notes(t, "v"+newest, filepath.Join(root, "CHANGELOG.md")); err != nil {
		t.Errorf("notes of %s: %v", newest, err)
	}
	if !strings.Contains(changelog, "\n["+newest+"]: https://github.com/taintkeeper/taintkeeper/") {
		t.Errorf("CHANGELOG.md does not link %s", newest)
	}
}
