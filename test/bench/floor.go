// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
)

// floorCommand makes this program the floor: a process that knows in advance which pods to evict, and makes only the
// two calls for each of them. It watches pods and nodes as every evictor must, but ignores what the watches bring. No
// eviction that sets the condition before it deletes can be faster with as many workers.
const floorCommand = "floor"

func runFloor(ctx context.Context, kubeconfig string) error {
	client, err := floorClient(kubeconfig)
	if err != nil {
		return err
	}
	if err := watchBlindly(ctx, client); err != nil {
		return err
	}
	fmt.Println("ready")
	for input := bufio.NewReader(os.Stdin); goesOn(input); {
		pods, err := learn(ctx, client)
		if err != nil {
			return err
		}
		fmt.Println("learnt")
		if !goesOn(input) {
			break
		}
		if err := evictAll(ctx, client, pods); err != nil {
			return err
		}
	}
	return nil
}

// watchBlindly watches pods and nodes until the process ends. The watches begin with the next change, because sending
// all existing objects, which are not used, would keep the API server busy during the storm.
func watchBlindly(ctx context.Context, client kubernetes.Interface) error {
	for _, resource := range []string{"pods", "nodes"} {
		latest, err := latestVersion(ctx, client, resource)
		if err != nil {
			return err
		}
		stream, err := client.CoreV1().RESTClient().Get().Resource(resource).
			Param("watch", "true").Param("resourceVersion", latest).Stream(ctx)
		if err != nil {
			return fmt.Errorf("watch %s: %w", resource, err)
		}
		go func() {
			defer stream.Close()
			_, _ = io.Copy(io.Discard, stream) // until the process ends
		}()
	}
	return nil
}

func latestVersion(ctx context.Context, client kubernetes.Interface, resource string) (string, error) {
	one, err := client.CoreV1().RESTClient().Get().Resource(resource).Param("limit", "1").Do(ctx).Get()
	if err != nil {
		return "", fmt.Errorf("list one of the %s: %w", resource, err)
	}
	return meta.NewAccessor().ResourceVersion(one)
}

// goesOn waits for a line, and reports whether there was one before the end of the input.
func goesOn(input *bufio.Reader) bool {
	_, err := input.ReadString('\n')
	return err == nil
}

// floorClient makes the client that Taintkeeper has.
func floorClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	return kubernetes.NewForConfig(apicall.Config(config))
}

// target is all that the floor knows about a pod.
type target struct {
	namespace, name string
	uid             types.UID
	generation      int64
}

func learn(ctx context.Context, client kubernetes.Interface) ([]target, error) {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: partLabel})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	var all []target
	for i := range pods.Items {
		pod := &pods.Items[i]
		all = append(all, target{pod.Namespace, pod.Name, pod.UID, pod.Generation})
	}
	return all, nil
}

func evictAll(ctx context.Context, client kubernetes.Interface, pods []target) error {
	// A limit of the group would start a goroutine per pod, and they would run in no order.
	queue := make(chan target, len(pods))
	for _, pod := range pods {
		queue <- pod
	}
	close(queue)
	var group errgroup.Group
	for range eviction.DefaultConcurrentEvictions {
		group.Go(func() error {
			var failures []error
			for pod := range queue {
				failures = append(failures, evict(ctx, client, pod))
			}
			return errors.Join(failures...)
		})
	}
	return group.Wait()
}

// evict makes the two calls of an eviction, just as Taintkeeper does.
func evict(ctx context.Context, client kubernetes.Interface, pod target) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.uid},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type":               corev1.DisruptionTarget,
			"status":             corev1.ConditionTrue,
			"reason":             "DeletionByTaintManager",
			"message":            "Taint manager: deleting due to NoExecute taint",
			"observedGeneration": pod.generation,
			"lastTransitionTime": metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode the condition: %w", err)
	}
	pods := client.CoreV1().Pods(pod.namespace)
	_, err = pods.Patch(ctx, pod.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("set the condition of pod %s: %w", pod.name, err)
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.uid))}
	if err := pods.Delete(ctx, pod.name, options); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.name, err)
	}
	return nil
}
