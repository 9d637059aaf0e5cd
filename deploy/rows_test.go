package deploy_test

import (
	"strings"
	"testing"
)

// What single values do to single lines.
func TestRows(t *testing.T) {
	const digest = "sha256:6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"
	for _, tt := range []struct {
		values, file string
		want, not    string // not: "" for none
	}{
		{``, "deployment.yaml", "image: ghcr.io/weir-go/weir:0.1.0\n", ""},
		{`image: {tag: "7"}`, "deployment.yaml", "image: ghcr.io/weir-go/weir:7\n", ""},
		{`image: {tag: "7", digest: "` + digest + `"}`, "deployment.yaml", "image: ghcr.io/weir-go/weir@" + digest + "\n", ":7"},
		{``, "deployment.yaml", "- --admin-tokens=/etc/weir-admin/tokens.yaml\n", ""},
		{`admin: {auth: false}`, "deployment.yaml", "- serve\n", "admin-tokens"},
		{`admin: {auth: false}`, "adminsecret.yaml", "", "Secret"},
		{``, "adminsecret.yaml", "allow: [metrics]}\n", ""},
		{`tokens: {existingSecret: callers}`, "deployment.yaml", "secret: {secretName: callers, defaultMode: 0400}", ""},
		{`{mode: peers}`, "statefulset.yaml", "- --peer-secret-file=/etc/weir-peers/secret\n", "WEIR_PEER_SECRET"},
		{`{mode: leaf, leaf: {upstream: "http://weir", tokenSecret: {name: a, key: b}}}`, "deployment.yaml", "- --upstream-token-file=/etc/weir-upstream/b\n", "WEIR_UPSTREAM_TOKEN"},
		{``, "persistentvolumeclaim.yaml", "helm.sh/resource-policy: keep\n", ""},
		{`state: {keep: false}`, "persistentvolumeclaim.yaml", "kind: PersistentVolumeClaim\n", "keep\n"},
		{`{mode: peers, state: {enabled: true}}`, "statefulset.yaml", "persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}\n", ""},
		{`{mode: peers, state: {enabled: true, keep: false}}`, "statefulset.yaml", "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}\n", ""},
		{``, "poddisruptionbudget.yaml", "unhealthyPodEvictionPolicy: AlwaysAllow\n", ""},
		{`podDisruptionBudget: {unhealthyPodEvictionPolicy: IfHealthyBudget}`, "poddisruptionbudget.yaml", "unhealthyPodEvictionPolicy: IfHealthyBudget\n", ""},
		{`{mode: peers, peers: {discovery: dns}, autoscaling: {enabled: true}}`, "horizontalpodautoscaler.yaml", "minReplicas: 3\n", ""},
		{`{mode: store, store: {existingSecret: a}}`, "deployment.yaml", "- --store-required\n", ""},
		{`{mode: store, store: {existingSecret: a, required: false}}`, "deployment.yaml", "- serve\n", "store-required"},
		{`{mode: store, store: {existingSecret: a}}`, "horizontalpodautoscaler.yaml", "minReplicas: 2\n", ""},
		{``, "networkpolicy.yaml", "policyTypes: [Ingress, Egress]\n", "port: 53"},
		{``, "networkpolicy.yaml", "  egress: []", ""},
		{`{mode: proxy, proxy: {origins: ["http://a"]}, networkPolicy: {destinations: [{podSelector: {matchLabels: {app: a}}}]}}`, "networkpolicy.yaml", "app: a\n", "- {}"},
		{``, "prometheusrule.yaml", "", "kind"},
		{`prometheusRule: {enabled: true, labels: {release: prometheus}}`, "prometheusrule.yaml", "    release: prometheus\nspec:\n", ""},
		{``, "dashboard.yaml", "", "kind"},
		{`dashboard: {enabled: true}`, "dashboard.yaml", `grafana_dashboard: "1"`, "weir-proxy.json"},
		{`dashboard: {enabled: true}`, "dashboard.yaml", "  weir-envoy.json: |\n    {\n", "weir-library.json"},
		{`dashboard: {enabled: true, names: [library]}`, "dashboard.yaml", "  weir-library.json: |\n    {\n", "weir-serve.json"},
		{`{mode: proxy, proxy: {origins: ["http://a"]}, dashboard: {enabled: true}}`, "dashboard.yaml", "  weir-proxy.json: |\n", "weir-serve.json"},
		{`serviceMonitor: {enabled: true}`, "servicemonitor.yaml", "credentials: {name: shop-weir-admin, key: prometheus}\n", ""},
		{`{mode: proxy, proxy: {origins: ["http://a", "http://b:81"]}}`, "deployment.yaml", "- --origin=http://a\n            - --origin=http://b:81\n", "serve"},
		{`{mode: proxy, proxy: {origins: ["http://a"], trust: [10.0.0.0/8, "::1"], healthPath: /up}}`, "deployment.yaml", "- --trust=10.0.0.0/8,::1\n            - --health-path=/up\n", ""},
		{`{mode: proxy, proxy: {origins: ["http://a"]}}`, "configmap.yaml", "    mode: shadow", ""},
		{`{mode: proxy, proxy: {origins: ["http://a"]}, rules: {content: "tenants: {by: address}"}}`, "configmap.yaml", "  proxy.yaml: |\n    tenants: {by: address}\n", ""},
	} {
		files, err := render("shop", parse(t, tt.values))
		if err != nil {
			t.Errorf("%s: %v", tt.values, err)
			continue
		}
		got := files[tt.file] + "\n"
		if !strings.Contains(got, tt.want) || tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%s: %s:\n%s\nwant %q, and not %q", tt.values, tt.file, got, tt.want, tt.not)
		}
	}
}
