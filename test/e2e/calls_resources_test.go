// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// What the refusals must say.
const (
	sayDeadline = "more than 0s and at most 168h, a week, for example 15m or 1h30m"
	saySettle   = "it must be from 0s to 10m, for example 30s"
	sayPer      = "a window must be 1s to 1h long, for example 30s or 5m"
	sayPods     = "a number of pods from 1 to 10000: to let none leave, use paused or the action Hold"
	sayMaxDue   = "a number of pods, 1 or more, or a percentage from 1% to 99%: to let none leave, use paused or the action Hold"
	sayNothing  = "the policy does nothing: set the action to Evict or Hold, or add a pace, a breaker, paused, finished: Keep, or ifDown: Hold"
	sayKey      = "the key of a taint: a name of at most 63 characters, after a DNS prefix of at most 253 and a slash if there is one"
	sayValue    = "the value of a taint: letters, digits, dashes, underscores and dots"
	sayPaused   = "an empty reason does not pause: say why pods must stay, or remove the field"
	saySelector = "In and NotIn need values; Exists and DoesNotExist take none"

	sayKubernetes = "belong to Kubernetes itself"
	sayReason     = "write a reason exactly as in the condition"
	sayShare      = "percentage"
	sayReady      = "a rule about Ready would taint nodes without regard to the state of their zones"
	sayUnknown    = "become Unknown on all nodes at once when the control plane is disrupted: use the status True"
	sayOperator   = `supported values: "In", "NotIn", "Exists", "DoesNotExist"`
	sayValues     = "In and NotIn need values"
	sayNone       = "Exists and DoesNotExist take none"
	sayLabel      = "a key is not a valid label key"
)

// resourceKind is one of our resources.
type resourceKind struct {
	name string
	// spec is a valid one, in YAML. The specs below are what differs from it.
	spec string
	// Specs that the API server refuses, and what it says.
	refused []struct{ name, spec, says string }
	// Specs that it accepts and, for EvictionPolicies, how it stores them if that differs.
	accepted []struct{ name, spec, stored string }
	// typed is what the Go type makes of a stored object.
	typed client.Object
}

