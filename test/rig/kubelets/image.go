// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Image is the only image that the machines have. [Program] is what it runs, also as the sandbox of pods.
const Image = "localhost/taintkeeper-program:1"

// Program is the path of the program in the image.
const Program = "/program"

// writeImage writes an archive as `docker save` does, with an image that has one layer with one program.
func writeImage(path, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive(entry{Program[1:], binary, 0o755})
	if err != nil {
		return err
	}
	layerSum := sum(layer)
	settings, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{Program}, "Cmd": []string{"pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerSum}},
	})
	if err != nil {
		return err
	}
	settingsName, layerName := sum(settings)+".json", layerSum+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": settingsName, "RepoTags": []string{Image}, "Layers": []string{layerName},
	}})
	if err != nil {
		return err
	}
	image, err := archive(
		entry{settingsName, settings, 0o644}, entry{layerName, layer, 0o644}, entry{"manifest.json", manifest, 0o644})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// entry is a file of an archive.
type entry struct {
	name    string
	content []byte
	mode    int64
}

func archive(entries ...entry) ([]byte, error) {
	var out bytes.Buffer
	to := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.content)), Mode: e.mode}
		if err := to.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", e.name, err)
		}
		if _, err := to.Write(e.content); err != nil {
			return nil, fmt.Errorf("archive %s: %w", e.name, err)
		}
	}
	if err := to.Close(); err != nil {
		return nil, fmt.Errorf("end an archive: %w", err)
	}
	return out.Bytes(), nil
}
