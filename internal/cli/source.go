// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/taintkeeper/taintkeeper/internal/plan"
)

// source is where the objects of a cluster come from: files if some are named, else the API server.
type source struct {
	env    Env
	config *genericclioptions.ConfigFlags
	files  resource.FilenameOptions
}

func newSource(env Env, config *genericclioptions.ConfigFlags) source {
	return source{env: env, config: config}
}

func (s *source) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&s.files.Filenames, "filename", "f", nil,
		"Files or folders that hold the objects, as 'kubectl get nodes,pods,... -A -o yaml' or 'kubectl taintkeeper snapshot' write them; '-' is stdin. No cluster is asked then.")
	cmd.Flags().BoolVarP(&s.files.Recursive, "recursive", "R", false, "Read the folders of -f with all folders in them.")
}

// offline reports whether files take the place of a cluster.
func (s *source) offline() bool { return len(s.files.Filenames) > 0 }

// read returns the objects of the cluster.
func (s *source) read(ctx context.Context, wanted wants) (*plan.Cluster, error) {
	if s.offline() {
		return readFiles(s.env.In, s.files, wanted)
	}
	rest, err := s.config.ToRESTConfig()
	if err != nil {
		return nil, s.notFound(err)
	}
	return readAPI(ctx, rest, wanted, newProgress(s.env))
}

// notFound says that no cluster is configured.
func (s *source) notFound(err error) error {
	return fmt.Errorf("find a cluster: %w: set a context (kubectl config use-context), or name files with -f", err)
}

// wants says what a command needs besides nodes and pods.
type wants struct {
	budgets    bool // PodDisruptionBudgets, and who controls ReplicaSets and Jobs
	scheduling bool // what the scheduler asks for
	signs      bool // traces of the controllers that evict and taint
	templates  bool // workloads whose pods files do not hold; then they need not hold nodes either
}
