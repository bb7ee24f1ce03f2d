// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build staging

package placement

// k8s.io/kubernetes requires the repositories of its staging area at v0.0.0 and replaces them, which has an effect only
// in its own module. Therefore go.mod names the released version of each. This file, which is never built, stops "go
// mod tidy" from dropping those that no package of ours imports. Without them, "go list -m all" and "go get" look for a
// v0.0.0 that does not exist.
import (
	_ "k8s.io/cluster-bootstrap/token/api"
	_ "k8s.io/cri-api/pkg/apis"
	_ "k8s.io/cri-client/pkg/logs"
	_ "k8s.io/cri-streaming/pkg/streaming"
	_ "k8s.io/endpointslice/util"
	_ "k8s.io/externaljwt/apis/v1"
	_ "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	_ "k8s.io/kube-controller-manager/config/v1alpha1"
	_ "k8s.io/kube-proxy/config/v1alpha1"
	_ "k8s.io/kubectl/pkg/util/term"
	_ "k8s.io/metrics/pkg/apis/metrics"
	_ "k8s.io/mount-utils"
	_ "k8s.io/pod-security-admission/api"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle/v1alpha1"
)
