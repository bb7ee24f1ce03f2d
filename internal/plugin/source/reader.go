// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Patience is the default of --request-timeout: how long one call may take. Without it, a cluster that does not answer
// would block the command.
const Patience = 30 * time.Second

// Reader reads the objects of a cluster from its API server, in pages.
type Reader struct {
	// Server is the address of the API server, for messages.
	Server  string
	Clients kubernetes.Interface
	// Watches is like Clients, but without a timeout.
	Watches kubernetes.Interface
	// Dynamic is for our own resources, and DynamicWatches the same without a timeout.
	Dynamic, DynamicWatches dynamic.Interface

	Progress *show.Progress
	// Clock is the API server's clock.
	Clock *timeline.Clock
	// Cluster is what was read.
	Cluster *state.Cluster
	// Home is the namespace in which a user may read who may not read all.
	Home string

	owners metadata.Interface // for ReplicaSets and Jobs, of which only the controllers matter
}

// Connect returns a Reader for the API server in a configuration.
func Connect(config *rest.Config, progress *show.Progress) (*Reader, error) {
	clock := &timeline.Clock{}
	config = ForReading(clock.Listen(config))
	clients, err := kubernetes.NewForConfig(config)
	patient := rest.CopyConfig(config)
	patient.Timeout = 0 // a timeout would end watches
	watches, watchesErr := kubernetes.NewForConfig(patient)
	dynamicWatches, dynamicWatchesErr := dynamic.NewForConfig(patient)
	metadataClient, metadataErr := metadata.NewForConfig(config)
	dynamicClient, dynamicErr := dynamic.NewForConfig(config)
	for _, err := range []error{err, watchesErr, dynamicWatchesErr, metadataErr, dynamicErr} {
		if err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
	reader := NewReader(config.Host, clients, dynamicClient, metadataClient, progress)
	reader.Clock, reader.Watches, reader.DynamicWatches = clock, watches, dynamicWatches
	return reader, nil
}

// Dialer connects to the cluster for a command that changes it. The API server's answers set the clock.
type Dialer func(command.Env, *genericclioptions.ConfigFlags) (*Reader, error)

// Dial is the Dialer for the cluster in the kubeconfig. It prints each warning of the API server once.
func Dial(env command.Env, flags *genericclioptions.ConfigFlags) (*Reader, error) {
	config, err := RESTConfigOf(flags)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = newWarnings(env.ErrOut)
	reader, err := connectTo(env, flags, config)
	if err != nil {
		return nil, err
	}
	reader.Clock.Wall = env.Clock.Now
	return reader, nil
}

// connectTo returns a Reader for the cluster that flags select, with its configuration.
func connectTo(env command.Env, flags *genericclioptions.ConfigFlags, config *rest.Config) (*Reader, error) {
	reader, err := Connect(config, show.NewProgress(env))
	if err != nil {
		return nil, err
	}
	reader.Cluster.Location = LocationOf(flags, config)
	reader.Home, _, _ = flags.ToRawKubeConfigLoader().Namespace()
	return reader, nil
}

// NewReader returns a Reader that has not read anything yet.
func NewReader(server string, clients kubernetes.Interface, dynamicClient dynamic.Interface,
	owners metadata.Interface, progress *show.Progress,
) *Reader {
	return &Reader{
		Server: server, Clients: clients, Watches: clients, Dynamic: dynamicClient, Progress: progress, owners: owners,
		Clock:   &timeline.Clock{},
		Cluster: &state.Cluster{Controllers: map[types.UID]metav1.OwnerReference{}},
	}
}

// ForReading returns a configuration for reading many objects.
func ForReading(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	config.QPS = -1 // the API server does the flow control
	if config.Timeout == 0 {
		config.Timeout = Patience
	}
	return config
}

// Read reads what a command needs into a new cluster. Nodes and pods are required. The cluster says what else is
// missing.
func (r *Reader) Read(ctx context.Context, wanted Wants) error {
	r.Cluster = &state.Cluster{Location: r.Cluster.Location, Controllers: map[types.UID]metav1.OwnerReference{}}
	for _, read := range []func(context.Context, Wants) error{
		r.required, r.policies, r.disruption, r.scheduling, r.renewals, r.signs, r.health, r.evictor,
	} {
		if err := read(ctx, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) required(ctx context.Context, wanted Wants) error {
	err := List(ctx, r, "nodes", r.Clients.CoreV1().Nodes().List, func(node *corev1.Node) {
		r.Cluster.Nodes = append(r.Cluster.Nodes, wanted.slimNode(node))
	})
	if wanted.WithoutNodes != "" {
		err = r.Without(err, wanted.WithoutNodes)
	}
	if err != nil {
		return err
	}
	which := cmp.Or(wanted.Pods, fields.Everything())
	err = r.within(wanted.Namespace, func(namespace string) error {
		list := r.Clients.CoreV1().Pods(namespace).List
		return listSome(ctx, r, "pods", which, list, func(pod *corev1.Pod) { state.Pods.Add(r.Cluster, pod) })
	})
	r.Cluster.KeepUsedImages()
	return err
}

// within lists a kind in a namespace, or in all. A user who may not list it in all gets what is in the home namespace,
// and the cluster says so.
func (r *Reader) within(namespace string, list func(namespace string) error) error {
	err := list(namespace)
	denied, ok := errors.AsType[DeniedError](err)
	if !ok || namespace != metav1.NamespaceAll || r.Home == "" || list(r.Home) != nil {
		return err
	}
	r.Cluster.Only = r.Home
	r.Cluster.OnlyThere = append(r.Cluster.OnlyThere, denied.Kind)
	return nil
}

func (r *Reader) policies(ctx context.Context, wanted Wants) error {
	if !wanted.Policies {
		return nil
	}
	return r.Policies(ctx)
}

// disruption reads the budgets, which policies need too, and the controllers of ReplicaSets and Jobs.
func (r *Reader) disruption(ctx context.Context, wanted Wants) error {
	if !wanted.Budgets && len(r.Cluster.Policies) == 0 {
		return nil
	}
	if err := r.Budgets(ctx, wanted.Namespace); err != nil || !wanted.Budgets {
		return err
	}
	jobs := r.jobs
	if !wanted.Scheduling {
		jobs = r.controllersOf("batch", "jobs")
	}
	for _, read := range []func(context.Context) error{r.controllersOf("apps", "replicasets"), jobs} {
		if err := r.Without(read(ctx), "their owners are guessed, or not known"); err != nil {
			return err
		}
	}
	return nil
}

// controllersOf reads only the controllers of the objects of a kind.
func (r *Reader) controllersOf(group, resource string) func(context.Context) error {
	kind := r.owners.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	return func(ctx context.Context) error {
		return r.within(metav1.NamespaceAll, func(namespace string) error {
			list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				return kind.Namespace(namespace).List(ctx, options)
			}
			return List(ctx, r, resource, list, func(object *metav1.PartialObjectMetadata) { r.keepController(object) })
		})
	}
}

// jobs reads the controllers of Jobs, and whether the Jobs create successors.
func (r *Reader) jobs(ctx context.Context) error {
	return r.within(metav1.NamespaceAll, func(namespace string) error {
		return List(ctx, r, "jobs", r.Clients.BatchV1().Jobs(namespace).List, func(job *batchv1.Job) {
			r.keepController(job)
			state.Jobs.Add(r.Cluster, job)
		})
	})
}

func (r *Reader) keepController(object metav1.Object) {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		r.Cluster.Controllers[object.GetUID()] = *controller
	}
}

// scheduling reads the namespaces, which policies need too, and the other objects that the scheduler and successors
// need.
func (r *Reader) scheduling(ctx context.Context, wanted Wants) error {
	const follows = "the placement of pods ignores them"
	var err error
	switch {
	case len(r.Cluster.Policies) > 0:
		err = r.Namespaces(ctx)
	case wanted.Scheduling:
		err = r.namespaces(ctx, follows)
	}
	if err != nil {
		return err
	}
	for _, kind := range state.Kinds {
		var means string
		switch {
		case wanted.Scheduling && kind.Scheduling:
			means = follows
		case wanted.Successors && kind.Successors != "":
			means = kind.Successors
		default:
			continue
		}
		if err := r.Without(r.ListKind(ctx, kind, metav1.NamespaceAll), means); err != nil {
			return err
		}
	}
	return nil
}

// renewals reads the Leases of nodes.
func (r *Reader) renewals(ctx context.Context, wanted Wants) error {
	if !wanted.Renewals {
		return nil
	}
	leases := r.Clients.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	err := List(ctx, r, "leases", leases.List, r.Cluster.AddRenewal)
	return r.Without(err, "it is not known when kubelets last renewed them")
}

// Without continues without a kind that may not be read or that the API server does not serve, and says what that
// means.
func (r *Reader) Without(err error, follows string) error {
	if denied, ok := errors.AsType[DeniedError](err); ok {
		r.Cluster.Unknown = append(r.Cluster.Unknown, state.Unknown{Resource: denied.Kind, Says: denied.Means(follows)})
		return nil
	}
	if absent, ok := errors.AsType[absentError](err); ok {
		says := fmt.Sprintf("The API server does not have %s, so %s.", absent.kind, follows)
		r.Cluster.Unknown = append(r.Cluster.Unknown, state.Unknown{Resource: absent.kind, Says: says})
		return nil
	}
	return err
}

// ListKind adds the objects of a kind in a namespace, or in all, to the cluster.
func (r *Reader) ListKind(ctx context.Context, kind *state.Kind, namespace string) error {
	return r.within(namespace, func(namespace string) error {
		list := kind.List(r.Clients, namespace)
		return r.each(ctx, kind.Resource, fields.Everything(), list, func(object runtime.Object) error {
			kind.Add(r.Cluster, object)
			return nil
		})
	})
}

// List lists all objects of a kind.
func List[L runtime.Object, T any](ctx context.Context, r *Reader, kind string,
	list func(context.Context, metav1.ListOptions) (L, error), each func(*T)) error {
	return listSome(ctx, r, kind, fields.Everything(), list, each)
}

// listSome lists objects of a kind.
func listSome[L runtime.Object, T any](ctx context.Context, r *Reader, kind string, which fields.Selector,
	list func(context.Context, metav1.ListOptions) (L, error), each func(*T)) error {
	untyped := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	}
	return r.each(ctx, kind, which, untyped, func(object runtime.Object) error {
		typed, ok := object.(any).(*T)
		if !ok {
			return fmt.Errorf("the API server sent %T", object)
		}
		each(typed)
		return nil
	})
}

