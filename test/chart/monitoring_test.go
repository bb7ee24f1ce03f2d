// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/test/chart/render"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

func chartFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(render.Folder(root), "files", name))
	await.Must(t, err)
	return text
}

// TestWhatThePrometheusOperatorReadsIsOfItsTypes stands in for the schemas of its CustomResourceDefinitions, which are
// generated from these types.
func TestWhatThePrometheusOperatorReadsIsOfItsTypes(t *testing.T) {
	templates := rendered(t, monitored)
	var monitor monitoringv1.ServiceMonitor
	await.Must(t, yaml.UnmarshalStrict([]byte(templates["servicemonitor.yaml"]), &monitor))
	var rule monitoringv1.PrometheusRule
	await.Must(t, yaml.UnmarshalStrict([]byte(templates["prometheusrule.yaml"]), &rule))
	for kind, labels := range map[string]map[string]string{
		"ServiceMonitor": monitor.Labels, "PrometheusRule": rule.Labels,
	} {
		if labels["release"] != "prometheus" {
			t.Errorf("the %s has the labels %v", kind, labels)
		}
	}
	if err := yaml.UnmarshalStrict([]byte("spec: {endpoint: []}"), &monitor); err == nil {
		t.Error("a slip of the pen is not found")
	}
}

func TestTheServiceMonitorSelectsTheServiceAndItsPort(t *testing.T) {
	templates := rendered(t, monitored)
	var monitor monitoringv1.ServiceMonitor
	await.Must(t, yaml.Unmarshal([]byte(templates["servicemonitor.yaml"]), &monitor))
	service := the[*corev1.Service](t, onlyKubernetes(templates), "taintkeeper-metrics")
	for label, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[label] != value {
			t.Errorf("it selects %s=%s, the Service has %v", label, value, service.Labels)
		}
	}
	if port := monitor.Spec.Endpoints[0].Port; port != service.Spec.Ports[0].Name {
		t.Errorf("it scrapes the port %s, the Service has %v", port, service.Spec.Ports)
	}
}

func TestThePrometheusRuleHasTheRulesOfTheFile(t *testing.T) {
	var rule struct{ Spec any }
	await.Must(t, yaml.Unmarshal([]byte(rendered(t, monitored)["prometheusrule.yaml"]), &rule))
	var want any
	await.Must(t, yaml.Unmarshal(chartFile(t, "rules.yaml"), &want))
	if diff := cmp.Diff(want, rule.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheConfigMapHasTheDashboardOfTheFile(t *testing.T) {
	dashboard := values{"monitoring": values{"dashboard": values{"enabled": true}}}
	found := the[*corev1.ConfigMap](t, rendered(t, dashboard), "taintkeeper-dashboard")
	if found.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v", found.Labels)
	}
	var got, want any
	await.Must(t, json.Unmarshal([]byte(found.Data["taintkeeper.json"]), &got))
	await.Must(t, json.Unmarshal(chartFile(t, "dashboard.json"), &want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadersOfMetricsAreBoundToTheirRole(t *testing.T) {
	binding := the[*rbacv1.ClusterRoleBinding](t, onlyKubernetes(rendered(t, monitored)), "taintkeeper-metrics-reader")
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "prometheus-k8s", Namespace: "monitoring"}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Name != "taintkeeper-metrics-reader" {
		t.Errorf("it binds %v (-want +got):\n%s", binding.RoleRef, diff)
	}
}

// onlyKubernetes takes away what is of the Prometheus operator.
func onlyKubernetes(templates render.Templates) render.Templates {
	delete(templates, "servicemonitor.yaml")
	delete(templates, "prometheusrule.yaml")
	return templates
}
