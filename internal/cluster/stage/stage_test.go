// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waits is a source that is synced when a function says so.
type waits func(context.Context) error

// Start implements source.TypedSource.
func (waits) Start(context.Context, workqueue.TypedRateLimitingInterface[string]) error { return nil }

// WaitForSync implements source.TypedSyncingSource.
func (w waits) WaitForSync(ctx context.Context) error { return w(ctx) }

func run(ctx context.Context, t *testing.T, sync waits) error {
	t.Helper()
	stage, err := newStage(logr.Discard(), "stage", controller.TypedOptions[string]{
		Reconciler: reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}),
	}, sync)
	if err != nil {
		t.Fatal(err)
	}
	parts := &Parts{}
	parts.InLeader(stage)
	return parts.Run(ctx)
}

func TestAStageThatIsEndedBeforeItsListsAreCompleteDoesNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- run(ctx, t, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		end()
		if err := <-ended; err != nil {
			t.Errorf("it ended with: %v", err)
		}
	})
}

func TestAStageThatCannotBeginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if err := run(t.Context(), t, func(context.Context) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("it ended with: %v", err)
		}
	})
}

func TestWhatFeedsTheLeaderEndsAfterIt(t *testing.T) {
	for name, run := range map[string]func(context.Context, *Parts) error{
		"alone": func(ctx context.Context, parts *Parts) error { return parts.Run(ctx) },
		"in a manager": func(ctx context.Context, parts *Parts) error {
			nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
			mgr, err := manager.New(nowhere, manager.Options{
				Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
			})
			if err != nil {
				return err
			}
			if err := parts.AddTo(mgr); err != nil {
				return err
			}
			return mgr.Start(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			feeds := make(chan context.Context, 1)
			var fed error
			parts := &Parts{}
			parts.InEveryReplica(func(ctx context.Context) error {
				feeds <- ctx
				<-ctx.Done()
				return nil
			})
			parts.InLeader(manager.RunnableFunc(func(ctx context.Context) error {
				feed := <-feeds
				end()
				<-ctx.Done()
				fed = feed.Err()
				return nil
			}))
			if err := run(ctx, parts); err != nil {
				t.Fatal(err)
			}
			if fed != nil {
				t.Errorf("what feeds the leader has ended before it: %v", fed)
			}
		})
	}
}

func TestQuietErrorsAreWrittenOnlyAtLevelOne(t *testing.T) {
	for level, want := range [][]string{
		{`"level"=0 "msg"="said" "controller"="c"`},
		{`"level"=0 "msg"="said" "controller"="c"`, `"level"=1 "msg"="Reconciler error" "controller"="c" "node"="n" "error"="refused"`},
	} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: level})
		log = QuietErrors(log).WithName("name").WithValues("controller", "c")
		log.Info("said")
		log.Error(errors.New("refused"), "Reconciler error", "node", "n")
		if !slices.Equal(lines, want) {
			t.Errorf("at level %d it writes %q, want %q", level, lines, want)
		}
	}
	QuietErrors(logr.Discard()).Error(errors.New("refused"), "Reconciler error")
}
