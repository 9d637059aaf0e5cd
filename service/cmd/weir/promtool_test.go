//go:build system

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// promtool runs promtool in a directory of deploy. An error fails the test.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = filepath.Join("../../../deploy", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (make need installs it)\n%s", strings.Join(args, " "), err, out)
	}
}

// Prometheus accepts its configuration, the alerts, and the queries of the dashboards, and the tests of the alerts
// pass.
func TestPromtool(t *testing.T) {
	promtool(t, "prometheus", "check", "config", "--syntax-only", "prometheus.yml")
	promtool(t, "prometheus", "check", "config", "--syntax-only", "prometheus-store.yml")
	promtool(t, "prometheus", "check", "rules", "alerts.yaml")
	promtool(t, "prometheus", "test", "rules", "alerts_test.yaml")
	var queries []string
	for _, name := range dashboards {
		more, _ := dashboard(t, name)
		queries = append(queries, more...)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, query := range queries {
		fmt.Fprintf(&rules, "  - record: panel:%d\n    expr: %q\n", i, query)
	}
	promtool(t, ".", "check", "rules", file(t, "rules.yaml", rules.String()))
}
