//go:build system

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/redisstore"
)

func TestCheckStore(t *testing.T) {
	url := "redis://" + redistest.Start(t, "redis-server").Addr
	code, stdout, stderr := weir(t, "check", "--store", url)
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, url+"\n") || !strings.Contains(stdout, "scripts") {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
	var told struct {
		Rules int
		Store redisstore.Report
	}
	rules := file(t, "rules.yaml", checkRules)
	code, stdout, _ = weir(t, "check", "--store", url, "--json", rules, "login:a")
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 0 || told.Rules != 2 || !told.Store.Fit || len(told.Store.Findings) < 5 {
		t.Errorf("%d, %v: %s", code, err, stdout)
	}
	code, stdout, stderr = weir(t, "check", "--store", url, rules, "login:a")
	if code != 0 || !strings.Contains(stdout, ": 2 rules, hash ") || !strings.Contains(stdout, url) {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
}

func TestCheckStoreUnfit(t *testing.T) {
	s := redistest.Start(t, "redis-server")
	auto := file(t, "auto.yaml", `rules: [{key: a, concurrency: {limit: auto}}]`)
	mixed := file(t, "mixed.yaml", "apply: all\nrules: [{key: a, rate: 1/s}, {glob: '*', rate: 9/s, per: rule}]")
	url := "redis://" + s.Addr
	if code, stdout, stderr := weir(t, "check", "--store", url, auto); code != 1 || !strings.Contains(stderr, "auto finds the limit of one instance") || !strings.Contains(stdout, "scripts") {
		t.Errorf("%d, %s, %s: want the mistake in the rules, and the state of the store", code, stdout, stderr)
	}
	if code, _, stderr := weir(t, "check", auto); code != 0 {
		t.Errorf("without a store: %s", stderr)
	}
	if code, _, stderr := weir(t, "check", "--store", url, mixed); code != 0 {
		t.Errorf("without a Cluster: %s", stderr)
	}
	if code, _, stderr := weir(t, "check", "--store", url+"?cluster=true", mixed); code != 1 || !strings.Contains(stderr, "a Redis Cluster cannot decide about both in one call") ||
		!strings.Contains(stderr, "the store "+url+"?cluster=true is not fit") {
		t.Errorf("%d, %s", code, stderr)
	}
	s.Kill()
	code, stdout, stderr := weir(t, "check", "--store", url, "--json")
	var told map[string]any
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 1 || len(told) != 1 || !strings.Contains(stderr, "is not fit") {
		t.Errorf("%d, %v, %s, %s", code, err, stdout, stderr)
	}
	if code, _, stderr := weir(t, "check", "--store", "http://a"); code != 2 || !strings.Contains(stderr, "the scheme is") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// The stores of the Compose files start, and are fit without a warning.
func TestCheckComposed(t *testing.T) {
	for _, engine := range []string{"redis", "valkey"} {
		m := regexp.MustCompile(`command: (\[.*\])\n`).FindStringSubmatch(deployed(t, "compose-"+engine+".yaml"))
		if m == nil {
			t.Fatalf("compose-%s.yaml: the store has no command", engine)
		}
		var command []string
		fatal(t, yaml.Unmarshal([]byte(m[1]), &command))
		s := redistest.Start(t, command[0], command[1:]...)
		code, stdout, stderr := weir(t, "check", "--store", engine+"://"+s.Addr, "../../../deploy/rules")
		if code != 0 || strings.Contains(stdout, "warning") || !strings.Contains(stdout, "noeviction, maxmemory 256.00M") || strings.Contains(stdout, "no appendonly") {
			t.Errorf("%s: %d, %s, %s", engine, code, stdout, stderr)
		}
	}
}
