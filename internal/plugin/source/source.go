// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source reads the state of a cluster, from its API server or from files. It has the flags that select one of
// them, and the errors that say why it cannot be read and what to do.
package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// Source is where the objects of a cluster come from: files if there are any, otherwise the API server.
type Source struct {
	Env    command.Env
	Config *genericclioptions.ConfigFlags
	Files  resource.FilenameOptions

	at string // --at
}

// New returns a Source without files.
func New(env command.Env, config *genericclioptions.ConfigFlags) Source {
	return Source{Env: env, Config: config}
}

// AddFlags adds --filename, --recursive and --at.
func (s *Source) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&s.Files.Filenames, "filename", "f", nil,
		"Read these files or directories instead of a cluster: what 'kubectl taintkeeper snapshot' or 'kubectl get -o yaml' prints. '-' means stdin.")
	cmd.Flags().BoolVarP(&s.Files.Recursive, "recursive", "R", false, "Read the directories of -f recursively.")
	cmd.Flags().StringVar(&s.at, "at", "",
		"With -f, answer as of this time, such as 2026-11-22T09:00:00Z. The default is when the snapshot was taken, or now.")
}

// Offline reports whether files replace a cluster.
func (s *Source) Offline() bool { return len(s.Files.Filenames) > 0 }

// Validate rejects flags that would have no effect.
func (s *Source) Validate() error {
	if s.Files.Recursive && !s.Offline() {
		return command.Usagef("--recursive requires --filename with folders: name some, or remove --recursive")
	}
	if err := s.validateAt(); err != nil || !s.Offline() {
		return err
	}
	for _, flag := range []struct{ name, value string }{
		{"context", *s.Config.Context}, {"cluster", *s.Config.ClusterName}, {"server", *s.Config.APIServer},
	} {
		if flag.value != "" {
			return command.Usagef("--%s=%s: no cluster is read with --filename: remove one of the two", flag.name, flag.value)
		}
	}
	return nil
}

func (s *Source) validateAt() error {
	if s.at == "" {
		return nil
	}
	if !s.Offline() {
		return command.Usagef("--at requires -f, because a cluster is read in its current state")
	}
	if _, err := time.Parse(time.RFC3339, s.at); err != nil {
		return command.Usagef("--at=%s is not an instant: write it as 2026-11-22T09:00:00Z", s.at)
	}
	return nil
}

// Now returns the instant for which to answer about a cluster.
func (s *Source) Now(cluster *state.Cluster) time.Time {
	if at, err := time.Parse(time.RFC3339, s.at); err == nil { // Validate rejects all others
		return at
	}
	if !cluster.At.IsZero() {
		return cluster.At
	}
	return s.Env.Clock.Now()
}

// Read returns the objects of the cluster.
func (s *Source) Read(ctx context.Context, wanted Wants) (*state.Cluster, error) {
	if s.Offline() {
		cluster, err := ReadFiles(s.Env.In, s.Files, wanted)
		if err == nil && s.at != "" {
			cluster.Signs.At = s.Now(cluster)
		}
		if err == nil && wanted.Evictor {
			cluster.Evictor = evictorOf(cluster)
		}
		return cluster, err
	}
	reader, err := s.Connect()
	if err != nil {
		return nil, err
	}
	defer reader.Progress.End()
	err = reader.Read(ctx, wanted)
	reader.Cluster.Signs.At = reader.Clock.Latest()
	return reader.Cluster, err
}

// Connect returns a Reader of the cluster.
func (s *Source) Connect() (*Reader, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	return connectTo(s.Env, s.Config, config)
}

// evictorOf returns who evicts according to files. Those that show nothing about Taintkeeper are no reason for a note.
func evictorOf(cluster *state.Cluster) state.Evictor {
	known := who.Ask(cluster, cluster.Signs.At)
	is := known.Evictor(len(cluster.Policies))
	if known.Eviction.Taintkeeper.State == who.Unknown {
		is.Idle = ""
	}
	return is
}

