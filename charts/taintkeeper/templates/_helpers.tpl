{{/* Labels of every object. */}}
{{- define "taintkeeper.labels" -}}
{{ include "taintkeeper.labelsAnd" (list . dict) }}
{{- end }}

{{/* Labels of an object with additional labels: (list $ more). These take precedence over commonLabels. */}}
{{- define "taintkeeper.labelsAnd" -}}
{{- include "taintkeeper.chartLabels" (index . 0) }}
{{- with merge dict (index . 1) (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that do not depend on values. */}}
{{- define "taintkeeper.chartLabels" -}}
{{ include "taintkeeper.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels by which the Deployment selects its pods. They cannot change in an upgrade. */}}
{{- define "taintkeeper.selectorLabels" -}}
app.kubernetes.io/name: taintkeeper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The name of an object outside of the release's namespace: (list $ name). For kube-system it is just the name. Elsewhere the
     namespace follows, so that releases do not share objects. A namespace has no dot, so names never collide. */}}
{{- define "taintkeeper.clusterName" -}}
{{- $namespace := (index . 0).Release.Namespace -}}
{{ index . 1 }}{{ if ne $namespace "kube-system" }}.{{ $namespace }}{{ end }}
{{- end }}

{{/* What is enabled. Each returns "true" or nothing, because templates return text. */}}
{{- define "taintkeeper.enforces" -}}
{{- if eq .Values.mode "enforce" }}true{{ end }}
{{- end }}

{{- define "taintkeeper.evicts" -}}
{{- if and (include "taintkeeper.enforces" .) (has "eviction" .Values.controllers) }}true{{ end }}
{{- end }}

{{- define "taintkeeper.nodeHealth" -}}
{{- if and (include "taintkeeper.enforces" .) (has "node-health" .Values.controllers) }}true{{ end }}
{{- end }}

{{- define "taintkeeper.rules" -}}
{{- if and (include "taintkeeper.enforces" .) (has "node-taint-rule" .Values.controllers) }}true{{ end }}
{{- end }}

{{- define "taintkeeper.coexists" -}}
{{- if and (include "taintkeeper.evicts" .) .Values.coexist.enabled }}true{{ end }}
{{- end }}

{{/* The policy and the clock exist in shadow mode, too: after a change from enforce mode they protect pods from the
     built-in's backlog, and a rollback finds them. Once the clock is stale and the backlog is over, they refuse nothing. */}}
{{- define "taintkeeper.coexistence" -}}
{{- if and (has "eviction" .Values.controllers) .Values.coexist.enabled }}true{{ end }}
{{- end }}

{{- define "taintkeeper.replicas" -}}
{{- if include "taintkeeper.enforces" . }}{{ .Values.replicas | int }}{{ else }}1{{ end }}
{{- end }}

{{- define "taintkeeper.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Taintkeeper as a subject of a binding. */}}
{{- define "taintkeeper.subject" -}}
- kind: ServiceAccount
  name: taintkeeper
  namespace: {{ .Release.Namespace }}
{{- end }}
