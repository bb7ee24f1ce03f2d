// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

const (
	// perTransaction is how many objects are written to etcd at once.
	perTransaction = 100
	// writers is how many transactions run at the same time.
	writers = 4
	// podsPerReplicaSet is how many pods have an owner in common.
	podsPerReplicaSet = 30
	// fillLimit is how long the API server may take to read what was written.
	fillLimit = 15 * time.Minute
	// registry is where API servers store what they have.
	registry = "/registry"
)

// stored writes and reads objects as an API server stores them.
var stored = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// crowd is how many nodes and pods have been written directly to etcd, and what they are copies of.
type crowd struct {
	nodes, pods int
	node        *corev1.Node
	pod         *corev1.Pod
}

// fillSmall fills the cluster up to a number of nodes and pods. One node and one pod are created through the API, as
// kubelets and controllers do. The others are copies, under names of their own, of what the API server has stored, and
// are written directly to etcd. The API server learns of them through its watch of etcd, as it learns of what another
// API server has written. Creating each through the API would take a quarter of an hour.
func (b *bench) fillSmall(ctx context.Context, nodes, pods int) error {
	if err := b.fillNodes(ctx, nodes); err != nil {
		return err
	}
	if b.crowd.pod == nil {
		pod, err := b.storedPod(ctx, smallPod(nodes))
		if err != nil {
			return err
		}
		b.crowd.pod = pod
	}
	another := func(i int) *corev1.Pod { return anotherPod(b.crowd.pod, i, nodes) }
	first := b.crowd.pods
	b.crowd.pods = max(first, pods)
	return b.fillPods(ctx, first, b.crowd.pods, another)
}

// fillSlim fills the cluster up to a number of nodes, and adds slim pods. It returns a function that makes each pod.
func (b *bench) fillSlim(ctx context.Context, nodes, pods int) (slim func(i int) *corev1.Pod, err error) {
	if err := b.fillNodes(ctx, nodes); err != nil {
		return nil, err
	}
	template, err := b.storedPod(ctx, slimPod(nodes))
	if err != nil {
		return nil, err
	}
	slim = func(i int) *corev1.Pod { return anotherSlimPod(template, i, nodes) }
	return slim, b.fillPods(ctx, 0, pods, slim)
}

// removeSlim removes the slim pods from etcd directly, and waits until the API server has noticed that the last one is
// gone.
func (b *bench) removeSlim(ctx context.Context, last *corev1.Pod) error {
	if err := b.etcd.remove(ctx, path.Join(registry, "pods", slimNamespace)+"/"); err != nil {
		return err
	}
	return b.awaitPod(ctx, last, false)
}

