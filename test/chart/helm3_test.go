// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helm3loader "helm.sh/helm/v3/pkg/chart/loader"
	helm3util "helm.sh/helm/v3/pkg/chartutil"
	helm3engine "helm.sh/helm/v3/pkg/engine"
	helm3lint "helm.sh/helm/v3/pkg/lint"
	helm3support "helm.sh/helm/v3/pkg/lint/support"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/chart/render"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// renderedByHelm3 is what Helm 3 makes of the chart, as [render.Render] is what Helm 4 does.
func renderedByHelm3(t *testing.T, namespace string, v values) render.Templates {
	t.Helper()
	loaded, err := helm3loader.Load(render.Folder(root))
	await.Must(t, err)
	release := helm3util.ReleaseOptions{Name: "taintkeeper", Namespace: namespace, Revision: 1, IsInstall: true}
	serves := helm3util.DefaultCapabilities.Copy()
	serves.APIVersions = append(slices.Clone(serves.APIVersions), render.MutatingPolicies)
	all, err := helm3util.ToRenderValues(loaded, v.plain(), release, serves)
	await.Must(t, err)
	rendered, err := helm3engine.Render(loaded, all)
	await.Must(t, err)
	templates := render.Templates{}
	for name, text := range rendered {
		if text = strings.TrimSpace(text); text != "" {
			templates[path.Base(name)] = text + "\n"
		}
	}
	return templates
}

func TestHelm3RendersWhatHelm4Does(t *testing.T) {
	loaded := load(t)
	for _, namespace := range []string{metav1.NamespaceSystem, elsewhere} {
		combinations(func(v values) {
			want, err := render.Render(loaded, namespace, v.plain())
			await.Must(t, err)
			if diff := cmp.Diff(want, renderedByHelm3(t, namespace, v)); diff != "" {
				t.Fatalf("%v in %s (-Helm 4 +Helm 3):\n%s", v, namespace, diff)
			}
		})
	}
}

func TestHelm3HasNothingToSayAgainstTheChart(t *testing.T) {
	for name, v := range map[string]values{"shadow": shadow, "enforce": enforce, "node health": enforce.with(both)} {
		t.Run(name, func(t *testing.T) {
			for _, message := range helm3lint.All(render.Folder(root), v.plain(), metav1.NamespaceSystem, true).Messages {
				if message.Severity > helm3support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestHelm3RefusesValuesThatMakeNoSense(t *testing.T) {
	loaded, err := helm3loader.Load(render.Folder(root))
	await.Must(t, err)
	for name, tt := range map[string]struct {
		values values
		says   string
	}{
		"by the schema":   {values{"replica": 3}, "'replica' not allowed"},
		"by the template": {shadow.with(both), "take node-health out of controllers, or set mode to enforce"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := helm3util.ToRenderValues(loaded, tt.values.plain(), helm3util.ReleaseOptions{Name: "taintkeeper"}, nil)
			if err == nil {
				_, err = helm3engine.Render(loaded, all)
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
		})
	}
}