// each lists objects of a kind page by page, so that only one page at a time is in memory completely.
func (r *Reader) each(ctx context.Context, kind string, which fields.Selector, list state.ListFunc,
	each func(runtime.Object) error) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		defer r.Progress.WaitFor(r.Server, kind)()
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: which.String()}, func(object runtime.Object) error {
		defer r.Progress.Count(kind)
		return each(object)
	})
	return Failed(ctx, r.Server, "list", kind, err)
}

// Unlike objects from an API server, objects in files have not been validated. This rejects those that no API server
// would have.

// checks are what is checked before an object is converted, by kind.
var checks = map[*state.Kind]func(*unstructured.Unstructured) error{
	state.Pods:     func(pod *unstructured.Unstructured) error { return checkSeconds(pod, "spec") },
	state.Policies: checkPolicy,
}

// checkPolicy returns the error that the API server would return. It would ignore a field with a typo.
func checkPolicy(object *unstructured.Unstructured) error {
	if err := strict(object.Object, &v1alpha1.EvictionPolicy{}); err != nil {
		return err
	}
	return validatePolicy(object.Object)
}

// objectName identifies a node or a pod of a cluster.
type objectName struct{ kind, namespace, name string }

// knows reports whether an object was already taken: it has the same UID or, if files do not contain UIDs, the same
// name. It returns an error for a node or pod with the same name and another UID, because they cannot be from the same
// cluster. For check, whose files may be manifests, names are not compared, so objects without a UID all count.
func (c *collector) knows(object *unstructured.Unstructured) (bool, error) {
	uid, kind := object.GetUID(), object.GroupVersionKind().GroupKind()
	name := objectName{kind.Kind, object.GetNamespace(), object.GetName()}
	if uid != "" {
		switch seen, ok := c.seen[uid]; {
		case ok && seen == name:
			return true, nil
		case ok:
			return false, fmt.Errorf("%s %s has the same UID: give each object its own, or none", seen.kind, seen.name)
		}
		c.seen[uid] = name
	}
	if c.wants.Templates || kind != state.Nodes.GroupKind() && kind != state.Pods.GroupKind() {
		return false, nil
	}
	if object.GetName() == "" {
		return false, errors.New("it has no name")
	}
	known, ok := c.named[name]
	switch {
	case !ok:
		c.named[name] = uid
		return false, nil
	case known != uid:
		return false, errors.New("the files contain it twice, with different UIDs, so they are from two clusters or two points in time: plan with one of them at a time")
	}
	return true, nil
}

