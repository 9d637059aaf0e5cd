{{/* The template of a pod. Its argument has root (the context of the chart) and zone (or ""). */}}
{{- define "weir.pod" -}}
{{- $v := .root.Values -}}
{{- $state := include "weir.state" .root -}}
{{- $rules := include "weir.rulesName" .root -}}
{{- $secrets := include "weir.secrets" .root | fromYaml -}}
{{- $kubernetes := and (eq $v.mode "peers") (eq $v.peers.discovery "kubernetes") -}}
metadata:
  # There is no checksum of the rules here: weir reloads them, and a restart of all pods would be a needless risk.
  labels:
    {{- include "weir.labels" .root | nindent 4 }}
    {{- with .zone }}
    weir/zone: {{ . | quote }}
    {{- end }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with include "weir.serviceAccount" .root }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: {{ $kubernetes }}
  enableServiceLinks: false # the variables of the Service look like flags of weir
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $v.shutdown }}
  # preStop, --drain-delay and --grace together, and {{ .marginSeconds }} s for the end
  terminationGracePeriodSeconds: {{ add .preStopSeconds .drainDelaySeconds .graceSeconds .marginSeconds }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532 # of the volumes
    seccompProfile: {type: RuntimeDefault}
  {{- if or .zone $v.nodeSelector }}
  nodeSelector:
    {{- with .zone }}
    topology.kubernetes.io/zone: {{ . | quote }}
    {{- end }}
    {{- with $v.nodeSelector }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and $v.topologySpread (ne $v.mode "single") }}
  topologySpreadConstraints:
    {{- range ternary (list "kubernetes.io/hostname") (list "topology.kubernetes.io/zone" "kubernetes.io/hostname") (ne $.zone "") }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "weir.selectorLabels" $.root | nindent 10 }}
          {{- with $.zone }}
          weir/zone: {{ . | quote }}
          {{- end }}
    {{- end }}
  {{- end }}
  containers:
    - name: weir
      image: {{ $v.image.repository }}{{ if $v.image.digest }}@{{ $v.image.digest }}{{ else }}:{{ $v.image.tag | default .root.Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args:
        {{- include "weir.args" .root | nindent 8 }}
      env:
        {{- include "weir.env" .root | nindent 8 }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: admin, containerPort: 8081}
        {{- if $v.resp.enabled }}
        - {name: resp, containerPort: {{ $v.resp.port }}}
        {{- end }}
        {{- if $v.grpc.enabled }}
        - {name: grpc, containerPort: {{ $v.grpc.port }}}
        {{- end }}
      readinessProbe:
        httpGet: {path: /-/ready, port: admin, scheme: {{ ternary "HTTPS" "HTTP" $v.admin.tls }}}
        periodSeconds: 2
      livenessProbe:
        httpGet: {path: /-/health, port: admin, scheme: {{ ternary "HTTPS" "HTTP" $v.admin.tls }}}
        periodSeconds: 10
        failureThreshold: 6
      lifecycle:
        preStop: # until no new requests arrive
          sleep: {seconds: {{ $v.shutdown.preStopSeconds }}}
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- if or $rules $state $secrets $v.extraVolumeMounts }}
      volumeMounts: # without subPath, which hides changes
        {{- if $rules }}
        - {name: rules, mountPath: /etc/weir, readOnly: true}
        {{- end }}
        {{- if $state }}
        - {name: state, mountPath: /var/lib/weir}
        {{- end }}
        {{- range $name, $_ := $secrets }}
        - {name: {{ $name }}, mountPath: /etc/weir-{{ $name }}, readOnly: true}
        {{- end }}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
  {{- if or $rules (and $state (eq $v.mode "single")) $secrets $v.extraVolumes }}
  volumes:
    {{- with $rules }}
    - name: rules
      configMap: {name: {{ . }}}
    {{- end }}
    {{- if and $state (eq $v.mode "single") }}
    - name: state
      persistentVolumeClaim: {claimName: {{ include "weir.fullname" .root }}-state}
    {{- end }}
    {{- range $name, $secret := $secrets }}
    - name: {{ $name }}
      secret: {secretName: {{ $secret }}, defaultMode: 0400} # the group of the pod may read it, too
    {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* The Secrets that are mounted as files, by the name of their volume. */}}
{{- define "weir.secrets" -}}
{{- $v := .Values -}}
{{- if $v.admin.auth }}
admin: {{ include "weir.adminSecret" . }}
{{- end }}
{{- if eq $v.mode "peers" }}
peers: {{ include "weir.peerSecret" . }}
{{- end }}
{{- with $v.tokens.existingSecret }}
tokens: {{ . }}
{{- end }}
{{- with $v.tls.existingSecret }}
tls: {{ . }}
{{- end }}
{{- with $v.leaf.tokenSecret.name }}
upstream: {{ . }}
{{- end }}
{{- end }}

