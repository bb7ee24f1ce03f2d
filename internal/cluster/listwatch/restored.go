// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// askedWithin bounds how long the API server may take to return the newest version.
	askedWithin = 10 * time.Second
	// askedAgain is how long to wait before asking again.
	askedAgain = time.Second
)

// restores detects that etcd was restored from a snapshot and its revisions went back. The API server accepts a watch
// from a future version, and sends nothing until the revisions have passed that version. A reflector would not notice,
// and would never see what the restore changed (kubernetes/kubernetes#107457). When a watch is reopened, restores
// therefore requests the newest version while the watch continues.
type restores struct {
	calls *cache.ListWatch
	end   context.CancelFunc // cancels the check under way, if any
	found *atomic.Bool       // what it has found
}

// begin checks a watch from a version, and stops the watch if the API server has not reached that version.
func (r *restores) begin(ctx context.Context, w watch.Interface, version string) {
	r.forget()
	ctx, r.end = context.WithCancel(ctx)
	found := &atomic.Bool{}
	r.found = found
	go func() {
		for {
			newest, err := r.newest(ctx)
			switch {
			case err == nil && isBehind(newest, version):
				found.Store(true)
				w.Stop()
				return
			case err == nil || refused(err):
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(askedAgain):
			}
		}
	}()
}

// forget ends the check, and reports whether it has found that etcd was restored.
func (r *restores) forget() bool {
	if r.end == nil {
		return false
	}
	r.end()
	r.end = nil
	return r.found.Load()
}

// refused reports whether the API server will not answer, however often it is asked. The next list returns that error.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// isBehind reports whether a version is older than one that was seen before. Versions that are not numbers say nothing.
func isBehind(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	return err == nil && order < 0
}

// newest returns the version that a quorum of etcd has reached.
func (r *restores) newest(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	list, err := r.calls.ListWithContextFunc(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return about.GetResourceVersion(), nil
}