// checkTaints returns an error for taints that no node can have. A later Kubernetes may have other effects.
func checkTaints(all []corev1.Taint) error {
	for _, taint := range all {
		if taint.Effect == "" {
			return fmt.Errorf("taint %q has no effect", taints.Format(taint))
		}
		taint.Effect = corev1.TaintEffectNoExecute
		if _, err := taints.Parse(taints.Format(taint)); err != nil {
			return err
		}
	}
	return nil
}

// checkSeconds returns an error for tolerationSeconds that are not a whole number. The conversion would change them.
func checkSeconds(object *unstructured.Unstructured, path ...string) error {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, append(slices.Clone(path), "tolerations")...)
	tolerations, _ := value.([]any)
	for i, value := range tolerations {
		toleration, _ := value.(map[string]any)
		seconds, ok := toleration["tolerationSeconds"].(float64)
		if ok && (seconds != math.Trunc(seconds) || math.Abs(seconds) >= math.MaxInt64) {
			return fmt.Errorf("tolerationSeconds of tolerations[%d] is %g: write a whole number of seconds", i, seconds)
		}
	}
	return nil
}

// convert converts an object to a type. Its error names the field.
func convert(object map[string]any, typed any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed)
	if err == nil {
		return nil
	}
	data, broken := json.Marshal(object)
	if broken != nil {
		return err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(data, typed)); ok {
		return fmt.Errorf("%s has the type %s, but should have the type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// inFiles says what cannot be read in files, one short line each, because some errors quote their whole input.
func inFiles(err error) error {
	const most = 400
	var all []error
	if many, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		all = utilerrors.Flatten(many).Errors()
	} else {
		all = []error{err}
	}
	for i, one := range all {
		text, _, _ := strings.Cut(one.Error(), "\n")
		if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most {
			text = string(runes[:most]) + "…"
		}
		advice := ""
		if strings.HasPrefix(text, "unable to decode") || strings.HasPrefix(text, "error parsing") {
			advice = ": is it incomplete, or not an object that 'kubectl get -o yaml' wrote?"
		}
		all[i] = fmt.Errorf("read files: %s%s", text, advice)
	}
	return errors.Join(all...)
}

// strict is like convert, but rejects fields that the type does not have.
func strict(object map[string]any, typed any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true)
	if err == nil || runtime.IsStrictDecodingError(err) {
		return err
	}
	return convert(object, typed)
}

