package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	zoneRate, zoneBurst = 200, 40
	zoneRules           = `rules: [{name: pages, glob: "page*", rate: 200/s, burst: 40}, {name: logins, glob: "login*", rate: 12/h}, {name: jobs, key: jobs, concurrency: {limit: 4}}]`
)

// What an assignment cannot decide is asked: the calls work as at the owner, and the owner counts.
func TestUpstreamAsks(t *testing.T) {
	rules := file(t, "rules.yaml", zoneRules)
	tokens := file(t, "tokens.yaml", `tokens: [{name: zone, token: the secret of the zone}, {name: part, token: the secret of a part, keys: ["page*"]}]`)
	owner := serving(t, "--rules", rules, "--tokens", tokens, "--rlqs-ttl", "1s")
	secret := file(t, "secret", "the secret of the zone\n")
	zone := serving(t, "--rules", rules, "--upstream", owner.public, "--upstream-token-file", secret, "--upstream-timeout", "5s")
	for range 2 {
		a := zone.post("/rate/login?n=5")
		if a.status != 200 || a.header.Get("Weir-Degraded") != "" {
			t.Fatalf("%v", a)
		}
		zone.giveBack(http.DefaultClient, "/rate/login", a)
	}
	if got := zone.statuses("/rate/login?n=6", 3); fmt.Sprint(got) != "[200 200 429]" {
		t.Errorf("%v, want that the owner counts 12", got)
	}
	lease := zone.lease("jobs")
	if a := zone.post(lease); a.status != 200 {
		t.Errorf("%v", a)
	}
	owner.token = "the secret of the zone"
	if got := owner.statuses("/lease/jobs", 4); fmt.Sprint(got) != "[200 200 200 429]" {
		t.Errorf("%v, want that the lease of the zone counts", got)
	}
	if a := ask(t, http.DefaultClient, "DELETE", zone.public+lease); a.status >= 300 {
		t.Errorf("%v", a)
	}
	if a := ask(t, http.DefaultClient, "GET", zone.admin+"/metrics"); !strings.Contains(a.body, `weir_upstream_decisions_total{name="serve",step="exact"}`) || !strings.Contains(a.body, `weir_upstream_away{name="serve"} 0`) {
		t.Errorf("%s", a.body)
	}

	for what, refused := range map[string]struct {
		args   []string
		status string
	}{
		"no token":           {nil, "401|403"}, // by an exchange, or by the link
		"a token for a part": {[]string{"--upstream-token-file", file(t, "part", "the secret of a part")}, "403"},
	} {
		z := serving(t, append(refused.args, "--rules", rules, "--upstream", owner.public, "--upstream-leaves", "3")...)
		if a := z.post("/rate/login?n=4"); a.status != 200 || a.header.Get("Weir-Degraded") != "share" {
			t.Errorf("%s: %v, want a decision by share", what, a)
		}
		for range 3 {
			z.post("/rate/login")
		}
		if line := z.until("the upstream does not answer"); !regexp.MustCompile(refused.status).MatchString(line) || strings.Contains(line, "secret of") {
			t.Errorf("%s: %s", what, line)
		}
	}
}

// A token that is removed ends the link of its leaf.
func TestUpstreamTokenRevoked(t *testing.T) {
	rules, dir := file(t, "rules.yaml", zoneRules), t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	write := func(text string) { fatal(t, os.WriteFile(tokens, []byte(text), 0o600)) }
	write(`tokens: [{name: zone, token: the secret of the zone}, {name: ops, token: the secret of operators}]`)
	owner := serving(t, "--rules", rules, "--tokens", tokens, "--watch-interval", "1h")
	zone := serving(t, "--rules", rules, "--upstream", owner.public, "--upstream-token-file", file(t, "secret", "the secret of the zone"), "--upstream-timeout", "5s")
	if a := zone.post("/rate/login"); a.header.Get("Weir-Degraded") != "" {
		t.Fatalf("%v", a)
	}
	write(`tokens: [{name: ops, token: the secret of operators}]`)
	owner.reload()
	if a := zone.post("/rate/login"); a.header.Get("Weir-Degraded") != "share" {
		t.Errorf("%v, want a decision by share", a)
	}
}
