// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// Calls tells which calls a fault concerns.
type Calls func(*http.Request) bool

// PodDeletes are the deletes of pods in a namespace.
func PodDeletes(namespace string) Calls { return podCalls(http.MethodDelete, namespace, "") }

// PodStatusPatches are the patches of the status of pods in a namespace.
func PodStatusPatches(namespace string) Calls {
	return podCalls(http.MethodPatch, namespace, "/status")
}

func podCalls(method, namespace, suffix string) Calls {
	prefix := "/api/v1/namespaces/" + namespace + "/pods/"
	return func(request *http.Request) bool {
		path := request.URL.Path
		return request.Method == method && strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix)
	}
}

// PatchesOfNode are the patches of a node, without those of its status.
func PatchesOfNode(name string) Calls {
	return func(request *http.Request) bool {
		return request.Method == http.MethodPatch && request.URL.Path == "/api/v1/nodes/"+name
	}
}

// WatchesOfNodes are the watches of all nodes.
func WatchesOfNodes(request *http.Request) bool { return watchesOf("/api/v1/nodes", request) }

// WatchesOfPods are the watches of the pods of all namespaces.
func WatchesOfPods(request *http.Request) bool { return watchesOf("/api/v1/pods", request) }

func watchesOf(path string, request *http.Request) bool {
	watch := slices.Contains([]string{"true", "1"}, request.URL.Query().Get("watch"))
	return request.Method == http.MethodGet && request.URL.Path == path && watch
}