// Workload is a kind whose objects create pods from a template.
type Workload struct {
	Resource schema.GroupVersionResource
	template []string // the path of the template
}

// Workloads are the workload kinds of Kubernetes.
var Workloads = map[schema.GroupKind]Workload{
	{Group: "apps", Kind: "Deployment"}:        {v1("apps", "deployments"), []string{"spec", "template"}},
	{Group: "apps", Kind: "ReplicaSet"}:        {v1("apps", "replicasets"), []string{"spec", "template"}},
	{Group: "apps", Kind: "StatefulSet"}:       {v1("apps", "statefulsets"), []string{"spec", "template"}},
	{Group: "apps", Kind: "DaemonSet"}:         {v1("apps", "daemonsets"), []string{"spec", "template"}},
	{Group: "batch", Kind: "Job"}:              {v1("batch", "jobs"), []string{"spec", "template"}},
	{Group: "", Kind: "ReplicationController"}: {v1("", "replicationcontrollers"), []string{"spec", "template"}},
	{Group: "batch", Kind: "CronJob"}: {
		v1("batch", "cronjobs"), []string{"spec", "jobTemplate", "spec", "template"},
	},
}

func v1(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

// In returns the path of a field of the template.
func (k Workload) In(field ...string) []string { return slices.Concat(k.template, field) }
