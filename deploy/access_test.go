package deploy_test

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Callers reach the ports of callers, peers each other, and operators the admin port.
func (c checker) checkNetwork() {
	for _, n := range c.networks {
		for _, w := range c.workloads {
			if !selects(n.Spec.PodSelector.MatchLabels, w.pod.Labels) || !slices.Equal(n.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) {
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
		}
	}
}

// Prometheus scrapes the admin port as the job weir, and each pod once.
func (c checker) checkMonitors() {
	for _, m := range c.monitors {
		var found []*corev1.Service
		for _, s := range c.services {
			if selects(m.Spec.Selector.MatchLabels, s.Labels) {
				found = append(found, s)
			}
		}
		e := m.Spec.Endpoints[0]
		if len(found) != 1 || found[0].Labels[m.Spec.JobLabel] != "weir" || e.Path != "/metrics" ||
			!slices.ContainsFunc(found[0].Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port && p.TargetPort.String() == "admin" }) {
			c.fault("ServiceMonitor: %+v: want one Service with the admin port, as job weir", m.Spec)
		}
		tls := slices.Contains(c.workloads[0].container().Args, "--admin-tls")
		if scheme := e.Scheme; (scheme != nil && scheme.String() == "https") != tls {
			c.fault("ServiceMonitor: scheme %v, TLS %v", scheme, tls)
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
