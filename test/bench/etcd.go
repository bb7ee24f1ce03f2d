// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// etcd reads and writes what API servers store, as another API server of the cluster would.
type etcd struct{ *localcluster.Cluster }

// keyValue is an object as it is stored.
type keyValue struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// get reads one object.
func (e etcd) get(ctx context.Context, key string) ([]byte, error) {
	var found struct {
		Kvs []keyValue `json:"kvs"`
	}
	if err := e.call(ctx, "range", keyValue{Key: []byte(key)}, &found); err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(found.Kvs) != 1 {
		return nil, fmt.Errorf("etcd has no %s", key)
	}
	return found.Kvs[0].Value, nil
}

// put writes objects at once; etcd takes 128 in one transaction.
func (e etcd) put(ctx context.Context, objects []keyValue) error {
	type operation struct {
		Put keyValue `json:"requestPut"`
	}
	var transaction struct {
		Success []operation `json:"success"`
	}
	for _, object := range objects {
		transaction.Success = append(transaction.Success, operation{object})
	}
	var done struct {
		Succeeded bool `json:"succeeded"`
	}
	err := e.call(ctx, "txn", transaction, &done)
	if err == nil && !done.Succeeded {
		err = errors.New("the transaction was not carried out")
	}
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	return nil
}

// keyRange has the keys from Key up to, but not including, End.
type keyRange struct {
	Key []byte `json:"key"`
	End []byte `json:"range_end"`
}

// withPrefix has all keys with a prefix.
func withPrefix(prefix string) keyRange {
	end := []byte(prefix)
	end[len(end)-1]++ // the first key after those with the prefix
	return keyRange{[]byte(prefix), end}
}

// remove removes all objects whose keys begin with a prefix.
func (e etcd) remove(ctx context.Context, prefix string) error {
	if err := e.call(ctx, "deleterange", withPrefix(prefix), &struct{}{}); err != nil {
		return fmt.Errorf("remove %s* from etcd: %w", prefix, err)
	}
	return nil
}

func (e etcd) call(ctx context.Context, method string, question, answer any) error {
	body, err := e.AskEtcd(ctx, "kv/"+method, question)
	if err != nil {
		return err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, answer)
}
