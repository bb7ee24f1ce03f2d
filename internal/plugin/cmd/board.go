// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/web"
)

// boardOptions are the options of kubectl taintkeeper board.
type boardOptions struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	port   uint16
}

// newBoard returns the command board.
func newBoard(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &boardOptions{env: env, config: config}
	cmd := &cobra.Command{
		Use:   "board",
		Short: "Serve a live page about the cluster's taints to a browser",
		Long: `Serve a live page about the cluster's taints: zones and why they delay the NoExecute taints of their nodes, workloads
that lose pods, nodes with their taints and who wrote them, pods that were evicted and still exist, pods that must leave
and their countdowns, NodeTaintRules, evictions and how late they were, and what shadow mode found.

Only this machine can open the page. Its address, which the command prints, contains a secret. The command only reads,
with your own permissions, and the page says what you may not read. Nothing needs to be installed in the cluster. Press
Ctrl-C to stop.`,
		Example: `  # Print the address, and serve until Ctrl-C
  kubectl taintkeeper board

  # Use another port, and show the pods of one namespace
  kubectl taintkeeper board --port 8080 -n shop`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	noFiles(cmd, "the board shows how a cluster changes, and files do not change: for a page about files, use plan -o html")
	cmd.Flags().Uint16Var(&o.port, "port", 0, "The port on 127.0.0.1 to serve on. 0 means any free port.")
	return cmd
}

func (o *boardOptions) run(ctx context.Context) error {
	config, err := source.RESTConfigOf(o.config)
	if err != nil {
		return err
	}
	listener, err := o.listen(ctx)
	if err != nil {
		return err
	}
	shown, err := o.open(ctx, config)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return o.serve(ctx, listener, shown)
}

func (o *boardOptions) listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("serve on port %d: it is in use: choose another --port, or remove --port to use a free one", o.port)
	case err != nil:
		return nil, fmt.Errorf("serve on port %d: %w", o.port, err)
	}
	return listener, nil
}

// open returns a board of the cluster once the cluster has answered.
func (o *boardOptions) open(ctx context.Context, config *rest.Config) (*web.Board, error) {
	reader, err := source.Connect(config, show.NoProgress())
	if err != nil {
		return nil, err
	}
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	if err := version(ctx, reader.Clients); err != nil {
		return nil, source.Failed(ctx, reader.Server, "ask for", "the version", err)
	}
	is := source.LocationOf(o.config, config)
	return web.New(web.Config{
		Cluster: cmp.Or(is.Context, is.Server), Namespace: namespace, Clients: reader.Watches, Rules: reader.DynamicWatches,
		Policies: func(ctx context.Context, tell func(*state.Cluster, error)) {
			reader.FollowPolicies(ctx, namespace, tell)
		},
		Ping: func(ctx context.Context) error {
			if err := version(ctx, reader.Clients); !apierrors.IsUnauthorized(err) { // the watches report it
				return err
			}
			return nil
		},
		Now: reader.Clock.Latest,
	}), nil
}

// version asks an API server for its version to find out whether it answers. A refusal is an answer, too.
func version(ctx context.Context, clients kubernetes.Interface) error {
	err := clients.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) {
		return nil
	}
	return err
}

// namespace returns the namespace that -n names. Without -n, the board shows all of them.
func (o *boardOptions) namespace() (string, error) {
	if *o.config.Namespace == "" {
		return "", nil
	}
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// serve prints the address and serves the board until the context ends.
func (o *boardOptions) serve(ctx context.Context, listener net.Listener, shown *web.Board) error {
	token := web.NewToken()
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		Handler:           shown.Handler(token),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // pages stay connected until then
	}
	var running sync.WaitGroup
	running.Go(func() { shown.Run(ctx) })
	running.Go(func() {
		<-ctx.Done()
		_ = server.Close() // this disconnects the remaining pages
	})
	fmt.Fprintf(o.env.Out, "http://%s/%s/\n", listener.Addr(), token)
	fmt.Fprintln(o.env.ErrOut, "Open this address in a browser. Press Ctrl-C to stop.")
	err := server.Serve(listener)
	cancel()
	running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the board: %w", err)
}
