{{/* The version in which the API server serves MutatingAdmissionPolicy. */}}
{{- define "taintkeeper.policy.mutating" -}}
{{- $group := "admissionregistration.k8s.io" -}}
{{- if .Capabilities.APIVersions.Has (print $group "/v1/MutatingAdmissionPolicy") -}}
{{ $group }}/v1
{{- else if .Capabilities.APIVersions.Has (print $group "/v1beta1/MutatingAdmissionPolicy") -}}
{{ $group }}/v1beta1
{{- else -}}
{{- fail "policies: the API server does not serve MutatingAdmissionPolicy. Kubernetes 1.36 does; 1.35 does with --feature-gates=MutatingAdmissionPolicy=true and --runtime-config=admissionregistration.k8s.io/v1beta1=true. Switch all policies off, or, if you render with helm template, which asks no API server, say what yours serves: --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- end -}}
{{- end -}}

{{/* The name and the labels of a policy and of its binding: (list $ name). */}}
{{- define "taintkeeper.policy.metadata" -}}
metadata:
  name: {{ include "taintkeeper.clusterName" . }}
  labels:
    {{- include "taintkeeper.labels" (index . 0) | nindent 4 }}
{{- end -}}

{{/* A namespaceSelector with one more expression: (list selector expression). */}}
{{- define "taintkeeper.policy.selector" -}}
{{- $selector := index . 0 -}}
{{- toJson (set (deepCopy $selector) "matchExpressions" (append ($selector.matchExpressions | default list) (index . 1))) -}}
{{- end -}}

{{/* Rules for new pods. */}}
{{- define "taintkeeper.policy.newPods" -}}
resourceRules:
- apiGroups: [""]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [pods]
{{- end -}}

{{/* Rules for pods outside kube-system, by a list of operations: a policy that can refuse pods must not break the cluster itself. */}}
{{- define "taintkeeper.policy.podsButOfTheSystem" -}}
namespaceSelector:
  matchExpressions:
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}
resourceRules:
- apiGroups: [""]
  apiVersions: [v1]
  operations: [{{ join ", " . }}]
  resources: [pods]
{{- end -}}

{{/* CEL expressions. */}}

{{/* Whether a pod is not a mirror pod. The kubelet already runs mirror pods, and creates them again until they are accepted. */}}
{{- define "taintkeeper.cel.noMirror" -}}
!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))
{{- end -}}

{{/* Tolerations of an object with a pod's spec, with all their fields: map(string, string). */}}
{{- define "taintkeeper.cel.tolerations" -}}
{{ . }}.spec.?tolerations.orValue([]).map(t, {
  'key': string(t.?key.orValue('')),
  'operator': string(t.?operator.orValue('Equal')),
  'value': string(t.?value.orValue('')),
  'effect': string(t.?effect.orValue('')),
  'seconds': has(t.tolerationSeconds) ? string(t.tolerationSeconds) : ''})
{{- end -}}

{{/* Whether one toleration covers another, with all their fields: (list one another). Upstream's pkg/util/tolerations calls it a superset. */}}
{{- define "taintkeeper.cel.covers" -}}
{{- $w := index . 0 -}}{{- $t := index . 1 -}}
({{ $w }} == {{ $t }} || (({{ $w }}.key == {{ $t }}.key || ({{ $w }}.key == '' && {{ $w }}.operator == 'Exists'))
  && {{ $w }}.effect in ['', {{ $t }}.effect]
  && ({{ $w }}.seconds == '' || ({{ $t }}.seconds != '' && int({{ $t }}.seconds) <= int({{ $w }}.seconds)))
  && ({{ $w }}.operator == 'Exists'
    || ({{ $w }}.operator == 'Equal' && {{ $t }}.operator == 'Equal' && {{ $w }}.value == {{ $t }}.value))))
{{- end -}}

{{/* A toleration with all its fields, as `kubectl describe` writes it. */}}
{{- define "taintkeeper.cel.words" -}}
({{ . }}.key + ({{ . }}.value == '' ? '' : '=' + {{ . }}.value) + ({{ . }}.effect == '' ? '' : ':' + {{ . }}.effect)
+ ({{ . }}.operator == 'Equal' ? '' : ' op=' + {{ . }}.operator) + ({{ . }}.seconds == '' ? '' : ' for ' + {{ . }}.seconds + 's')).trim()
{{- end -}}

{{/* The patch before those that append tolerations: it gives a pod without tolerations an empty list. */}}
{{- define "taintkeeper.cel.list" -}}
(has(object.spec.tolerations) ? [] : [JSONPatch{op: 'add', path: '/spec/tolerations', value: []}])
{{- end -}}

{{/* Whether an annotation is a list of tolerations in JSON, or empty. It refuses escapes, which no toleration needs, and lists so long
     that they would exceed the API server's limits for the cost of expressions. */}}
{{- define "taintkeeper.cel.isList" -}}
{{- $field := `("(key|operator|value|effect)"\s*:\s*("[-A-Za-z0-9./_]*"|null)|"tolerationSeconds"\s*:\s*(-?[0-9]{1,15}|null))` -}}
{{- $object := printf `\{\s*(%s(\s*,\s*%s)*)?\s*\}` $field $field -}}
size({{ . }}) <= 4000 && {{ . }}.matches(r'^\s*(\[\s*(({{ $object }})(\s*,\s*({{ $object }}))*)?\s*\])?\s*$')
{{- end -}}

{{/* The tolerations of such a list, with all their fields. If a field occurs twice, the last one counts, as in Go. */}}
{{- define "taintkeeper.cel.parse" -}}
{{ . }}.findAll(r'[{][^}]*[}]').map(j, {
  'key': j.find(r'(?s)^.*"key"\s*:\s*"[^"]*"').find(r'[^"]*"$').replace('"', ''),
  'operator': j.find(r'(?s)^.*"operator"\s*:\s*"[^"]*"').find(r'[^"]*"$').replace('"', ''),
  'value': j.find(r'(?s)^.*"value"\s*:\s*"[^"]*"').find(r'[^"]*"$').replace('"', ''),
  'effect': j.find(r'(?s)^.*"effect"\s*:\s*"[^"]*"').find(r'[^"]*"$').replace('"', ''),
  'seconds': j.find(r'(?s)^.*"tolerationSeconds"\s*:\s*-?[0-9]+').find(r'-?[0-9]+$')})
.map(t, {
  'key': t.key,
  'operator': t.operator == '' ? 'Equal' : t.operator,
  'value': t.operator == 'Exists' ? '' : t.value,
  'effect': t.effect,
  'seconds': t.effect == 'NoExecute' ? t.seconds : ''})
{{- end -}}

{{/* Whether each toleration of a parsed list would be valid in a pod. */}}
{{- define "taintkeeper.cel.makesSense" -}}
{{ . }}.all(t, t.operator in ['Exists', 'Equal', 'Lt', 'Gt'] && t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']
  && (t.key != '' || t.operator == 'Exists'))
{{- end -}}

{{/* A list of tolerations from the values, in the same form. */}}
{{- define "taintkeeper.cel.values" -}}
{{- $all := list -}}
{{- range . -}}
{{- $seconds := "" -}}
{{- if hasKey . "tolerationSeconds" -}}{{- $seconds = .tolerationSeconds | int64 | toString -}}{{- end -}}
{{- $all = append $all (dict "key" (.key | default "") "operator" (.operator | default "Equal") "value" (.value | default "") "effect" (.effect | default "") "seconds" $seconds) -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}