var policyKind = resourceKind{
	name: "EvictionPolicy", spec: `action: Hold`, typed: &v1alpha1.EvictionPolicy{}, refused: []struct{ name, spec, says string }{
		{"no action", `action: null`, "spec.action: Required value"},
		{"an invalid action", `action: Keep`, `supported values: "Delete", "Evict", "Hold"`},
		{"out-of-service", `taints: [{key: x}, {key: node.kubernetes.io/out-of-service}]`, "Remove the taint from the list"},
		{"too many taints", `taints: [` + elements("{key: taint-%d}", 33) + `]`, "at most 32"},
		{"a taint without a key", `taints: [{key: ""}]`, sayKey},
		{"a key with a space", `taints: [{key: "a b"}]`, sayKey},
		{"a key with a prefix in capitals", `taints: [{key: Example.com/x}]`, sayKey},
		{"a key with too long a name", `taints: [{key: example.com/` + strings.Repeat("x", 64) + `}]`, sayKey},
		{"an invalid value", `taints: [{key: x, value: "a b"}]`, sayValue},
		{"too long a value", `taints: [{key: x, value: ` + strings.Repeat("x", 64) + `}]`, "63"},
		{"In without values", `podSelector: {matchExpressions: [{key: a, operator: In}]}`, saySelector},
		{"Exists with values", `nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [x]}]}`, saySelector},
		{"an invalid operator", `namespaceSelector: {matchExpressions: [{key: a, operator: in, values: [x]}]}`, sayOperator},
		{"an invalid label", `podSelector: {matchLabels: {"a b": x}}`, sayLabel},
		{"a deadline with Delete", `action: Delete, pace: {pods: 5, per: 1m}, deadline: 15m`, "remove the deadline, or choose another action"},
		{"a deadline of 0s", `deadline: 0s`, sayDeadline},
		{"a negative deadline", `deadline: "-5m"`, sayDeadline},
		{"a deadline without a unit", `deadline: "15"`, sayDeadline},
		{"too late a deadline", `deadline: 168h1s`, sayDeadline},
		{"unready with Hold", `unready: Ask`, "remove it, or set the action to Evict"},
		{"unready with Delete", `action: Delete, pace: {pods: 5, per: 1m}, unready: Delete`, "remove it, or set the action to Evict"},
		{"an invalid unready", `action: Evict, unready: Hold`, `supported values: "Delete", "Ask"`},
		{"an invalid finished", `finished: Hold`, `supported values: "Delete", "Keep"`},
		{"an invalid ifDown", `ifDown: Delete`, `supported values: "Evict", "Hold"`},
		{"a policy that does nothing", `action: Delete`, sayNothing},
		{"one that still does nothing", `action: Delete, dryRun: true, finished: Delete, ifDown: Evict`, sayNothing},
		{"a pace without pods", `pace: {per: 1m}`, "spec.pace.pods: Required value"},
		{"a pace without a window", `pace: {pods: 5}`, "spec.pace.per: Required value"},
		{"a pace of no pods", `pace: {pods: 0, per: 1m}`, sayPods},
		{"a pace of a negative number of pods", `pace: {pods: -5, per: 1m}`, sayPods},
		{"a pace of more than 10000", `pace: {pods: 10001, per: 1m}`, sayPods},
		{"a window of less than 1s", `pace: {pods: 5, per: 999ms}`, sayPer},
		{"a window of 0s", `pace: {pods: 5, per: 0s}`, sayPer},
		{"a window that is negative", `pace: {pods: 5, per: "-1m"}`, sayPer},
		{"a window of more than 1h", `pace: {pods: 5, per: 1h1s}`, sayPer},
		{"a window that is not a duration", `pace: {pods: 5, per: minute}`, sayPer},
		{"an invalid scope", `pace: {pods: 5, per: 1m, scope: Rack}`, `supported values: "Node", "Zone", "Cluster"`},
		{"a breaker without maxDue", `breaker: {settle: 10s}`, "spec.breaker.maxDue: Required value"},
		{"a breaker at no pods", `breaker: {maxDue: 0}`, sayMaxDue},
		{"a breaker at a negative number of pods", `breaker: {maxDue: -1}`, sayMaxDue},
		{"a breaker at no percent", `breaker: {maxDue: "0%"}`, sayMaxDue},
		{"a breaker above all", `breaker: {maxDue: "101%"}`, sayMaxDue},
		{"a breaker that never opens", `breaker: {maxDue: "100%"}`, sayMaxDue},
		{"a dry run that is paused", `dryRun: true, paused: x`, "so it pauses nothing"},
		{"a dry run that holds if down", `dryRun: true, ifDown: Hold`, "so it does not hold back the built-in"},
		{"a breaker at a number as text", `breaker: {maxDue: "5"}`, sayMaxDue},
		{"a breaker at a number that does not fit 32 bits", `breaker: {maxDue: 1099511627776}`, sayMaxDue},
		{"a settle of more than 10m", `breaker: {maxDue: "10%", settle: 10m1s}`, saySettle},
		{"a settle that is negative", `breaker: {maxDue: "10%", settle: "-10s"}`, saySettle},
		{"a settle without a unit", `breaker: {maxDue: "10%", settle: "10"}`, saySettle},
		{"a resumedAt that is not a time", `breaker: {maxDue: "10%", resumedAt: now}`, "spec.breaker.resumedAt"},
		{"an empty pause", `paused: ""`, sayPaused},
		{"a pause of spaces", `paused: " \t"`, sayPaused},
		{"a pause of 257 characters", `paused: ` + strings.Repeat("x", 257), "256"},
		{"a dry run that is not a boolean", `dryRun: "yes"`, "spec.dryRun"},
	}, accepted: []struct{ name, spec, stored string }{
		{"respect budgets for 15 minutes, then go", `action: Evict, deadline: 15m`, `action: Evict, deadline: 15m, finished: Delete, ifDown: Evict`},
		{"at most 5 pods a minute per zone", `action: Delete, pace: {pods: 5, per: 1m, scope: Zone}`, `action: Delete, pace: {pods: 5, per: 1m, scope: Zone}, finished: Delete, ifDown: Evict`},
		{"the emergency stop", `action: Hold, paused: a storm`, `action: Hold, paused: a storm, finished: Delete, ifDown: Evict`},
		{"the defaults of pace and breaker", `action: Delete, pace: {pods: 1, per: 1s}, breaker: {maxDue: 1}`, `action: Delete, pace: {pods: 1, per: 1s, scope: Cluster}, breaker: {maxDue: 1, settle: 1m}, finished: Delete, ifDown: Evict`},
		{"everything, at its least", `action: Evict, taints: [{key: x, value: ""}], namespaceSelector: {}, podSelector: {}, nodeSelector: {}, deadline: 1ms, unready: Delete, finished: Delete, pace: {pods: 1, per: 1s, scope: Node}, breaker: {maxDue: 1%, settle: 0s, resumedAt: "2026-11-25T12:00:00Z"}, paused: x, ifDown: Evict, dryRun: false`, ""},
		{"everything, at its most", `action: Evict, taints: [{key: node.kubernetes.io/unreachable}, {key: example.com/drain, value: a.b_c-1}], namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}, nodeSelector: {matchLabels: {topology.kubernetes.io/zone: a}}, deadline: 167h60m, unready: Ask, finished: Keep, pace: {pods: 10000, per: 1h, scope: Cluster}, breaker: {maxDue: 99%, settle: 10m, resumedAt: "2026-11-25T12:00:00Z"}, paused: maintenance until noon, ifDown: Hold`, ""},
		{"a dry run", `action: Hold, breaker: {maxDue: 99%}, dryRun: true`, `action: Hold, breaker: {maxDue: 99%, settle: 1m}, finished: Delete, ifDown: Evict, dryRun: true`},
		{"Delete with a breaker", `action: Delete, breaker: {maxDue: 2147483647, settle: 10s}, finished: Delete, ifDown: Evict`, ""},
		{"Delete with a pause", `action: Delete, paused: x, finished: Delete, ifDown: Evict`, ""},
		{"Delete that keeps finished", `action: Delete, finished: Keep, ifDown: Evict`, ""},
		{"Delete, and nobody if down", `action: Delete, finished: Delete, ifDown: Hold`, ""},
		{"Hold with a week as a deadline", `action: Hold, deadline: 168h, finished: Delete, ifDown: Evict`, ""},
	},
}

