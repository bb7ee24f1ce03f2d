// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// patience is how long one call may take if --request-timeout says nothing else: a context that does not answer must
// not keep anybody waiting for ever.
const patience = 30 * time.Second

// apiReader reads the objects of a cluster from its API server, in pages.
type apiReader struct {
	server   string
	clients  kubernetes.Interface
	metadata metadata.Interface
	progress *output.Progress
	cluster  *plan.Cluster
}

// readAPI returns what a command wants of a cluster. Nodes and pods have to be there; of the rest the cluster says what
// is missing.
func readAPI(ctx context.Context, config *rest.Config, wanted wants, progress *output.Progress) (*plan.Cluster, error) {
	clock := &timeline.Clock{}
	r, err := connectAPI(clock.Listen(config), progress)
	if err != nil {
		return nil, err
	}
	defer progress.End()
	err = r.read(ctx, wanted)
	r.cluster.Signs.At = clock.Latest()
	return r.cluster, err
}

func connectAPI(config *rest.Config, progress *output.Progress) (*apiReader, error) {
	config = forReading(config)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &apiReader{
		server: config.Host, clients: clients, metadata: metadataClient, progress: progress,
		cluster: &plan.Cluster{Controllers: map[types.UID]metav1.OwnerReference{}},
	}, nil
}

// forReading returns a configuration with which much is read.
func forReading(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	config.QPS = -1 // the API server does the flow control
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	return config
}

func (r *apiReader) read(ctx context.Context, wanted wants) error {
	if err := r.required(ctx); err != nil {
		return err
	}
	if wanted.budgets {
		if err := r.disruption(ctx); err != nil {
			return err
		}
	}
	if wanted.scheduling {
		if err := r.scheduling(ctx); err != nil {
			return err
		}
	}
	if wanted.signs {
		return r.signs(ctx)
	}
	return nil
}

func (r *apiReader) required(ctx context.Context) error {
	err := listAll(ctx, r, "nodes", r.clients.CoreV1().Nodes().List, func(node *corev1.Node) {
		r.cluster.Nodes = append(r.cluster.Nodes, plan.SlimNode(node))
	})
	if err != nil {
		return err
	}
	var sharer plan.Sharer
	return listAll(ctx, r, "pods", r.clients.CoreV1().Pods(metav1.NamespaceAll).List, func(pod *corev1.Pod) {
		r.cluster.Pods = append(r.cluster.Pods, sharer.Share(plan.SlimPod(pod)))
	})
}

func (r *apiReader) disruption(ctx context.Context) error {
	budgets := r.clients.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	err := listAll(ctx, r, "poddisruptionbudgets", budgets.List, keep(&r.cluster.Budgets, plan.SlimBudget))
	if err := r.without(err, "no PodDisruptionBudget is taken into account"); err != nil {
		return err
	}
	for _, kind := range []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
	} {
		list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			return r.metadata.Resource(kind).List(ctx, options)
		}
		err := listAll(ctx, r, kind.Resource, list, func(object *metav1.PartialObjectMetadata) {
			if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
				r.cluster.Controllers[object.UID] = *controller
			}
		})
		if err := r.without(err, "who controls them is guessed, or not known"); err != nil {
			return err
		}
	}
	return nil
}

func (r *apiReader) scheduling(ctx context.Context) error {
	const follows = "where pods would go is told without them"
	core, storage := r.clients.CoreV1(), r.clients.StorageV1()
	claims, classes := core.PersistentVolumeClaims(metav1.NamespaceAll), storage.StorageClasses()
	for _, err := range []error{
		listAll(ctx, r, "namespaces", core.Namespaces().List, keep(&r.cluster.Namespaces, plan.SlimNamespace)),
		listAll(ctx, r, "persistentvolumeclaims", claims.List, keep(&r.cluster.Claims, plan.SlimClaim)),
		listAll(ctx, r, "persistentvolumes", core.PersistentVolumes().List, keep(&r.cluster.Volumes, plan.SlimVolume)),
		listAll(ctx, r, "storageclasses", classes.List, keep(&r.cluster.StorageClasses, plan.SlimStorageClass)),
		listAll(ctx, r, "csinodes", storage.CSINodes().List, keep(&r.cluster.CSINodes, plan.SlimCSINode)),
	} {
		if err := r.without(err, follows); err != nil {
			return err
		}
	}
	return nil
}

// keep appends what is needed of each object.
func keep[T any](all *[]*T, slim func(*T) *T) func(*T) {
	return func(object *T) { *all = append(*all, slim(object)) }
}

// without goes on without a kind that may not be read or that the API server does not have, and says what follows.
func (r *apiReader) without(err error, follows string) error {
	if denied, ok := errors.AsType[deniedError](err); ok {
		r.cluster.Missing = append(r.cluster.Missing, fmt.Sprintf("You may not list %s, so %s.", denied.kind, follows))
		return nil
	}
	if absent, ok := errors.AsType[absentError](err); ok {
		missing := fmt.Sprintf("The API server does not have %s, so %s.", absent.kind, follows)
		r.cluster.Missing = append(r.cluster.Missing, missing)
		return nil
	}
	return err
}

// deniedError: the API server does not let us read a kind.
type deniedError struct {
	kind string
	error
}

// absentError: the API server does not have a kind.
type absentError struct {
	kind string
	error
}

func (e absentError) Unwrap() error { return e.error }

// isUnreadable reports whether a kind may not be read, or is not there.
func isUnreadable(err error) bool {
	_, denied := errors.AsType[deniedError](err)
	_, absent := errors.AsType[absentError](err)
	return denied || absent
}

// listAll lists all objects of a kind.
func listAll[L runtime.Object, T any](ctx context.Context, r *apiReader, kind string,
	list func(context.Context, metav1.ListOptions) (L, error), each func(*T)) error {
	return listSome(ctx, r, kind, fields.Everything(), list, each)
}

// listSome lists objects of a kind, page by page, so that no more than one page is held as a whole.
func listSome[L runtime.Object, T any](ctx context.Context, r *apiReader, kind string, which fields.Selector,
	list func(context.Context, metav1.ListOptions) (L, error), each func(*T)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		defer r.progress.WaitFor(r.server, kind)()
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: which.String()}, func(object runtime.Object) error {
		typed, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("the API server sent %T", object)
		}
		each(typed)
		r.progress.Count(kind)
		return nil
	})
	return failed(ctx, r.server, "list", kind, err)
}

// failed says why a call failed, and what to do. Without an error it is nil.
func failed(ctx context.Context, server, verb, kind string, err error) error {
	doing := verb + " " + kind
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", doing)
	case apierrors.IsForbidden(err):
		return deniedError{kind, fmt.Errorf("%s: %w: ask for the right to %s them, or name files with -f", doing, err, verb)}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server %s does not know you: %w: log in again", doing, server, err)
	case apierrors.IsNotFound(err):
		return absentError{kind, fmt.Errorf("%s: the API server %s does not have them: %w: check the context (kubectl config current-context)", doing, server, err)}
	case isDistrust(err):
		return fmt.Errorf("%s: the API server %s is not who the kubeconfig says: %w: check the server and its certificate authority there", doing, server, err)
	case isSilence(err):
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

// isSilence reports whether no answer came.
func isSilence(err error) bool {
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded)
}
