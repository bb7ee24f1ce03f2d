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

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// DeniedError says that the API server does not let us read a kind.
type DeniedError struct {
	Kind string
	error
}

// absentError says that the API server does not have a kind.
type absentError struct {
	kind string
	error
}

func (e absentError) Unwrap() error { return e.error }

// IsUnreadable reports whether a kind may not be read, or is not there.
func IsUnreadable(err error) bool {
	_, denied := errors.AsType[DeniedError](err)
	_, absent := errors.AsType[absentError](err)
	return denied || absent
}

// Failed says why a call failed, and what to do. Without an error it is nil.
func Failed(ctx context.Context, server, verb, kind string, err error) error {
	doing := verb + " " + kind
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", doing)
	case apierrors.IsForbidden(err):
		return DeniedError{kind, fmt.Errorf("%s: %w: ask for the right to %s them, which the ClusterRole %s has, or name files with -f", doing, err, verb, plan.ViewerRole)}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server %s does not know you: %w: log in again", doing, server, err)
	case apierrors.IsNotFound(err):
		return absentError{kind, fmt.Errorf("%s: the API server %s does not have them: %w: check the context (kubectl config current-context)", doing, server, err)}
	case isDistrust(err):
		return fmt.Errorf("%s: the API server %s is not who the kubeconfig says: %w: check the server and its certificate authority there", doing, server, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: the API server %s refuses connections: %w: check that it runs, and the context (kubectl config current-context)", doing, server, err)
	case IsUnanswered(err):
		return fmt.Errorf("%s: the API server %s does not answer: %w: check the context (kubectl config current-context) and the network, or give it longer with --request-timeout", doing, server, err)
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("%s: %s does not answer as an API server does: %w: check the context (kubectl config current-context)", doing, server, err)
	}
	return fmt.Errorf("%s: the API server %s fails: %w: try again", doing, server, err)
}

// isDistrust reports whether the API server's certificate is not one to trust.
func isDistrust(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// IsUnanswered reports whether no answer came.
func IsUnanswered(err error) bool {
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded)
}

// Probed tells a server that did not answer in time from somebody who has interrupted.
func Probed(ctx context.Context, server, verb, kind string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	return Failed(ctx, server, verb, kind, err)
}