func (b *bench) fillNodes(ctx context.Context, count int) error {
	if b.crowd.node == nil {
		node, err := b.storedNode(ctx)
		if err != nil {
			return err
		}
		b.crowd.node = node
	}
	first := b.crowd.nodes
	b.crowd.nodes = max(first, count)
	err := fill(ctx, b.etcd.put, first, b.crowd.nodes, func(i int) (string, runtime.Object) {
		another := anotherNode(b.crowd.node, i)
		return path.Join(registry, "minions", another.Name), another
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	return nil
}

// fillPods writes pods, and waits until the API server has read them.
func (b *bench) fillPods(ctx context.Context, first, end int, pod func(i int) *corev1.Pod) error {
	if err := fill(ctx, b.etcd.put, first, end, keyed(pod)); err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	b.say("  pods of %d bytes, nodes of %d", pod(0).Size(), b.crowd.node.Size())
	return b.awaitPod(ctx, pod(end-1), true)
}

// keyed adds the key under which the API server stores a pod.
func keyed(pod func(i int) *corev1.Pod) func(i int) (string, runtime.Object) {
	return func(i int) (string, runtime.Object) {
		p := pod(i)
		return path.Join(registry, "pods", p.Namespace, p.Name), p
	}
}

// putter writes objects at once.
type putter func(context.Context, []keyValue) error

// fill writes the objects numbered from first to end-1 under their keys, and the last of them after all others.
func fill(ctx context.Context, put putter, first, end int, object func(i int) (string, runtime.Object)) error {
	if first >= end {
		return nil
	}
	last := end - 1
	group, parallel := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for next := first; next < last; next += perTransaction {
		group.Go(func() error { return put.some(parallel, next, min(next+perTransaction, last), object) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return put.some(ctx, last, end, object)
}

// some writes the objects numbered from first to end-1, as the API server would store them.
func (p putter) some(ctx context.Context, first, end int, object func(i int) (string, runtime.Object)) error {
	var batch []keyValue
	for i := first; i < end; i++ {
		key, o := object(i)
		value, err := runtime.Encode(stored, o)
		if err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		batch = append(batch, keyValue{Key: []byte(key), Value: value})
	}
	return p(ctx, batch)
}

// awaitPod waits until the API server's cache has a pod, or no longer has it. The cache then has everything that was
// written or removed before that pod, too.
func (b *bench) awaitPod(ctx context.Context, pod *corev1.Pod, there bool) error {
	cached := metav1.GetOptions{ResourceVersion: "0"}
	err := wait.PollUntilContextTimeout(ctx, time.Second, fillLimit, true, func(ctx context.Context) (bool, error) {
		_, err := b.admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, cached)
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		return (err == nil) == there, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server has read all pods: %w", err)
	}
	return nil
}

func decodeStored(content []byte, into runtime.Object) error {
	_, kind, err := stored.Decode(content, nil, into)
	if err != nil {
		return fmt.Errorf("decode what the API server has stored: %w", err)
	}
	into.GetObjectKind().SetGroupVersionKind(*kind)
	return nil
}

// storedNode creates a node and returns it as it is stored.
func (b *bench) storedNode(ctx context.Context) (*corev1.Node, error) {
	created, err := b.admin.CoreV1().Nodes().Create(ctx, productionNode("node-template"), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a node: %w", err)
	}
	content, err := b.etcd.get(ctx, path.Join(registry, "minions", created.Name))
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	return node, decodeStored(content, node)
}

// storedPod creates a pod, lets it run, and returns it as it is stored.
func (b *bench) storedPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pods := b.admin.CoreV1().Pods(pod.Namespace)
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a pod: %w", err)
	}
	created.Status = runningStatus(created)
	if _, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("set the status of a pod to Running: %w", err)
	}
	content, err := b.etcd.get(ctx, path.Join(registry, "pods", created.Namespace, created.Name))
	if err != nil {
		return nil, err
	}
	asStored := &corev1.Pod{}
	return asStored, decodeStored(content, asStored)
}

func scaleNodeName(i int) string { return fmt.Sprintf("worker-%05d", i) }

func anotherNode(node *corev1.Node, i int) *corev1.Node {
	another := node.DeepCopy()
	another.Name = scaleNodeName(i)
	another.UID = uuid.NewUUID()
	another.Labels[corev1.LabelHostname] = another.Name
	another.Status.Addresses = addresses(another.Name, hostIP(i))
	return another
}

func anotherPod(pod *corev1.Pod, i, nodes int) *corev1.Pod {
	another := pod.DeepCopy()
	set := i / podsPerReplicaSet
	another.Name = fmt.Sprintf("shop-%010x-%05d", set, i)
	another.Namespace = namespace(set)
	another.UID = uuid.NewUUID()
	another.Labels["app.kubernetes.io/instance"] = fmt.Sprintf("shop-%d", set)
	another.OwnerReferences[0].Name = fmt.Sprintf("shop-%010x", set)
	another.Spec.NodeName = scaleNodeName(i % nodes)
	another.Status.HostIP = hostIP(i % nodes)
	another.Status.HostIPs = []corev1.HostIP{{IP: another.Status.HostIP}}
	another.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", 64+i>>16, i>>8&255, i&255)
	another.Status.PodIPs = []corev1.PodIP{{IP: another.Status.PodIP}}
	another.Status.ContainerStatuses[0].ContainerID = "containerd://" + string(another.UID)
	return another
}

func hostIP(i int) string { return fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255) }

// smallPod is a pod with one container, of a ReplicaSet. The API server adds what else an ordinary pod has, such as the
// tolerations for not-ready and unreachable.
func smallPod(nodes int) *corev1.Pod {
	pod := productionPod("scale", 0, scaleNodeName(nodes-1))
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "shop", UID: uuid.NewUUID(), Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	application := &pod.Spec.Containers[0]
	application.Env = application.Env[len(application.Env)-3:]
	pod.Spec.Containers = pod.Spec.Containers[:1]
	return pod
}

// slimNamespace has the slim pods, so that others can be removed without them.
const slimNamespace = "slim"

// slimPod has what every pod that runs has, and nothing else, so that an API server has room for a million of them.
func slimPod(nodes int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "slim-template", Namespace: slimNamespace},
		Spec: corev1.PodSpec{
			NodeName:   scaleNodeName(nodes - 1),
			Containers: []corev1.Container{{Name: "application", Image: "registry.example.com/application:2026.11.3"}},
		},
	}
}

// anotherSlimPod is a copy under a name of its own, without the managed fields, which are most of a small object. It is
// of one of 2,000 apps, each of which is one team's and in one tier. The same number gives the same pod.
func anotherSlimPod(pod *corev1.Pod, i, nodes int) *corev1.Pod {
	another, app := pod.DeepCopy(), i%2000
	another.ManagedFields = nil
	another.Name = fmt.Sprintf("slim-%07d", i)
	another.UID = types.UID(fmt.Sprintf("%08x-71c1-4e8f-9d3a-%012x", uint32(i)*2654435761, i))
	another.Spec.NodeName = scaleNodeName(i % nodes)
	another.Labels = map[string]string{
		"app.kubernetes.io/name": fmt.Sprintf("app-%04d", app),
		"example.com/team":       fmt.Sprintf("team-%02d", app%40), "example.com/tier": fmt.Sprintf("tier-%d", app%3),
	}
	return another
}

// runningStatus is what a kubelet says about a pod that runs.
func runningStatus(pod *corev1.Pod) corev1.PodStatus {
	began := metav1.NewTime(pod.CreationTimestamp.Add(time.Second))
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: pod.Status.QOSClass, StartTime: &began,
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
		PodIP: "10.64.0.1", PodIPs: []corev1.PodIP{{IP: "10.64.0.1"}},
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: began,
		})
	}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, ContainerID: "containerd://0",
			Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	return status
}

// productionNode is a node that a kubelet has reported about: fifty images account for most of its size, as on any
// node.
func productionNode(name string) *corev1.Node {
	const images = 50
	object := node(name)
	object.Status.Addresses = addresses(name, hostIP(0))
	object.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	object.Status.Allocatable = object.Status.Capacity
	object.Status.NodeInfo = corev1.NodeSystemInfo{
		KernelVersion: "6.12.48", OSImage: "Linux", OperatingSystem: "linux", Architecture: "amd64",
		ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.37.2",
	}
	for i := range images {
		object.Status.Images = append(object.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("%s-%02d", container("application", 8080).Image, i), fmt.Sprintf("registry.example.com/storefront/application-%02d:2026.11.3", i)},
			SizeBytes: 1 << 27,
		})
	}
	return object
}

func addresses(name, ip string) []corev1.NodeAddress {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}}
}

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
