{{/* The name of the objects. It leaves room for suffixes: a Service has at most 63 characters. */}}
{{- define "weir.fullname" -}}
{{- $name := .Release.Name -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if not (contains .Chart.Name .Release.Name) -}}
{{- $name = printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "weir.headless" -}}
{{ include "weir.fullname" . }}-headless
{{- end }}

{{/* The job of Prometheus, by which alerts find the metrics. */}}
{{- define "weir.job" -}}
{{- ternary "weir-proxy" "weir" (eq .Values.mode "proxy") -}}
{{- end }}

{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: {{ include "weir.job" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
app.kubernetes.io/component: {{ .Values.mode }}
{{- end }}

{{/* The number of pods, without autoscaling. */}}
{{- define "weir.replicas" -}}
{{- if eq (toString .Values.replicas) "auto" -}}
{{- get (dict "single" 1 "store" 2 "peers" 3 "leaf" 2 "proxy" 2) .Values.mode -}}
{{- else -}}
{{- .Values.replicas | int -}}
{{- end -}}
{{- end }}

{{/* "true" or "". */}}
{{- define "weir.autoscaling" -}}
{{- $on := .Values.autoscaling.enabled -}}
{{- if eq (toString $on) "auto" -}}{{- $on = eq .Values.mode "store" -}}{{- end -}}
{{- if $on }}true{{ end -}}
{{- end }}

{{/* The least number of pods, with autoscaling. */}}
{{- define "weir.minReplicas" -}}
{{- if eq (toString .Values.autoscaling.minReplicas) "auto" -}}
{{- ternary 3 2 (eq .Values.mode "peers") -}}
{{- else -}}
{{- .Values.autoscaling.minReplicas | int -}}
{{- end -}}
{{- end }}

{{/* The least number of leaves, by which they divide the limits until the upstream tells more. */}}
{{- define "weir.leaves" -}}
{{- $each := include "weir.replicas" . -}}
{{- if include "weir.autoscaling" . -}}{{- $each = include "weir.minReplicas" . -}}{{- end -}}
{{- mul (int $each) (max 1 (len .Values.leaf.zones)) -}}
{{- end }}

{{/* "true" or "". */}}
{{- define "weir.state" -}}
{{- $on := .Values.state.enabled -}}
{{- if eq (toString $on) "auto" -}}{{- $on = eq .Values.mode "single" -}}{{- end -}}
{{- if $on }}true{{ end -}}
{{- end }}

{{/* The name of the file of rules. */}}
{{- define "weir.rulesFile" -}}
{{- ternary "proxy.yaml" "rules.yaml" (eq .Values.mode "proxy") -}}
{{- end }}

{{/* The name of the ConfigMap with the rules, or "". */}}
{{- define "weir.rulesName" -}}
{{- if .Values.rules.existingConfigMap -}}
{{- .Values.rules.existingConfigMap -}}
{{- else if .Values.rules.content -}}
{{- include "weir.fullname" . }}-rules
{{- end -}}
{{- end }}

{{- define "weir.storeSecret" -}}
{{- .Values.store.existingSecret | default (printf "%s-store" (include "weir.fullname" .)) -}}
{{- end }}

{{- define "weir.peerSecret" -}}
{{- .Values.peers.existingSecret | default (printf "%s-peers" (include "weir.fullname" .)) -}}
{{- end }}

{{/* The Secret with the tokens of operators. */}}
{{- define "weir.adminSecret" -}}
{{- .Values.admin.existingSecret | default (printf "%s-admin" (include "weir.fullname" .)) -}}
{{- end }}

{{/* "true" if the chart creates a ServiceAccount. */}}
{{- define "weir.ownServiceAccount" -}}
{{- if and (eq .Values.mode "peers") (eq .Values.peers.discovery "kubernetes") (not .Values.serviceAccount.name) }}true{{ end -}}
{{- end }}

{{- define "weir.serviceAccount" -}}
{{- if include "weir.ownServiceAccount" . -}}
{{- include "weir.fullname" . -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* http or https: how peers call each other. */}}
{{- define "weir.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end -}}
{{- end }}

{{/* The value of --peers. */}}
{{- define "weir.peers" -}}
{{- $scheme := include "weir.scheme" . -}}
{{- $headless := include "weir.headless" . -}}
{{- if eq .Values.peers.discovery "dns" -}}
dns+{{ $scheme }}://{{ $headless }}:8080
{{- else if eq .Values.peers.discovery "kubernetes" -}}
kubernetes{{ if eq $scheme "https" }}+https{{ end }}://{{ $headless }}:8080
{{- else -}}
{{- $urls := list -}}
{{- range $i := until (include "weir.replicas" . | int) -}}
{{- $urls = append $urls (printf "%s://%s-%d.%s:8080" $scheme (include "weir.fullname" $) $i $headless) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}
{{- end }}