var ruleKind = resourceKind{
	name: "NodeTaintRule", spec: `{condition: {type: KernelDeadlock, status: "True"}, taint: {key: example.com/deadlock, effect: NoSchedule}}`,
	typed: &v1alpha1.NodeTaintRule{}, refused: []struct{ name, spec, says string }{
		{"a key of Kubernetes", `taint: {key: node.kubernetes.io/not-ready}`, sayKubernetes},
		{"a key of a cloud provider", `taint: {key: node.cloudprovider.kubernetes.io/shutdown}`, sayKubernetes},
		{"a key of kubernetes.io itself", `taint: {key: kubernetes.io/x}`, sayKubernetes},
		{"a key of k8s.io", `taint: {key: readiness.k8s.io/x}`, sayKubernetes},
		{"a key that is not a label key", `taint: {key: Example.com/x}`, "spec.taint.key"},
		{"a key with too long a name", `taint: {key: example.com/` + strings.Repeat("x", 64) + `}`, "at most 63"},
		{"no key", `taint: {key: ""}`, "spec.taint.key"},
		{"a value that is not a label value", `taint: {value: "a b"}`, "spec.taint.value"},
		{"an invalid effect", `taint: {effect: NoEvict}`, "NoEvict"},
		{"a negative duration", `after: "-5s"`, "spec.after"},
		{"a duration without a unit", `clearAfter: "5"`, "spec.clearAfter"},
		{"an invalid status", `condition: {status: "true"}`, "spec.condition.status"},
		{"an empty reason", `condition: {reasons: [DockerHung, ""]}`, sayReason},
		{"a reason with a space after it", `condition: {reasons: ["DockerHung "]}`, sayReason},
		{"a reason twice", `condition: {reasons: [DockerHung, DockerHung]}`, "Duplicate value"},
		{"too long a reason", `condition: {reasons: [` + strings.Repeat("x", 1025) + `]}`, "1024"},
		{"too many reasons", `condition: {reasons: [` + elements("Reason%d", 33) + `]}`, "at most 32"},
		{"no type of condition", `condition: {type: ""}`, "spec.condition.type"},
		{"more than all nodes", `maxTainted: "101%"`, sayShare},
		{"a number as text", `maxTainted: "5"`, sayShare},
		{"a negative number of nodes", `maxTainted: -1`, sayShare},
		{"more nodes than can be counted", `maxTainted: 1099511627776`, sayShare},
		{"a rule about Ready False", `condition: {type: Ready, status: "False"}`, "use the taints node.kubernetes.io/not-ready and node.kubernetes.io/unreachable, which node health sets"},
		{"a rule about Ready Unknown", `condition: {type: Ready, status: Unknown}`, sayReady},
		{"a rule about Ready True", `condition: {type: Ready, status: "True"}`, sayReady},
		{"a rule about MemoryPressure Unknown", `condition: {type: MemoryPressure, status: Unknown}`, sayUnknown},
		{"a rule about DiskPressure Unknown", `condition: {type: DiskPressure, status: Unknown}`, sayUnknown},
		{"a rule about PIDPressure Unknown", `condition: {type: PIDPressure, status: Unknown}`, sayUnknown},
		{"NoExecute without a bound", `taint: {effect: NoExecute}`, "set it to the maximum number of nodes that may have the taint at once"},
		{"an operator in small letters", `nodeSelector: {matchExpressions: [{key: pool, operator: in, values: [batch]}]}`, sayOperator},
		{"an operator of node affinity", `nodeSelector: {matchExpressions: [{key: pool, operator: Gt, values: ["1"]}]}`, sayOperator},
		{"no operator", `nodeSelector: {matchExpressions: [{key: pool}]}`, "operator: Required value"},
		{"In without values", `nodeSelector: {matchExpressions: [{key: pool, operator: In}]}`, sayValues},
		{"NotIn without values", `nodeSelector: {matchExpressions: [{key: pool, operator: NotIn, values: []}]}`, sayValues},
		{"Exists with a value", `nodeSelector: {matchExpressions: [{key: pool, operator: Exists, values: [batch]}]}`, sayNone},
		{"DoesNotExist with a value", `nodeSelector: {matchExpressions: [{key: pool, operator: DoesNotExist, values: [batch]}]}`, sayNone},
		{"a required label with an invalid key", `nodeSelector: {matchExpressions: [{key: "node pool", operator: Exists}]}`, "matchExpressions[0].key"},
		{"a required label without a key", `nodeSelector: {matchExpressions: [{key: "", operator: Exists}]}`, "matchExpressions[0].key"},
		{"a required label with too long a name", `nodeSelector: {matchExpressions: [{key: example.com/` + strings.Repeat("x", 64) + `, operator: Exists}]}`, "at most 63"},
		{"a required label with an invalid value", `nodeSelector: {matchExpressions: [{key: pool, operator: In, values: ["a b"]}]}`, "matchExpressions[0].values[0]"},
		{"a label with an invalid key", `nodeSelector: {matchLabels: {"node pool": x}}`, sayLabel},
		{"a label with two slashes in its key", `nodeSelector: {matchLabels: {a/b/c: x}}`, sayLabel},
		{"a label with too long a name", `nodeSelector: {matchLabels: {example.com/` + strings.Repeat("x", 64) + `: x}}`, sayLabel},
		{"a label with an invalid value", `nodeSelector: {matchLabels: {pool: "a b"}}`, "matchLabels.pool"},
		{"a label with too long a value", `nodeSelector: {matchLabels: {pool: ` + strings.Repeat("x", 64) + `}}`, "matchLabels.pool"},
	}, accepted: []struct{ name, spec, stored string }{
		{"all", `after: 1h30m, clearAfter: 500ms, maxTainted: "10%", taint: {value: a.b_c-1}, dryRun: true`, ""},
		{"reasons", `condition: {reasons: [` + elements("Reason%d", 32) + `]}`, ""},
		{"zero", `maxTainted: 0, after: 0s, taint: {key: plain}`, ""},
		{"alike", `taint: {key: kubernetes.io.example.com/x}, maxTainted: "100%"`, ""},
		{"bounded", `taint: {effect: NoExecute}, maxTainted: 3`, ""},
		{"stopped", `taint: {effect: NoExecute}, maxTainted: 0`, ""},
		{"pressure", `condition: {type: MemoryPressure, status: "True"}`, ""},
		{"no-pressure", `condition: {type: DiskPressure, status: "False"}`, ""},
		{"network", `condition: {type: NetworkUnavailable, status: Unknown}`, ""},
		{"other-unknown", `condition: {type: KernelDeadlock, status: Unknown}`, ""},
		{"other-ready", `condition: {type: RuntimeReady, status: "False"}`, ""},
		{"empty-selector", `nodeSelector: {}`, ""},
		{"labels", `nodeSelector: {matchLabels: {pool: batch, topology.kubernetes.io/zone: a, empty: ""}}`, ""},
		{"operators", `nodeSelector: {matchExpressions: [{key: pool, operator: In, values: [batch, ""]}, {key: example.com/x.y_z, operator: NotIn, values: [A-1]}, {key: a, operator: Exists}, {key: b, operator: DoesNotExist, values: []}]}`, ""},
	},
}

