package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read decodes a file of the directory kubernetes.
func read(t *testing.T, name string) objects {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, strings.Split(string(text), "\n---\n"))
}

func TestManifests(t *testing.T) {
	for name, p := range plain {
		read(t, name).check(t, name, parse(t, p.values))
	}
}

// The PodMonitor selects the pods of every manifest, as job weir.
func TestPodMonitor(t *testing.T) {
	m := read(t, "podmonitor.yaml").podMonitors[0]
	for name := range plain {
		for _, w := range read(t, name).workloads {
			if !selects(m.Spec.Selector.MatchLabels, w.pod.Labels) || w.pod.Labels[m.Spec.JobLabel] != "weir" {
				t.Errorf("%+v: want the pods of %s, as job weir", m.Spec, name)
			}
		}
	}
	if e := m.Spec.PodMetricsEndpoints[0]; *e.Port != "admin" || e.Path != "/metrics" {
		t.Errorf("%+v: want the admin port", e)
	}
}

// Leaves beside their upstream in one namespace are apart from it.
func TestLeafBesideUpstream(t *testing.T) {
	leaf := read(t, "leaf.yaml")
	for name := range maps.Keys(plain) {
		if name == "leaf.yaml" {
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
