// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// etcdutl restores etcd's data, relative to the root of the Go module.
const etcdutl = "bin/etcdutl"

// AskEtcd calls a method of etcd's JSON gateway, which needs no dependency, unlike gRPC. Data is in the form in which
// API servers store it.
func (c *Cluster) AskEtcd(ctx context.Context, method string, question any) (io.ReadCloser, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcdURL()+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		content, err := io.ReadAll(response.Body)
		return nil, errors.Join(fmt.Errorf("etcd answers %s: %s", response.Status, content), err, response.Body.Close())
	}
	return response.Body, nil
}

// BackUpEtcd writes a snapshot of etcd into a file, as `etcdctl snapshot save` does, while etcd and the API server
// continue.
func (c *Cluster) BackUpEtcd(ctx context.Context, path string) error {
	snapshot, err := c.AskEtcd(ctx, "maintenance/snapshot", struct{}{})
	if err != nil {
		return fmt.Errorf("back up etcd: %w", err)
	}
	defer snapshot.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("back up etcd: %w", err)
	}
	return errors.Join(copySnapshot(file, snapshot), file.Close())
}

// copySnapshot copies the parts of a snapshot, the last of which is its checksum.
func copySnapshot(to io.Writer, from io.Reader) error {
	for parts := json.NewDecoder(from); ; {
		var part struct {
			Result struct{ Blob []byte }
			Error  *struct{ Message string }
		}
		switch err := parts.Decode(&part); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case part.Error != nil:
			return errors.New(part.Error.Message)
		}
		if _, err := to.Write(part.Result.Blob); err != nil {
			return err
		}
	}
}

// RestoreEtcd replaces etcd's data with a snapshot, between [Cluster.StopEtcd] and [Cluster.StartEtcd]. The API server
// must not run either, because it would continue with what it has in memory. The flags are for `etcdutl snapshot
// restore`.
func (c *Cluster) RestoreEtcd(ctx context.Context, snapshot string, flags ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.components.get(Etcd) != nil || c.components.get(APIServer) != nil {
		return errors.New("restore etcd: stop the API server and etcd first")
	}
	root, err := moduleRoot()
	if err != nil {
		return fmt.Errorf("restore etcd: find %s: %w", etcdutl, err)
	}
	tool := filepath.Join(root, filepath.FromSlash(etcdutl))
	if !isFile(tool) {
		return fmt.Errorf("restore etcd: %s is missing: run `make %s`", etcdutl, etcdutl)
	}
	data := c.file("etcd")
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	args := slices.Concat([]string{"snapshot", "restore", snapshot, "--data-dir=" + data}, flags)
	if output, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("restore etcd: %w\n%s", err, output)
	}
	c.logf("etcd is restored")
	return nil
}
