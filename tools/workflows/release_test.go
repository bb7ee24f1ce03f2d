// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package workflows

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// recipe is how a binary or an image of Taintkeeper is built.
type recipe struct {
	ID      string   `yaml:"id"`
	Main    string   `yaml:"main"`
	Env     []string `yaml:"env"`
	Flags   []string `yaml:"flags"`
	LDFlags []string `yaml:"ldflags"`
}

type goreleaserFile struct {
	Builds []recipe `yaml:"builds"`
	Images []struct {
		BaseImage string   `yaml:"base_image"`
		Platforms []string `yaml:"platforms"`
	} `yaml:"kos"`
}

type koFile struct {
	BaseImage string   `yaml:"defaultBaseImage"`
	Platforms []string `yaml:"defaultPlatforms"`
	Builds    []recipe `yaml:"builds"`
}

func load[T any](t *testing.T, name string) T {
	t.Helper()
	var into T
	if err := yaml.Unmarshal(read(t, filepath.Join(root, name)), &into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return into
}

// ldflags returns the flags of the linker; the version itself is filled in by each tool in its own way.
func ldflags(text string) string {
	return regexp.MustCompile(`main\.version=.*`).ReplaceAllString(text, "main.version=")
}

func TestArchivesAndImagesAreBuiltAlike(t *testing.T) {
	release, ko := load[goreleaserFile](t, ".goreleaser.yaml"), load[koFile](t, ".ko.yaml")
	controller := slices.IndexFunc(release.Builds, func(r recipe) bool { return r.ID == "taintkeeper" })
	if controller < 0 || len(release.Images) != 1 || len(ko.Builds) != 1 {
		t.Fatalf("goreleaser builds %v and %d images, ko %d; want the controller, and an image of each", release.Builds, len(release.Images), len(ko.Builds))
	}
	archive, image := release.Builds[controller], ko.Builds[0]
	for _, pair := range [][2][]string{
		{{archive.Main}, {image.Main}},
		{archive.Env, image.Env},
		{archive.Flags, image.Flags},
		{{ldflags(archive.LDFlags[0])}, {ldflags(image.LDFlags[0])}},
		{{release.Images[0].BaseImage}, {ko.BaseImage}},
		{release.Images[0].Platforms, ko.Platforms},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf(".goreleaser.yaml has %q, .ko.yaml %q", pair[0], pair[1])
		}
	}
	docker := string(read(t, filepath.Join(root, "Dockerfile")))
	for _, part := range append(slices.Concat(archive.Env, archive.Flags), ldflags(archive.LDFlags[0]), archive.Main) {
		if !strings.Contains(docker, part) {
			t.Errorf("the Dockerfile builds without %q", part)
		}
	}
}

func TestWhatIsReleasedDoesNotDependOnTheMachine(t *testing.T) {
	builds := load[goreleaserFile](t, ".goreleaser.yaml").Builds
	if len(builds) != 2 {
		t.Errorf("%d binaries are released, want the controller and the plugin", len(builds))
	}
	for _, build := range builds {
		if !slices.Contains(build.Env, "CGO_ENABLED=0") || !slices.Contains(build.Flags, "-trimpath") {
			t.Errorf("built with %q and %q, want CGO_ENABLED=0 and -trimpath", build.Env, build.Flags)
		}
	}
}

func TestTheReleaseNotesAreTheSectionOfTheVersion(t *testing.T) {
	changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
	text := `# Changelog

## [Unreleased]

## [1.10.0] - 2030-01-02

### Fixed

- Ten.

## [1.1.0]

- One.

[1.1.0]: https://example.com/1.1.0
`
	if err := os.WriteFile(changelog, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, tag, want string
		refused         bool
	}{
		{name: "a section ends with the next", tag: "v1.10.0", want: "### Fixed\n\n- Ten."},
		{name: "the links at the end belong to no section", tag: "v1.1.0", want: "- One."},
		{name: "a version without a section is refused", tag: "v1.1", refused: true},
		{name: "an empty section is refused", tag: "vUnreleased", refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			notes, err := exec.CommandContext(t.Context(), root+"/tools/release/notes.sh", test.tag, changelog).Output()
			if got := strings.TrimSpace(string(notes)); got != test.want || (err != nil) != test.refused {
				t.Errorf("notes %q, error %v", got, err)
			}
		})
	}
}

func TestTheNewestVersionOfTheChangelogHasNotesAndALink(t *testing.T) {
	changelog := string(read(t, filepath.Join(root, "CHANGELOG.md")))
	version := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(changelog)
	if version == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	if err := exec.CommandContext(t.Context(), root+"/tools/release/notes.sh", "v"+version[1]).Run(); err != nil {
		t.Errorf("notes of %s: %v", version[1], err)
	}
	if !strings.Contains(changelog, "\n["+version[1]+"]: https://github.com/taintkeeper/taintkeeper/") {
		t.Errorf("CHANGELOG.md does not link version %s", version[1])
	}
}
