{{/* Values that contradict each other end the rendering with a text that names them. */}}
{{- define "weir.validate" -}}
{{- $v := .Values -}}
{{- $mode := $v.mode -}}
{{- $autoscaling := include "weir.autoscaling" . -}}
{{- if and (eq $mode "single") (ne (include "weir.replicas" .) "1") -}}
{{- fail (printf "replicas = %v: mode single has 1 replica, because each replica would grant every key its whole quota: use mode store or peers" $v.replicas) -}}
{{- end -}}
{{- if and (eq $mode "single") $autoscaling -}}
{{- fail "autoscaling.enabled = true: mode single has 1 replica: use mode store or peers" -}}
{{- end -}}
{{- if and $autoscaling (ne (toString $v.replicas) "auto") -}}
{{- fail (printf "replicas = %v: the autoscaler sets the number of replicas: use autoscaling.minReplicas and autoscaling.maxReplicas, or autoscaling.enabled=false" $v.replicas) -}}
{{- end -}}
{{- $least := include "weir.minReplicas" . | int -}}
{{- if and $autoscaling (gt $least (int $v.autoscaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas = %v: must be <= autoscaling.maxReplicas = %v" $least $v.autoscaling.maxReplicas) -}}
{{- end -}}
{{- $name := "replicas" -}}
{{- if $autoscaling -}}{{- $name = "autoscaling.minReplicas" -}}{{- else -}}{{- $least = include "weir.replicas" . | int -}}{{- end -}}
{{- if and (eq $mode "peers") (lt $least 3) -}}
{{- fail (printf "%s = %v: mode peers needs 3 or more, because two instances cannot tell the death of the other one from a broken network: use mode single or store" $name $least) -}}
{{- end -}}
{{- if and (eq $mode "peers") (eq $v.peers.discovery "static") $autoscaling -}}
{{- fail "autoscaling.enabled = true: needs peers.discovery dns or kubernetes: with static, the number of peers is fixed in a flag" -}}
{{- end -}}
{{- if and (eq $mode "store") (not $v.store.url) (not $v.store.existingSecret) -}}
{{- fail "mode = store: set store.url, or store.existingSecret to the name of a Secret with the URL" -}}
{{- end -}}
{{- if and $v.store.url $v.store.existingSecret -}}
{{- fail "store.url and store.existingSecret exclude each other" -}}
{{- end -}}
{{- if and (ne $mode "store") (or $v.store.url $v.store.existingSecret) -}}
{{- fail (printf "store.url, store.existingSecret: need mode store, not %s" $mode) -}}
{{- end -}}
{{- if and (ne $mode "peers") $v.peers.existingSecret -}}
{{- fail (printf "peers.existingSecret: needs mode peers, not %s" $mode) -}}
{{- end -}}
{{- if and (eq $mode "leaf") (not $v.leaf.upstream) -}}
{{- fail "mode = leaf: set leaf.upstream to the URL of a weir that owns the limits, such as http://weir" -}}
{{- end -}}
{{- if and (ne $mode "leaf") (or $v.leaf.upstream $v.leaf.zones $v.leaf.tokenSecret.name) -}}
{{- fail (printf "leaf.upstream, leaf.zones, leaf.tokenSecret: need mode leaf, not %s" $mode) -}}
{{- end -}}
{{- if and (eq $mode "proxy") (not $v.proxy.origins) -}}
{{- fail "mode = proxy: set proxy.origins to the URLs of the origins, such as http://app:8000" -}}
{{- end -}}
{{- if and (ne $mode "proxy") (or $v.proxy.origins $v.proxy.trust $v.proxy.healthPath) -}}
{{- fail (printf "proxy.origins, proxy.trust, proxy.healthPath: need mode proxy, not %s" $mode) -}}
{{- end -}}
{{- if and (eq $mode "proxy") (or $v.resp.enabled $v.grpc.enabled $v.tokens.existingSecret) -}}
{{- fail "resp, grpc, tokens.existingSecret: mode proxy has none of them" -}}
{{- end -}}
{{- if and (include "weir.state" .) (not (has $mode (list "single" "peers"))) -}}
{{- fail (printf "state.enabled = true: mode %s keeps no state on a volume" $mode) -}}
{{- end -}}
{{- if and (not $v.admin.auth) (or $v.admin.existingSecret $v.serviceMonitor.tokenSecret.name) -}}
{{- fail "admin.existingSecret, serviceMonitor.tokenSecret: need admin.auth" -}}
{{- end -}}
{{- if and (or $v.admin.tls $v.tls.clientCA) (not $v.tls.existingSecret) -}}
{{- fail "admin.tls, tls.clientCA: need tls.existingSecret" -}}
{{- end -}}
{{- $ports := list 8080 8081 -}}
{{- range $name, $p := dict "resp" $v.resp "grpc" $v.grpc -}}
{{- if $p.enabled -}}
{{- if has (int $p.port) $ports -}}
{{- fail (printf "%s.port = %v: another listener has this port" $name $p.port) -}}
{{- end -}}
{{- $ports = append $ports (int $p.port) -}}
{{- end -}}
{{- end -}}
{{- end }}
