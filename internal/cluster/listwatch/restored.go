// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// askedWithin bounds how long the API server may take to say which version is the newest.
const askedWithin = 10 * time.Second

// mostUnsure is how often in a row a watch is not begun because the newest version cannot be found out.
const mostUnsure = 3

// unlessRestored returns a watch if the API server has reached the version that it is from, and otherwise stops it and
// returns an error after which a reflector lists. When etcd is restored from a snapshot its revisions can go back. The
// API server accepts a watch from a version that lies ahead and sends nothing until the revisions have passed that
// version. A reflector would not notice, and would never see what the restore changed (kubernetes/kubernetes#107457).
//
// A list of everything is expensive, so a reflector watches from the same version later if the newest cannot be found
// out. After some tries it watches anyway: that etcd was restored is the less likely cause. What the API server
// refuses is passed on, so that it is heard of.
func (s *streamed) unlessRestored(ctx context.Context, w watch.Interface, version string) (watch.Interface, error) {
	newest, err := s.newest(ctx)
	if s.unsure++; err == nil || s.unsure > mostUnsure {
		s.unsure = 0
	}
	switch {
	case err == nil && isBehind(newest, version):
		err = apierrors.NewResourceExpired(fmt.Sprintf("etcd was restored: version %s came before %s", version, newest))
	case s.unsure == 0:
		return w, nil
	case !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err):
		err = apierrors.NewTooManyRequests(fmt.Sprintf("cannot find out the newest version: %v", err), 0)
	}
	w.Stop()
	return nil, err
}

// isBehind reports whether a version is older than one that was seen before. Those that are no numbers say nothing.
func isBehind(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	return err == nil && order < 0
}

// newest returns the version that a quorum of etcd has reached.
func (s *streamed) newest(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	list, err := s.calls.ListWithContextFunc(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return about.GetResourceVersion(), nil
}
