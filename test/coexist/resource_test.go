// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// warnings collects what the API server warns of.
type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// TestADeleteOfTheResourceIsWarnedOf makes a dry run, as the other tests need the resource. The new policy takes the API
// server a moment to see.
func TestADeleteOfTheResourceIsWarnedOf(t *testing.T) {
	await.Must(t, cluster.InstallCoexistence(t.Context()))
	var seen warnings
	config := rest.CopyConfig(cluster.AdminConfig())
	config.WarningHandler = &seen
	custom, err := client.New(config, client.Options{Scheme: custom.Scheme()})
	await.Must(t, err)
	crd := func(name string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name + ".taintkeeper.dev"}}
	}
	await.Eventually(t, "the API server warns", func(ctx context.Context) error {
		if err := custom.Delete(ctx, crd("evictionpolicies"), client.DryRunAll); err != nil {
			return err
		}
		if len(seen.all) == 0 || !strings.Contains(seen.all[0], "the pods that they hold leave at once") {
			return errors.New("there is no warning")
		}
		return nil
	})
	before := len(seen.all)
	await.Must(t, custom.Delete(t.Context(), crd("nodetaintrules"), client.DryRunAll))
	if len(seen.all) > before {
		t.Errorf("it also warns of another resource: %q", seen.all[before:])
	}
}
