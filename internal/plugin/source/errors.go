// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// DeniedError says that the API server does not let us get or list a kind.
type DeniedError struct {
	Verb, Kind string
	error
}

// Means says in a sentence what follows from it.
func (e DeniedError) Means(follows string) string {
	return fmt.Sprintf("You may not %s %s, so %s.", e.Verb, e.Kind, follows)
}

// absentError says that the API server does not serve a kind.
type absentError struct {
	kind string
	error
}

func (e absentError) Unwrap() error { return e.error }

// IsUnreadable reports whether a kind may not be read, or does not exist.
func IsUnreadable(err error) bool {
	_, denied := errors.AsType[DeniedError](err)
	_, absent := errors.AsType[absentError](err)
	return denied || absent
}

// Failed says why a call failed, and what to do. If err is nil, it returns nil.
func Failed(ctx context.Context, server, verb, kind string, err error) error {
	doing := verb + " " + kind
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", doing)
	case apierrors.IsForbidden(err):
		return DeniedError{verb, kind, fmt.Errorf("%s: %w: ask for the right to %s them, which the ClusterRole %s has", doing, err, verb, state.ViewerRole)}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server %s rejected your credentials: %w: log in again", doing, server, err)
	case apierrors.IsNotFound(err):
		return absentError{kind, fmt.Errorf("%s: the API server %s does not have them: %w: check the context (kubectl config current-context)", doing, server, err)}
	case isDistrust(err):
		return fmt.Errorf("%s: the API server %s has an untrusted certificate: %w: check the server and the certificate authority in the kubeconfig", doing, server, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: the API server %s refuses connections: %w: check that it is running, and check the context (kubectl config current-context)", doing, server, err)
	case IsUnanswered(err):
		return fmt.Errorf("%s: the API server %s does not answer: %w: check the context (kubectl config current-context) and the network, or raise --request-timeout", doing, server, err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("%s: %s does not answer like an API server: %w: check the context (kubectl config current-context)", doing, server, err)
	}
	return fmt.Errorf("%s: the API server %s failed: %w: try again", doing, server, err)
}

// isDistrust reports whether the API server's certificate is not trusted.
func isDistrust(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// IsUnanswered reports whether there was no answer.
func IsUnanswered(err error) bool {
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded)
}

// Probed returns the error of a call. If the call timed out, the error says so, and not that it was interrupted.
func Probed(ctx context.Context, server, verb, kind string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	return Failed(ctx, server, verb, kind, err)
}
