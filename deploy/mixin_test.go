package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-jsonnet"
	"sigs.k8s.io/yaml"
)

// A mixin has what Prometheus and Grafana get of one.
type mixin struct {
	Alerts     any
	Dashboards map[string]json.RawMessage
}

// evaluate returns the mixin with an addition of its user.
func evaluate(t *testing.T, addition string) (m mixin) {
	t.Helper()
	text, err := jsonnet.MakeVM().EvaluateAnonymousSnippet("mixin_test",
		"local m = (import 'mixin/mixin.libsonnet') + "+addition+"; { alerts: m.prometheusAlerts, dashboards: m.grafanaDashboards }")
	must(t, err)
	must(t, json.Unmarshal([]byte(text), &m))
	return m
}

// The mixin has the dashboards of grafana and the alerts of prometheus.
func TestMixin(t *testing.T) {
	m := evaluate(t, "{}")
	var want []string
	for name, dashboard := range m.Dashboards {
		file := "grafana/" + strings.TrimPrefix(name, "weir-")
		want = append(want, file)
		var indented bytes.Buffer
		must(t, json.Indent(&indented, append(dashboard, '\n'), "", " "))
		if *update {
			must(t, os.WriteFile(file, indented.Bytes(), 0o644))
		}
		if text, err := os.ReadFile(file); string(text) != indented.String() {
			t.Errorf("%s is not %s of the mixin, %v (go test -run Mixin -update)", file, name, err)
		}
	}
	files, err := filepath.Glob("grafana/*.json")
	must(t, err)
	if slices.Sort(want); !slices.Equal(files, want) {
		t.Errorf("%q: want %q", files, want)
	}
	text, err := os.ReadFile("prometheus/alerts.yaml")
	must(t, err)
	var alerts any
	must(t, yaml.Unmarshal(text, &alerts))
	if !reflect.DeepEqual(m.Alerts, alerts) {
		t.Errorf("%v: want %v", m.Alerts, alerts)
	}
}

// The selector of a user of the mixin is in all queries, those of variables too.
func TestMixinSelector(t *testing.T) {
	for name, dashboard := range evaluate(t, `{ _config+:: { selector: 'cluster="eu"' } }`).Dashboards {
		var d struct {
			Panels     []panel
			Templating struct{ List []struct{ Definition string } }
		}
		must(t, json.Unmarshal(dashboard, &d))
		queries := queriesOf(d.Panels)
		for _, v := range d.Templating.List[1:] { // after the data source
			queries = append(queries, v.Definition)
		}
		for _, q := range queries {
			if n := strings.Count(q, "{"); n == 0 || strings.Count(q, `{cluster="eu"`) != n {
				t.Errorf("%s: %s: want the selector in each of its braces", name, q)
			}
		}
	}
}

// A panel of a dashboard. A collapsed row has the panels below it.
type panel struct {
	Targets []struct{ Expr string }
	Panels  []panel
}

func queriesOf(panels []panel) (queries []string) {
	for _, p := range panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
		queries = append(queries, queriesOf(p.Panels)...)
	}
	return queries
}
