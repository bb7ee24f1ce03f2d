// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/chart/render"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const root = "../.."

func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	loaded, err := render.Load(root)
	await.Must(t, err)
	return loaded
}

// rendered returns the templates of a release in kube-system.
func rendered(t *testing.T, v values) render.Templates {
	t.Helper()
	templates, err := render.Render(load(t), "kube-system", v.plain())
	await.Must(t, err)
	return templates
}

// TestReleasesInTwoNamespacesShareNoObject applies to installations without Helm, which refuses objects of another release:
// kubectl would replace the first release's rights, clock or policy.
func TestReleasesInTwoNamespacesShareNoObject(t *testing.T) {
	loaded := load(t)
	everything := enforce.with(both).with(everyPolicy).with(monitored).with(values{
		"coexist": values{"deletesNeedMark": true}, "networkPolicy": values{"enabled": true},
	})
	first, second := identities(t, loaded, metav1.NamespaceSystem, everything), identities(t, loaded, elsewhere, everything)
	shared := sets.KeySet(first).Intersection(sets.KeySet(second))
	const resource = "CustomResourceDefinition /" + crd
	if !shared.Equal(sets.New(resource)) {
		t.Errorf("both have %q, so each takes them from the other", sets.List(shared))
	}
	if diff := cmp.Diff(first[resource], second[resource]); diff != "" {
		t.Errorf("the resource differs:\n%s", diff)
	}
}

// identities returns the objects of a release by kind, namespace and name.
func identities(t *testing.T, loaded *chartv2.Chart, namespace string, v values) map[string]string {
	t.Helper()
	templates, err := render.Render(loaded, namespace, v.plain())
	await.Must(t, err)
	all := map[string]string{}
	for _, document := range documents(t, []byte(templates.Manifest())) {
		var object metav1.PartialObjectMetadata
		await.Must(t, yaml.Unmarshal([]byte(document), &object))
		all[fmt.Sprintf("%s %s/%s", object.Kind, object.Namespace, object.Name)] = document
	}
	return all
}