// RESTConfig returns the configuration to reach the cluster.
func (s *Source) RESTConfig() (*rest.Config, error) {
	config, err := RESTConfigOf(s.Config)
	if err != nil {
		return nil, fmt.Errorf("%w, or name files with -f", err)
	}
	return config, nil
}

// Namespace returns the namespace that kubectl would use.
func (s *Source) Namespace() (string, error) {
	namespace, _, err := s.Config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find a namespace: %w: set a context (kubectl config use-context), or name files with -f", err)
	}
	return namespace, nil
}

// RESTConfigOf returns the configuration to reach the cluster that flags and kubeconfig name. If they name none,
// kubectl uses localhost:8080, which is not useful.
func RESTConfigOf(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	const advice = "set a context (kubectl config use-context)"
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot find a cluster: %w: %s", err, advice)
	}
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot find a cluster: %w: %s", err, advice)
	}
	named := raw.CurrentContext + *flags.Context + *flags.ClusterName + *flags.APIServer
	if named == "" && config.Host == defaultServer {
		return nil, fmt.Errorf("no cluster is selected: %s", advice)
	}
	return config, nil
}

// defaultServer is the API server that kubectl uses by default.
const defaultServer = "http://localhost:8080"

// Wants says what a command needs in addition to nodes and pods.
type Wants struct {
	Policies   bool // EvictionPolicies and, if there are any, the objects that they need
	Budgets    bool // PodDisruptionBudgets, and the controllers of ReplicaSets and Jobs
	Scheduling bool // what the scheduler needs
	Successors bool // when successors are created, whether quotas refuse them, and which volumes they wait for
	Renewals   bool // when kubelets last renewed the Leases of their nodes
	Signs      bool // traces of the controllers that evict and taint
	Health     bool // traces of Taintkeeper alone, and its failures
	Evictor    bool // who evicts, see [state.Evictor]
	Templates  bool // workloads whose pods are not in the files; nodes are then optional

	// WithoutNodes is what follows for the answer if a user may not list nodes. If it is empty, nodes are required.
	WithoutNodes string
	// Namespace limits the pods and the budgets that are read from an API server, and Pods the pods. Empty means all.
	Namespace string
	Pods      fields.Selector
}

// slimNode returns the parts of a node that a command needs.
func (w Wants) slimNode(node *corev1.Node) *corev1.Node {
	slim := state.SlimNode(node)
	if w.Scheduling {
		slim.Status.Images = state.SlimImages(node.Status.Images)
	}
	return slim
}

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
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: interrupted", doing)
	case apierrors.IsForbidden(err):
		return DeniedError{verb, kind, fmt.Errorf("%s: %w: ask for permission to %s them, which the ClusterRole %s has", doing, err, verb, state.ViewerRole)}
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

// LocationOf returns the cluster that flags and kubeconfig select, as its users call it.
func LocationOf(flags *genericclioptions.ConfigFlags, config *rest.Config) state.Location {
	is := state.Location{Server: config.Host}
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return is
	}
	is.Context = cmp.Or(*flags.Context, raw.CurrentContext)
	is.Cluster = *flags.ClusterName
	if context := raw.Contexts[is.Context]; context != nil && is.Cluster == "" {
		is.Cluster = context.Cluster
	}
	return is
}

// warnings prints each warning of the API server once, except the one about policies that hold pods
// (config/coexistence.yaml). Commands that end such a policy say themselves which pods leave.
type warnings struct{ rest.WarningHandler }

func newWarnings(out io.Writer) warnings {
	return warnings{rest.NewWarningWriter(out, rest.WarningWriterOptions{Deduplicate: true})}
}

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, agent, text string) {
	if !strings.Contains(text, "'"+v1alpha1.HoldingAdmissionPolicy) {
		w.WarningHandler.HandleWarningHeader(code, agent, text)
	}
}
