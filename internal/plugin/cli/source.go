// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// source is where the objects of a cluster come from: files if some are named, else the API server.
type source struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	files  resource.FilenameOptions
}

func newSource(env command.Env, config *genericclioptions.ConfigFlags) source {
	return source{env: env, config: config}
}

func (s *source) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&s.files.Filenames, "filename", "f", nil,
		"Files or folders that hold the objects, as 'kubectl get nodes,pods,... -A -o yaml' or 'kubectl taintkeeper snapshot' write them; '-' is stdin. No cluster is asked then.")
	cmd.Flags().BoolVarP(&s.files.Recursive, "recursive", "R", false, "Read the folders of -f with all folders in them.")
}

// offline reports whether files take the place of a cluster.
func (s *source) offline() bool { return len(s.files.Filenames) > 0 }

func (s *source) validate() error {
	if s.files.Recursive && !s.offline() {
		return command.Usagef("--recursive is for the folders of --filename: name some, or leave it out")
	}
	return nil
}

// read returns the objects of the cluster.
func (s *source) read(ctx context.Context, wanted wants) (*plan.Cluster, error) {
	if s.offline() {
		return readFiles(s.env.In, s.files, wanted)
	}
	rest, err := s.restConfig()
	if err != nil {
		return nil, err
	}
	return readAPI(ctx, rest, wanted, output.NewProgress(s.env))
}

// restConfig says how to reach the cluster.
func (s *source) restConfig() (*rest.Config, error) {
	config, err := restConfigOf(s.config)
	if err != nil {
		return nil, fmt.Errorf("%w, or name files with -f", err)
	}
	return config, nil
}

// namespace returns the namespace in which kubectl would look.
func (s *source) namespace() (string, error) {
	namespace, _, err := s.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find a namespace: %w: set a context (kubectl config use-context), or name files with -f", err)
	}
	return namespace, nil
}

// restConfigOf says how to reach the cluster that flags and kubeconfig name. Where they name none, kubectl asks
// localhost:8080, which has never heard of a cluster either.
func restConfigOf(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	const advice = "set a context (kubectl config use-context)"
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w: %s", err, advice)
	}
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w: %s", err, advice)
	}
	named := raw.CurrentContext + *flags.Context + *flags.ClusterName + *flags.APIServer
	if named == "" && config.Host == nobody {
		return nil, fmt.Errorf("find a cluster: no context is chosen: %s", advice)
	}
	return config, nil
}

// nobody is the API server that kubectl asks if none is named.
const nobody = "http://localhost:8080"

// wants says what a command needs besides nodes and pods.
type wants struct {
	budgets    bool // PodDisruptionBudgets, and who controls ReplicaSets and Jobs
	scheduling bool // what the scheduler asks for
	signs      bool // traces of the controllers that evict and taint
	templates  bool // workloads whose pods files do not hold; then they need not hold nodes either
}
