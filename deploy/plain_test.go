package deploy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the manifests of the directory kubernetes, and the dashboards of grafana")

// plain are the manifests for clusters without Helm: what the chart renders, by file.
var plain = map[string]struct{ release, values, about string }{
	"weir.yaml": {"weir", `admin: {existingSecret: weir-admin}`, `
# weir serve in Kubernetes: kubectl apply -f weir.yaml`},
	"store.yaml": {"weir", `{mode: store, store: {existingSecret: weir-store}, admin: {existingSecret: weir-admin}}`, `
# weir serve in Kubernetes, any number of instances with a store, Redis or Valkey:
#
#   kubectl create secret generic weir-store --from-literal=url=redis://user:password@redis:6379
#   kubectl apply -f store.yaml`},
	"peers.yaml": {"weir", `{mode: peers, peers: {existingSecret: weir-peers}, admin: {existingSecret: weir-admin}}`, `
# weir serve in Kubernetes, three instances that divide the keys among themselves:
#
#   kubectl create secret generic weir-peers --from-literal=secret=$(openssl rand -hex 32)
#   kubectl apply -f peers.yaml
#
# For another number of instances, change replicas and the list of --peers together.`},
	"leaf.yaml": {"weir-leaf", `{mode: leaf, leaf: {upstream: "http://weir"}, admin: {existingSecret: weir-admin}}`, `
# weir serve in Kubernetes, leaves that decide by shares of an upstream. The upstream is the
# Service of peers.yaml, store.yaml or weir.yaml in the same namespace:
#
#   kubectl apply -f leaf.yaml`},
	"proxy.yaml": {"weir-proxy", `{mode: proxy, proxy: {origins: ["http://app:8000"]}, admin: {existingSecret: weir-admin}}`, `
# weir proxy in Kubernetes, in front of the Service app:
#
#   kubectl apply -f proxy.yaml`},
}

// secretOfOperators tells how to create the Secret that every manifest needs.
const secretOfOperators = `
#
# The port of operators asks for tokens:
#
#   OPERATOR=$(openssl rand -hex 32) PROMETHEUS=$(openssl rand -hex 32)
#   kubectl create secret generic weir-admin --from-literal=operator=$OPERATOR --from-literal=prometheus=$PROMETHEUS \
#     --from-literal=tokens.yaml="tokens: [{name: operator, token: $OPERATOR, allow: [admin]}, {name: prometheus, token: $PROMETHEUS, allow: [metrics]}]"`

// The plain manifests are equal to renderings of the chart. go test -run Plain -update writes them.
func TestPlain(t *testing.T) {
	for name, p := range plain {
		files, err := render(p.release, parse(t, p.values))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.TrimSpace(p.about) + secretOfOperators + "\n#\n# go test -update writes this file: it is the chart of deploy/helm/weir with these values:\n#   " +
			p.values + "\n" + strings.Join(documents(files), "\n---\n") + "\n"
		name = filepath.Join("kubernetes", name)
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is not what the chart renders: run go test -run Plain -update . in deploy (%v)", name, err)
		}
	}
}
