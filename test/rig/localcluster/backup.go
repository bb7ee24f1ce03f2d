// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
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
	"strings"
)

// etcdutl restores etcd's data, relative to the root of the Go module.
const etcdutl = "bin/etcdutl"

// BackUpEtcd writes a snapshot of etcd into a file, as `etcdctl snapshot save` does, while etcd and the API server go
// on. It asks the JSON gateway that etcd has alongside its gRPC, which needs no dependency.
func (c *Cluster) BackUpEtcd(ctx context.Context, path string) error {
	if err := c.backUpEtcd(ctx, path); err != nil {
		return fmt.Errorf("back up etcd: %w", err)
	}
	return nil
}

func (c *Cluster) backUpEtcd(ctx context.Context, path string) (err error) {
	url := c.EtcdURL() + "/v3/maintenance/snapshot"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return copySnapshot(file, response.Body)
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

// RestoreEtcd replaces etcd's data with those of a snapshot, between [Cluster.StopEtcd] and [Cluster.StartEtcd]. The
// API server must not run either: it would go on from what it has in memory. The flags are those of
// `etcdutl snapshot restore`.
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
