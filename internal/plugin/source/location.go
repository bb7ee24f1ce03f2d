// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

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
