package deploy_test

import (
	"os"
	"reflect"
	"slices"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// Callers reach the ports of callers, peers each other, and operators the admin port.
func (c checker) checkNetwork() {
	for _, n := range c.networks {
		for _, w := range c.workloads {
			if !selects(n.Spec.PodSelector.MatchLabels, w.pod.Labels) || !slices.Equal(n.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
				c.fault("NetworkPolicy: %+v does not select %s", n.Spec.PodSelector, w.name)
			}
			var open []string
			peers := false
			for _, rule := range n.Spec.Ingress {
				for _, p := range rule.Ports {
					open = append(open, p.Port.String())
					if p.Port.String() == "admin" && slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool { return from.NamespaceSelector == nil }) {
						c.fault("NetworkPolicy opens the admin port to %+v", rule.From)
					}
					peers = peers || p.Port.String() == "http" && slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
						return from.NamespaceSelector == nil && from.PodSelector != nil && len(from.PodSelector.MatchLabels) > 0 && selects(from.PodSelector.MatchLabels, w.pod.Labels)
					})
				}
			}
			for _, p := range w.container().Ports {
				if !slices.Contains(open, p.Name) {
					c.fault("NetworkPolicy opens %v, but not %s", open, p.Name)
				}
			}
			if peers != (c.mode == "peers") {
				c.fault("NetworkPolicy lets the pods reach each other: %v", peers)
			}
			c.checkEgress(n, &w)
		}
	}
}

// Pods of single reach nothing, those of peers each other, DNS, and the API of Kubernetes if they ask it. Those of the
// other modes reach everything, or the destinations of the values.
func (c checker) checkEgress(n *networkingv1.NetworkPolicy, w *workload) {
	var to []string
	for _, rule := range n.Spec.Egress {
		name := "destinations"
		for _, p := range rule.Ports {
			name = map[string]string{"53": "DNS", "http": "peers", "443": "API", "6443": "API"}[p.Port.String()]
		}
		if name == "peers" && !selects(rule.To[0].PodSelector.MatchLabels, w.pod.Labels) {
			c.fault("NetworkPolicy: %+v are not the peers", rule.To)
		}
		if name == "destinations" && !reflect.DeepEqual(rule.To, c.destinations) {
			c.fault("NetworkPolicy opens connections to %+v: want %+v", rule.To, c.destinations)
		}
		to = append(to, name)
	}
	want := map[string][]string{"store": {"DNS", "destinations"}, "leaf": {"DNS", "destinations"}, "proxy": {"DNS", "destinations"}, "peers": {"DNS", "peers"}}[c.mode]
	if strings.HasPrefix(w.flag("--peers"), "kubernetes") {
		want = append(want, "API")
	}
	if c.destinations != nil && c.mode == "single" {
		want = []string{"DNS", "destinations"}
	}
	if !slices.Equal(to, want) {
		c.fault("NetworkPolicy opens connections to %q: want %q", to, want)
	}
}

// The PrometheusRule has the alerts of the directory prometheus.
func (c checker) checkAlerts() {
	for _, rule := range c.alerts {
		text, err := os.ReadFile("prometheus/alerts.yaml")
		if err != nil {
			c.Fatal(err)
		}
		var want monitoringv1.PrometheusRuleSpec
		if err := yaml.UnmarshalStrict(text, &want); err != nil || !reflect.DeepEqual(rule.Spec, want) {
			c.fault("PrometheusRule: not the alerts of prometheus/alerts.yaml (%v)", err)
		}
	}
}

// Prometheus scrapes the admin port as the job of the alerts, with a token if that is needed, and each pod once.
func (c checker) checkMonitors() {
	for _, m := range c.monitors {
		var found []*corev1.Service
		for _, s := range c.services {
			if selects(m.Spec.Selector.MatchLabels, s.Labels) {
				found = append(found, s)
			}
		}
		e := m.Spec.Endpoints[0]
		if len(found) != 1 || found[0].Labels[m.Spec.JobLabel] != c.job() || e.Path != "/metrics" ||
			!slices.ContainsFunc(found[0].Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port && p.TargetPort.String() == "admin" }) {
			c.fault("ServiceMonitor: %+v: want one Service with the admin port, as job %s", m.Spec, c.job())
		}
		tls := slices.Contains(c.workloads[0].container().Args, "--admin-tls")
		if scheme := e.Scheme; (scheme != nil && scheme.String() == "https") != tls {
			c.fault("ServiceMonitor: scheme %v, TLS %v", scheme, tls)
		}
		auth := c.workloads[0].flag("--admin-tokens") != ""
		if auth != (e.Authorization != nil) {
			c.fault("ServiceMonitor: %+v: want a token: %t", e.Authorization, auth)
		} else if auth {
			c.checkSecretKey(e.Authorization.Credentials.Name, e.Authorization.Credentials.Key)
		}
	}
}

// A ServiceAccount that a pod names exists, and one that reads EndpointSlices may do so.
func (c checker) checkAccounts() {
	for _, w := range c.workloads {
		name := w.pod.Spec.ServiceAccountName
		if name != "" && !given(name) && !slices.ContainsFunc(c.accounts, hasName[*corev1.ServiceAccount](name)) {
			c.fault("no ServiceAccount %s", name)
		}
		if !strings.HasPrefix(w.flag("--peers"), "kubernetes") {
			if len(c.accounts)+len(c.roles)+len(c.bindings) > 0 {
				c.fault("rights that are not needed")
			}
			continue
		}
		if len(c.roles) != 1 || len(c.bindings) != 1 {
			c.fault("%d Roles, %d RoleBindings: want one of each", len(c.roles), len(c.bindings))
			continue
		}
		rule, binding := c.roles[0].Rules[0], c.bindings[0]
		if len(c.roles[0].Rules) != 1 || !slices.Equal(rule.APIGroups, []string{"discovery.k8s.io"}) || !slices.Equal(rule.Resources, []string{"endpointslices"}) ||
			!slices.Equal(rule.Verbs, []string{"list"}) || binding.RoleRef.Name != c.roles[0].Name || binding.RoleRef.Kind != "Role" ||
			binding.Subjects[0].Name != name || binding.Subjects[0].Namespace != "limits" {
			c.fault("%+v %+v: want that %s may read EndpointSlices", c.roles[0].Rules, binding, name)
		}
	}
}
