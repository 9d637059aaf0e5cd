package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// read decodes a file of the directory kubernetes.
func read(t *testing.T, name string) objects {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	must(t, err)
	return decode(t, strings.Split(string(text), "\n---\n"))
}

func TestManifests(t *testing.T) {
	for name, p := range plain {
		read(t, name).check(t, name, parse(t, p.values))
	}
}

// The PodMonitor selects the pods of every manifest, as the job of the alerts, and has the token of the Secret that
// every manifest needs.
func TestPodMonitor(t *testing.T) {
	m := read(t, "podmonitor.yaml").podMonitors[0]
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	must(t, err)
	for name := range plain {
		for _, w := range read(t, name).workloads {
			job := map[bool]string{true: "weir-proxy", false: "weir"}[name == "proxy.yaml"]
			if !selector.Matches(labels.Set(w.pod.Labels)) || w.pod.Labels[m.Spec.JobLabel] != job {
				t.Errorf("%+v: want the pods of %s, as job %s", m.Spec, name, job)
			}
		}
	}
	if e := m.Spec.PodMetricsEndpoints[0]; *e.Port != "admin" || e.Path != "/metrics" ||
		e.Authorization.Credentials.Name != "weir-admin" || !strings.Contains(secretOfOperators, "--from-literal="+e.Authorization.Credentials.Key+"=") {
		t.Errorf("%+v: want the admin port, with the token of Prometheus", e)
	}
}

// Leaves beside their upstream in one namespace are apart from it.
func TestLeafBesideUpstream(t *testing.T) {
	leaf := read(t, "leaf.yaml")
	for name := range maps.Keys(plain) {
		if name == "leaf.yaml" || name == "proxy.yaml" {
			continue
		}
		upstream := read(t, name)
		for _, s := range upstream.services {
			if selects(s.Spec.Selector, leaf.workloads[0].pod.Labels) || leaf.service(s.Name) != nil {
				t.Errorf("%s: the Service %s has leaves", name, s.Name)
			}
		}
		if upstream.service(strings.TrimPrefix(leaf.workloads[0].flag("--upstream"), "http://")) == nil {
			t.Errorf("%s has no Service %s", name, leaf.workloads[0].flag("--upstream"))
		}
	}
}