{{- define "weir.args" -}}
{{- $v := .Values -}}
{{- if eq $v.mode "proxy" -}}
- proxy
{{- range $v.proxy.origins }}
- --origin={{ . }}
{{- end }}
{{- with $v.proxy.trust }}
- --trust={{ join "," . }}
{{- end }}
{{- with $v.proxy.healthPath }}
- --health-path={{ . }}
{{- end }}
{{- else -}}
- serve
{{- end }}
- --listen=:8080
- --admin=:8081
{{- if $v.resp.enabled }}
- --resp-listen=:{{ $v.resp.port }}
{{- end }}
{{- if $v.grpc.enabled }}
- --grpc-listen=:{{ $v.grpc.port }}
{{- end }}
{{- if include "weir.rulesName" . }}
- --rules=/etc/weir{{ if eq $v.mode "proxy" }}/{{ include "weir.rulesFile" . }}{{ end }}
{{- end }}
{{- if include "weir.state" . }}
- --state=/var/lib/weir/state
{{- end }}
{{- if and (eq $v.mode "store") $v.store.required }}
- --store-required
{{- end }}
{{- if eq $v.mode "peers" }}
- --peers={{ include "weir.peers" . }}
{{- if eq $v.peers.discovery "static" }}
- --self={{ include "weir.scheme" . }}://$(POD_NAME).{{ include "weir.headless" . }}:8080
{{- else if eq $v.peers.discovery "kubernetes" }}
- --self=$(POD_NAME)
{{- end }}
- --peer-secret-file=/etc/weir-peers/{{ $v.peers.secretKey }}
{{- if $v.tls.existingSecret }}
- --peer-ca=/etc/weir-tls/ca.crt
{{- end }}
{{- end }}
{{- if eq $v.mode "leaf" }}
- --upstream={{ $v.leaf.upstream }}
- --upstream-leaves={{ include "weir.leaves" . }}
{{- if $v.leaf.tokenSecret.name }}
- --upstream-token-file=/etc/weir-upstream/{{ $v.leaf.tokenSecret.key }}
{{- end }}
{{- end }}
{{- if $v.tokens.existingSecret }}
- --tokens=/etc/weir-tokens/tokens.yaml
{{- end }}
{{- if $v.tls.existingSecret }}
- --tls-cert=/etc/weir-tls/tls.crt
- --tls-key=/etc/weir-tls/tls.key
{{- end }}
{{- if $v.tls.clientCA }}
- --{{ if eq $v.mode "proxy" }}tls-{{ end }}client-ca=/etc/weir-tls/ca.crt
{{- end }}
{{- if $v.admin.auth }}
- --admin-tokens=/etc/weir-admin/tokens.yaml
{{- end }}
{{- if $v.admin.tls }}
- --admin-tls
{{- end }}
- --log-format=json
- --drain-delay={{ $v.shutdown.drainDelaySeconds }}s
- --grace={{ $v.shutdown.graceSeconds }}s
{{- with $v.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "weir.env" -}}
{{- $v := .Values -}}
- name: GOMEMLIMIT
  value: {{ $v.goMemLimit }}
{{- if eq $v.mode "store" }}
- name: WEIR_STORE
  valueFrom:
    secretKeyRef: {name: {{ include "weir.storeSecret" . }}, key: {{ $v.store.secretKey }}}
{{- end }}
{{- if and (eq $v.mode "peers") (ne $v.peers.discovery "dns") }}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