// the returns the object of a type and a name among those of a release.
func the[T client.Object](t *testing.T, templates render.Templates, name string) T {
	t.Helper()
	objects, err := config.Objects([]byte(templates.Manifest()))
	await.Must(t, err)
	for _, object := range objects {
		if match, ok := object.(T); ok && object.GetName() == name {
			return match
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

func TestHelmHasNothingToSayAgainstTheChart(t *testing.T) {
	for name, v := range map[string]values{"shadow": shadow, "enforce": enforce.with(both)} {
		t.Run(name, func(t *testing.T) {
			linter := lint.RunAll(render.Folder(root), v.plain(), "kube-system")
			for _, message := range linter.Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestValuesThatMakeNoSenseAreRefusedWithASentence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values values
		says   string
	}{
		{"node health in shadow mode", shadow.with(both), "take node-health out of controllers, or set mode to enforce"},
		{"shadow mode without what it compares", shadow.with(nodeHealth), "mode shadow"},
		{"a mode that there is not", values{"mode": "audit"}, "'shadow', 'enforce'"},
		{"a controller that there is not", values{"controllers": list("pod-gc")}, "'eviction', 'node-health', 'node-taint-rule'"},
		{"shadow mode with rules alone", shadow.with(values{"controllers": list("node-taint-rule")}), "add eviction to controllers"},
		{"no controller", enforce.with(values{"controllers": list()}), "minItems: got 0, want 1"},
		{"a controller twice", enforce.with(values{"controllers": list("eviction", "eviction")}), "at '/controllers': items at 0 and 1 are equal"},
		{"a controller that is no list", values{"controllers": "eviction"}, "at '/controllers': got string, want array"},
		{"less than no replica", enforce.with(values{"replicas": -1}), "at '/replicas': minimum: got -1, want 0"},
		{"a value with a slip of the pen", values{"replica": 3}, "'replica' not allowed"},
		{"one further in", values{"coexist": values{"enable": true}}, "at '/coexist': additional properties 'enable' not allowed"},
		{"a log level beyond the last", values{"log": values{"level": 8}}, "at '/log/level': maximum: got 8, want 7"},
		{"a digest that is none", values{"image": values{"digest": "latest"}}, "at '/image/digest'"},
		{"a certificate for a port that is closed", values{"metrics": values{"expose": false, "certSecret": "tls"}}, "leave it empty, or set metrics.expose to true"},
		{"a monitor of a port that is closed", values{"metrics": values{"expose": false}, "monitoring": values{"serviceMonitor": forPrometheus}}, "set metrics.expose to true"},
		{"readers of a port that is closed", values{"metrics": values{"expose": false, "readers": readers}}, "metrics.readers is for port 8443"},
		{"a flag with dashes", values{"extraFlags": values{"--v": 1}}, "extraFlags.--v: write the flag without dashes, v"},
		{"a flag that there is not", values{"extraFlags": values{"evict-faster": true}}, "at '/extraFlags': additional properties 'evict-faster' not allowed"},
		{"a flag by which the program ends", values{"extraFlags": values{"version": true}}, "this flag is set by nobody: with it the program does not run"},
		{"a label that selects pods", values{"podLabels": values{"app.kubernetes.io/name": "evictor"}}, "podLabels.app.kubernetes.io/name: by this label the Deployment finds its pods; take another"},
		{"another one", values{"podLabels": values{"app.kubernetes.io/instance": "taintkeeper"}}, "podLabels.app.kubernetes.io/instance: by this label"},
		{"a label with a name that is none", values{"podLabels": values{"our team": "a"}}, "podLabels.our team: this is no name of a label"},
		{"a label with a value that is none", values{"podLabels": values{"team": "a b"}}, `podLabels.team: "a b" is no value of a label`},
		{"no number of replicas", values{"replicas": nil}, "missing property 'replicas'"},
		{"no mode", values{"mode": nil}, "missing property 'mode'"},
		{"no word on coexistence", values{"coexist": values{"enabled": nil}}, "missing property 'enabled'"},
		{"a flag that is a list", values{"extraFlags": values{"feature-gates": list("a")}}, "at '/extraFlags/feature-gates': got array, want string"},
		{"the controllers by a flag", values{"extraFlags": values{"controllers": "*"}}, "extraFlags.controllers: this flag is set by controllers"},
		{"the mode by a flag", values{"extraFlags": values{"shadow": false}}, "extraFlags.shadow: this flag is set by mode"},
		{"a dry run by a flag", values{"extraFlags": values{"dry-run": true}}, "extraFlags.dry-run: this flag is set by mode"},
		{"coexistence by a flag", values{"extraFlags": values{"coexist": true}}, "extraFlags.coexist: this flag is set by coexist.enabled"},
		{"an election by a flag", values{"extraFlags": values{"leader-elect": false}}, "extraFlags.leader-elect: this flag is set by replicas"},
		{"another Lease", values{"extraFlags": values{"leader-elect-resource-name": "mine"}}, "this flag is set by the chart, with the right for it"},
		{"a policy that there is not", values{"policies": values{"spread": on}}, "at '/policies': additional properties 'spread' not allowed"},
		{"a policy that is no map", values{"policies": values{"memoryPressure": true}}, "at '/policies/memoryPressure': got boolean, want object"},
		{"a selector that is a list", values{"policies": values{"memoryPressure": values{"namespaceSelector": list("a")}}}, "at '/policies/memoryPressure/namespaceSelector': got array, want object"},
		{"a label that is none", values{"policies": values{"dedicatedNodes": values{"key": "team's"}}}, "at '/policies/dedicatedNodes/key'"},
		{"a kind with its version", values{"policies": values{"daemonTolerations": values{"ownerKinds": list("apps/v1 DaemonSet")}}}, "at '/policies/daemonTolerations/ownerKinds/0'"},
		{"a default with an operator that there is not", values{"policies": values{"namespaceTolerations": values{"default": list(values{"key": "a", "operator": "In"}.plain())}}}, "at '/policies/namespaceTolerations/default/0/operator'"},
		{"seconds of the cluster that are none", values{"policies": values{"tolerationSeconds": values{"clusterDefault": values{"notReady": "5m"}}}}, "at '/policies/tolerationSeconds/clusterDefault/notReady': got string, want integer"},
		{"another kubeconfig", values{"extraFlags": values{"kubeconfig": "/a"}}, "this flag is set by nobody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render.Render(load(t), "kube-system", tt.values.plain())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
		})
	}
}

func TestEveryCombinationOfValuesRendersObjectsOfKubernetes(t *testing.T) {
	loaded, number := load(t), 0
	combinations(func(v values) {
		templates, err := render.Render(loaded, "kube-system", v.plain())
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if _, err := config.Objects([]byte(onlyKubernetes(templates).Manifest())); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		number++
	})
	t.Logf("%d combinations", number)
}

func TestTheDefaultChangesNothing(t *testing.T) {
	templates := rendered(t, nil)
	if strings.Contains(templates["coexistence.yaml"], "kind: Role") {
		t.Error("somebody may write the eviction clock, and so hold the built-in off, though nobody evicts instead")
	}
	if notes := templates.Notes(); !strings.Contains(notes, "SHADOW") || !strings.Contains(notes, "--set mode=enforce") {
		t.Errorf("the notes do not say what is on, or how to go on:\n%s", notes)
	}
}

func TestTheNotesSayWhatIsOn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values values
		says   []string
		not    string
	}{
		{"shadow", shadow, []string{"SHADOW", "port-forward deployment/taintkeeper 8443", "/shadow", "helm uninstall taintkeeper", "delete serviceaccount taintkeeper-eviction-clock", "crds.install=false"}, "ENFORCE"},
		{"shadow without a port", values{"metrics": values{"expose": false}}, []string{"http://localhost:8080/shadow"}, "8443"},
		{"enforce", enforce, []string{"ENFORCE", "eviction clock", "in 2 replica(s)", "with eviction, node-taint-rule", "kubectl delete nodetaintrules --all", "--set replicas=0", "--set mode=shadow --set replicas=2\n"}, "node-lifecycle"},
		{"stopped", enforce.with(values{"replicas": 0}), []string{"STOPPED", "hands the evictions back", "--set replicas=2\n", "--set mode=shadow --set replicas=2\n", "helm uninstall taintkeeper"}, "rollout status"},
		{"stopped, and alone", enforce.with(alone).with(values{"replicas": 0}), []string{"STOPPED", "nobody evicts"}, "hands the evictions back"},
		{"enforce alone", enforce.with(alone), []string{"Coexistence is off", "-taint-eviction-controller"}, "eviction clock"},
		{"with node health", enforce.with(both), []string{"eviction, node-health", "-node-lifecycle-controller", "'controllers={eviction}'\n", "add node-taint-rule to controllers"}, "Coexistence is off"},
		{"with everything", enforce.with(all), []string{"eviction, node-health, node-taint-rule", "'controllers={eviction,node-taint-rule}'\n"}, "add node-taint-rule"},
		{"with a second gate", enforce.with(values{"coexist": values{"deletesNeedMark": true}}), []string{"taintkeeper-coexistence-deletes has no end of its own"}, "SHADOW"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			notes := rendered(t, tt.values).Notes()
			for _, words := range tt.says {
				if !strings.Contains(notes, words) {
					t.Errorf("the notes do not say %q:\n%s", words, notes)
				}
			}
			if strings.Contains(notes, tt.not) {
				t.Errorf("the notes say %q:\n%s", tt.not, notes)
			}
		})
	}
}

func TestTheChartBringsTheCRDOfTheAPI(t *testing.T) {
	objects, err := config.Objects(config.CRD)
	await.Must(t, err)
	want := objects[0].(*apiextensionsv1.CustomResourceDefinition)
	got := the[*apiextensionsv1.CustomResourceDefinition](t, rendered(t, nil), want.Name)
	if a, b := mustJSON(t, got.Spec), mustJSON(t, want.Spec); a != b {
		t.Errorf("the chart's is %s\nwant %s", a, b)
	}
	if got.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Error("an uninstall takes all rules along")
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	await.Must(t, err)
	return string(text)
}

// TestTheSchemaKnowsEveryValue keeps a value from being added to values.yaml alone, where the schema would refuse it,
// and the other way round.
func TestTheSchemaKnowsEveryValue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(render.Folder(root), "values.schema.json"))
	await.Must(t, err)
	var schema node
	await.Must(t, json.Unmarshal(text, &schema))
	delete(schema.Properties, "global") // of Helm itself
	compare(t, "", schema, load(t).Values)
}

type node struct {
	AdditionalProperties any
	Properties           map[string]node
}

func compare(t *testing.T, path string, schema node, standard map[string]any) {
	t.Helper()
	if len(standard) == 0 || schema.Properties == nil {
		return // free, or a type of Kubernetes
	}
	if path == ".resources" {
		return
	}
	if schema.AdditionalProperties != false {
		t.Errorf("%s: the schema takes values that there are not", path)
	}
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(standard)); !slices.Equal(got, want) {
		t.Errorf("%s: the schema has %v, values.yaml has %v", path, got, want)
	}
	for name, value := range standard {
		if inner, ok := value.(map[string]any); ok {
			compare(t, path+"."+name, schema.Properties[name], inner)
		}
	}
}
