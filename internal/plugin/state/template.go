// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Template is the pod template of an owner.
type Template struct {
	// Kind and Name identify the owner.
	Kind, Name  string
	Tolerations []corev1.Toleration
	// Writers are the field managers that wrote the template's tolerations. They are empty if that is not recorded.
	Writers []string
}

// TemplateOf returns the pod template of a workload: spec.template.
func TemplateOf(object *unstructured.Unstructured) (*Template, error) {
	listed, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "tolerations")
	if err != nil {
		return nil, fmt.Errorf("read the template of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	var template struct {
		Tolerations []corev1.Toleration `json:"tolerations"`
	}
	fields := map[string]any{"tolerations": listed}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &template); err != nil {
		return nil, fmt.Errorf("read the template of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return &Template{
		Kind: object.GetKind(), Name: object.GetName(), Tolerations: template.Tolerations,
		Writers: WritersOf(object.GetManagedFields(), "spec", "template", "spec", "tolerations"),
	}, nil
}

// WritersOf returns the managers of a field, according to managed fields.
func WritersOf(managed []metav1.ManagedFieldsEntry, path ...string) []string {
	var writers []string
	for _, entry := range managed {
		if entry.FieldsV1 != nil && owns(entry.FieldsV1.GetRawBytes(), path) && !slices.Contains(writers, entry.Manager) {
			writers = append(writers, entry.Manager)
		}
	}
	slices.Sort(writers)
	return writers
}

// owns reports whether a set of managed fields contains a field.
func owns(fields []byte, path []string) bool {
	for _, name := range path {
		var below map[string]json.RawMessage
		if err := json.Unmarshal(fields, &below); err != nil {
			return false
		}
		found, ok := below["f:"+name]
		if !ok {
			return false
		}
		fields = found
	}
	return true
}

// String names the template's owner and who wrote its tolerations.
func (t *Template) String() string {
	words := "the template of " + t.Kind + " " + t.Name
	if len(t.Writers) > 0 {
		words += ", written by " + strings.Join(t.Writers, ", ")
	}
	return words
}

// The scheduler prefers nodes that already have the images of a pod. It only compares names, so each name is replaced
// with its hash: names of images do not leave the cluster.

// hashed matches names that are already hashes, from a snapshot. They have a tag, because the scheduler adds one to
// names without a tag.
var hashed = regexp.MustCompile(`^image:[0-9a-f]{16}$`)

// slimImage returns the hash of the name of an image. If the name has no tag, it includes the default tag.
func slimImage(name string) string {
	if name == "" || hashed.MatchString(name) {
		return name
	}
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		name += ":latest"
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	return fmt.Sprintf("image:%016x", hash.Sum64())
}

// SlimImages returns the images of a node as the scheduler reads them.
func SlimImages(images []corev1.ContainerImage) []corev1.ContainerImage {
	all := make([]corev1.ContainerImage, len(images))
	for i, image := range images {
		names := make([]string, len(image.Names))
		for j, name := range image.Names {
			names[j] = slimImage(name)
		}
		all[i] = corev1.ContainerImage{Names: names, SizeBytes: image.SizeBytes}
	}
	return all
}

// KeepUsedImages drops the images of nodes that no pod uses.
func (c *Cluster) KeepUsedImages() {
	used := map[string]string{}
	for _, pod := range c.Pods {
		for _, name := range imagesOf(pod) {
			used[name] = name
		}
	}
	for _, node := range c.Nodes {
		var kept []corev1.ContainerImage
		for _, image := range node.Status.Images {
			var names []string
			for _, name := range image.Names {
				if name, ok := used[name]; ok {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				kept = append(kept, corev1.ContainerImage{Names: names, SizeBytes: image.SizeBytes})
			}
		}
		node.Status.Images = kept
	}
}

func imagesOf(pod *corev1.Pod) []string {
	var all []string
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			all = append(all, containers[i].Image)
		}
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			all = append(all, image.Reference)
		}
	}
	return slices.Compact(all)
}