// elements writes elements of a list in YAML.
func elements(format string, count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

// named returns an object with a spec that differs from the valid one.
func (k resourceKind) named(name, differs string) *unstructured.Unstructured {
	spec := specOf(k.spec)
	mergePatch(spec, specOf(differs))
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(k.name))
	object.SetName(name)
	return object
}

func specOf(text string) (spec map[string]any) {
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // the test is wrong
	}
	return spec
}

// mergePatch changes what differs, as a merge patch does.
func mergePatch(into, differs map[string]any) {
	for field, value := range differs {
		was, object := into[field].(map[string]any)
		if is, both := value.(map[string]any); object && both {
			mergePatch(was, is)
		} else if value == nil {
			delete(into, field)
		} else {
			into[field] = value
		}
	}
}

func inJSON(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	await.Must(t, err)
	return text
}

// TestTheAPIServerRefusesWhatCannotBeMeant creates our resources as dry runs.
func TestTheAPIServerRefusesWhatCannotBeMeant(t *testing.T) {
	for _, k := range []resourceKind{policyKind, ruleKind} {
		for _, row := range k.refused {
			t.Run(k.name+" "+row.name, func(t *testing.T) {
				k.checkRefusal(t, k.named("refused", row.spec), row.says)
			})
		}
		for _, row := range k.accepted {
			t.Run(k.name+" "+row.name, func(t *testing.T) {
				object := k.named("accepted", row.spec)
				await.Must(t, objects.Create(t.Context(), object, client.DryRunAll))
				await.Must(t, json.Unmarshal(inJSON(t, object.Object), k.typed.DeepCopyObject()))
				stored, want := inJSON(t, object.Object["spec"]), inJSON(t, specOf(cmp.Or(row.stored, row.spec)))
				if k.name == policyKind.name && string(stored) != string(want) {
					t.Errorf("stored as %s, want %s", stored, want)
				}
			})
		}
		await.Must(t, objects.Create(t.Context(), k.named(strings.Repeat("x", v1alpha1.LongestName), ""), client.DryRunAll))
		k.checkRefusal(t, k.named(strings.Repeat("x", v1alpha1.LongestName+1), ""), "a shorter name")
	}
	rule := ruleKind.named("changed", "")
	await.Must(t, objects.Create(t.Context(), rule))
	err := objects.Patch(t.Context(), ruleKind.named("changed", "taint: {value: other}"), client.Merge, client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("another taint is answered with %v, want a refusal", err)
	}
	await.Must(t, objects.Delete(t.Context(), rule))
}

// checkRefusal wants an object to be refused in words that users understand.
func (k resourceKind) checkRefusal(t *testing.T, object client.Object, says string) {
	t.Helper()
	err := objects.Create(t.Context(), object, client.DryRunAll)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "evaluation error") {
		t.Errorf("a %s is answered with %v, want a refusal that says %q", k.name, err, says)
	}
}
