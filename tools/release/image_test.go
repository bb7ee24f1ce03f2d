// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release tests what .ko.yaml makes of this working tree: `make release CHECK=1`. It is run apart from all other
// tests, because it builds the binary for two architectures.
package release

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const root = "../.."

// The base image is an empty one in a registry of the test, so that nothing is downloaded.
func TestTheImageIsForTwoArchitecturesAndTheSameWheneverItIsBuilt(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	pushBase(t, host+"/base:nonroot")

	first, second := build(t, host, "first"), build(t, host, "second")
	if one, other := digest(t, first), digest(t, second); one != other {
		t.Errorf("built twice, the digests are %s and %s", one, other)
	}
	manifest, err := first.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, image := range manifest.Manifests {
		platforms = append(platforms, image.Platform.String())
		checkImage(t, first, image.Digest)
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the image is for %v", platforms)
	}
}

// pushBase pushes an image without files, for two architectures and a user who is not root.
func pushBase(t *testing.T, reference string) {
	t.Helper()
	base := v1.ImageIndex(empty.Index)
	for _, architecture := range []string{"amd64", "arm64"} {
		config := v1.ConfigFile{OS: "linux", Architecture: architecture, Config: v1.Config{User: "65532"}}
		image, err := mutate.ConfigFile(empty.Image, &config)
		if err != nil {
			t.Fatal(err)
		}
		base = mutate.AppendManifests(base, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	if err := remote.WriteIndex(parse(t, reference), base); err != nil {
		t.Fatal(err)
	}
}

// build runs ko as .ko.yaml says, except for the base image, and returns what it pushed.
func build(t *testing.T, host, repository string) v1.ImageIndex {
	t.Helper()
	ko, err := filepath.Abs(root + "/bin/ko")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), ko, "build", "--bare", "--sbom=none", "./cmd/taintkeeper")
	command.Dir = root
	command.Env = append(command.Environ(), "VERSION=v0.0.0-test",
		"KO_DOCKER_REPO="+host+"/"+repository, "KO_DEFAULTBASEIMAGE="+host+"/base:nonroot")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("ko build: %v\n%s", err, output)
	}
	index, err := remote.Index(parse(t, host+"/"+repository+":latest"))
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func checkImage(t *testing.T, index v1.ImageIndex, at v1.Hash) {
	t.Helper()
	image, err := index.Image(at)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532" || !slices.Equal(config.Config.Entrypoint, []string{"/ko-app/taintkeeper"}) {
		t.Errorf("%s runs %v as user %q", config.Architecture, config.Config.Entrypoint, config.Config.User)
	}
}

func digest(t *testing.T, index v1.ImageIndex) v1.Hash {
	t.Helper()
	hash, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func parse(t *testing.T, reference string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
