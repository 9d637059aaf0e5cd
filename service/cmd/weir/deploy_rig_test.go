package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deployed returns the text of a file of deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../deploy", name))
	fatal(t, err)
	return string(text)
}

// dashboards are the files of the dashboards.
var dashboards = []string{"grafana/serve.json", "grafana/proxy.json", "grafana/fleet.json", "grafana/envoy.json", "grafana/library.json"}

// dashboard returns the queries of the panels of a dashboard, and those of its variables. It checks that each
// panel has its own id, and a query unless it is a row.
func dashboard(t *testing.T, name string) (queries, variables []string) {
	t.Helper()
	type panel struct {
		ID          int
		Type, Title string
		Targets     []struct{ Expr string }
	}
	var file struct {
		Panels []struct {
			panel
			Panels []panel // of a row that is collapsed
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	fatal(t, json.Unmarshal([]byte(deployed(t, name)), &file))
	ids := map[int]bool{}
	var panels []panel
	for _, p := range file.Panels {
		panels = append(append(panels, p.panel), p.Panels...)
	}
	for _, p := range panels {
		if ids[p.ID] || len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %d, %s: want an id of its own, and something to show", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries = append(queries, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	for _, v := range file.Templating.List {
		variables = append(variables, v.Definition)
	}
	return queries, variables
}
