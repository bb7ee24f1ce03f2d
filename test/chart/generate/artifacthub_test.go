// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheChangesAreTheFirstSentencesOfTheNewestHeadlines(t *testing.T) {
	log := `# Changelog

## [Unreleased]

### Added

- **A thing** of [ours](docs/ours.md), with ` + "`--flag=0.5`" + `, does
  something new. More about it.
- A small thing.

### Fixed

- **A defect** is gone

## [0.1.0]

### Added

- **An old thing.**
`
	want := []change{
		{"added", "A thing of ours, with --flag=0.5, does something new"},
		{"fixed", "A defect is gone"},
	}
	for _, heading := range []string{"[Unreleased]", "[0.2.0]"} {
		got, err := headlines(strings.Replace(log, "[Unreleased]", heading, 1), "0.2.0")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q (%v), want %q", heading, got, err, want)
		}
	}
	if _, err := headlines(strings.Replace(log, "[Unreleased]", "[0.3.0]", 1), "0.2.0"); !errors.Is(err, errOtherChart) {
		t.Errorf("a chart that is older than the changelog: %v", err)
	}
	for _, log := range []string{"", "## [0.2.0]\n\n### Added\n\n- A small thing.\n"} {
		if _, err := headlines(log, "0.2.0"); !errors.Is(err, errNoHeadline) {
			t.Errorf("%q: %v", log, err)
		}
	}
}

func TestArtifactHubIsToldTheTruthAboutTheChart(t *testing.T) {
	var chart struct {
		Version, AppVersion, Icon string
		Annotations               map[string]string
	}
	read(t, chartFile, &chart)
	if chart.Version != chart.AppVersion {
		t.Errorf("version %s has appVersion %s: a release has both", chart.Version, chart.AppVersion)
	}
	_, icon, found := strings.Cut(chart.Icon, "/main/")
	if _, err := os.Stat(filepath.Join(root, icon)); err != nil || !found {
		t.Errorf("icon %s: %v", chart.Icon, err)
	}
	prerelease := "false"
	if strings.HasPrefix(chart.Version, "0.") || strings.Contains(chart.Version, "-") {
		prerelease = "true"
	}
	if got := chart.Annotations["artifacthub.io/prerelease"]; got != prerelease {
		t.Errorf("artifacthub.io/prerelease is %s for version %s", got, chart.Version)
	}
}
