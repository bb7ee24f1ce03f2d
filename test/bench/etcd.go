// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// etcd reads and writes what API servers store, as another API server of the cluster would. It speaks JSON to the
// gateway that etcd has beside its gRPC, which no dependency is needed for.
type etcd struct{ url string }

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

// remove removes all objects whose keys begin with a prefix.
func (e etcd) remove(ctx context.Context, prefix string) error {
	type keyRange struct {
		Key []byte `json:"key"`
		End []byte `json:"range_end"`
	}
	end := []byte(prefix)
	end[len(end)-1]++ // the first key after those with the prefix
	if err := e.call(ctx, "deleterange", keyRange{[]byte(prefix), end}, &struct{}{}); err != nil {
		return fmt.Errorf("remove %s* from etcd: %w", prefix, err)
	}
	return nil
}

func (e etcd) call(ctx context.Context, method string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, content)
	}
	return json.Unmarshal(content, answer)
}
