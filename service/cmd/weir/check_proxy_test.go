//go:build !race

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/rulecheck"
)

const checkProxyRules = `
rules:
  - {name: clients, by: [header X-Api-Key, address], rate: 100/m, burst: 20}
classes:
  - {name: reports, routes: /reports/, limit: 5}
`

// Check recognizes a file of weir proxy, and explains requests.
func TestCheckProxy(t *testing.T) {
	path := file(t, "proxy.yaml", checkProxyRules)
	for _, args := range [][]string{{"check"}, {"check", "--proxy"}} {
		code, stdout, stderr := weir(t, append(args, path, `/reports/7 X-Api-Key="a b"`)...)
		const want = `
GET /reports/7 from 127.0.0.1
  class reports (route "/reports/"): limit 5
  rule clients: takes 1 token: 100/m, 20 at once, of header X-Api-Key "a b"
  priority critical
`
		first, rest, _ := strings.Cut(stdout, "\n")
		if code != 0 || stderr != "" || rest != want || !strings.Contains(first, "weir proxy, 1 rules, 1 classes, hash ") {
			t.Errorf("%q: %d, %s, %s: want %s", args, code, stdout, stderr, want)
		}
	}
	code, stdout, _ := weir(t, "check", "--json", path, "/")
	var report rulecheck.ProxyReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || report.Requests[0].Class != "default" || !report.Requests[0].Rules[0].Applies {
		t.Errorf("%d, %v, %s", code, err, stdout)
	}
}

// What rejects all of its requests is a warning, with its place, except in shadow mode. The exit status
// stays 0.
func TestCheckProxyWarnings(t *testing.T) {
	const text = `rules:
  - {name: closed, rate: 0/s}
  - {name: trial, rate: 0/m, mode: shadow}
  - {name: open, rate: 1/s}
  - {name: five, rate: 0/s, burst: 5}
classes:
  - {name: none, routes: /a, limit: 0}
  - {name: watched, routes: /b, limit: 0, mode: shadow}
  - {name: one, routes: /c, limit: 1}
default: {limit: 0}
total: {limit: 0}
`
	path := file(t, "proxy.yaml", text)
	code, stdout, stderr := weir(t, "check", path)
	_, told, _ := strings.Cut(stdout, "\n")
	want := path + ":2:26: warning: rule closed: rate = 0/s denies all of its requests\n" +
		path + ":5:24: warning: rule five: rate = 0/s denies all of its requests after the first 5 of a bucket\n" +
		path + ":7:37: warning: class none: limit = 0 rejects all of its requests\n" +
		path + ":10:18: warning: class default: limit = 0 rejects all of its requests\n" +
		path + ":11:16: warning: total: limit = 0 rejects all of its requests\n"
	if code != 0 || stderr != "" || told != want {
		t.Errorf("%d, %s, %s: want %s", code, told, stderr, want)
	}
	if _, stdout, _ := weir(t, "check", "--json", path); !strings.Contains(stdout, `"warnings": [`) || !strings.Contains(stdout, ":2:26: warning") {
		t.Error(stdout)
	}
	if _, stdout, _ := weir(t, "check", file(t, "shadow.yaml", "mode: shadow\n"+text)); strings.Contains(stdout, "warning") {
		t.Errorf("in shadow mode: %s", stdout)
	}
}

func TestCheckProxyMistakes(t *testing.T) {
	bad := file(t, "bad.yaml", "rules:\n- {name: a, by: address, rate: 5}\nmode: x\n")
	code, _, stderr := weir(t, "check", bad)
	if code != 1 || !strings.Contains(stderr, `bad.yaml:2:32: rules[0].rate = "5": want a whole number, a slash and a period`) || !strings.Contains(stderr, "bad.yaml:3:7: mode") {
		t.Errorf("%d, %s: want both mistakes", code, stderr)
	}
	code, stdout, stderr := weir(t, "check", "--json", bad)
	var report rulecheck.ProxyReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 1 || len(report.Errors) != 2 || !strings.Contains(stderr, "2 errors") {
		t.Errorf("%d, %v, %s, %s", code, err, stdout, stderr)
	}
	serve := file(t, "serve.yaml", "rules: [{key: a, rate: 5/m}]")
	for _, tt := range []struct {
		want string
		args []string
		code int
	}{
		{`"GET" is not a request: want a method and a path`, []string{file(t, "proxy.yaml", checkProxyRules), "GET"}, 2},
		{"rules[0].key: unknown field; known are burst, by,", []string{"--proxy", serve}, 1},
		{"no such file", []string{"--proxy", "/none/rules.yaml"}, 1},
		{"is a directory: want a file", []string{"--proxy", t.TempDir()}, 1},
		{"--store: is for rules of weir serve", []string{"--proxy", "--store", "redis://127.0.0.1:1", serve}, 2},
		{"give the path of the rules", []string{"--schema", "--reference"}, 2},
		{"give the path of the rules", []string{"--reference", serve}, 2},
	} {
		if code, _, stderr := weir(t, append([]string{"check"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: %d, %s: want %d, %s", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}

// Each kind of rules has a schema and a reference.
func TestCheckReference(t *testing.T) {
	for want, args := range map[string][]string{
		`"title": "Rules of weir proxy"`: {"--proxy", "--schema"},
		`"title": "Rules of weir serve"`: {"--schema"},
		"classes[].routes (text, or a list of texts)\n    The requests of the class; must be given": {"--proxy", "--reference"},
		"rules[].glob (text)\n    Matches the whole key":                                            {"--reference"},
	} {
		if code, stdout, stderr := weir(t, append([]string{"check"}, args...)...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%q: %d, %.300s, %s: want %s", args, code, stdout, stderr, want)
		}
	}
}

// The example that we ship is good.
func TestCheckProxyExample(t *testing.T) {
	code, stdout, stderr := weir(t, "check", "../../../deploy/proxy.yaml", "POST /login address=203.0.113.7", "/export/7 X-Api-Key=acme")
	for _, want := range []string{"rule logins: takes 1 token: 10/m", "class reports (route \"GET /export/{id}\")", "rule exports: takes 1 token: 20/h, 20 at once, of header X-Api-Key \"acme\"; shadow"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%d, %s, %s: want %s", code, stdout, stderr, want)
		}
	}
}
