//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/rulecheck"
)

func TestCheck(t *testing.T) {
	code, stdout, stderr := weir(t, "check", file(t, "rules.yaml", checkRules), "login:a", " job:1 ", "x")
	_, told, _ := strings.Cut(stdout, "\n")
	const want = `
login:a
  logins (glob "login:*"): 5/m, 10 at once (gcra), 20 may wait, for at most 10s; candidate 1/m, 1 at once (sliding)
  jobs (regex "^(job|login):"): 2 leases at once for 30s each, 100 may wait; shared by all keys; mode shadow

job:1
  jobs (regex "^(job|login):"): 2 leases at once for 30s each, 100 may wait; shared by all keys; mode shadow

x
  no rule matches: allow
`
	if code != 0 || stderr != "" || told != want {
		t.Errorf("%d, %s, %s: want %s", code, stdout, stderr, want)
	}
}

// A calendar window is told with its zone and the beginning of the next one. A store does not
// have such windows.
func TestCheckCalendar(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: plan, key: a, rate: 1000000/day, algorithm: calendar, zone: Asia/Tokyo, queue: 0, candidate: {rate: 100/month, algorithm: calendar}}]`)
	tokyo := time.FixedZone("", 9*60*60)
	want := func() string {
		now := time.Now()
		day := now.In(tokyo).Truncate(time.Second).AddDate(0, 0, 1)
		return fmt.Sprintf("\na\n  plan (key \"a\"): 1,000,000 in each calendar day in Asia/Tokyo, the next begins at %s, 0 may wait, for at most 1h;"+
			" candidate 100 in each calendar month in UTC, the next begins at %s\n",
			time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, tokyo).Format(time.RFC3339), time.Date(now.UTC().Year(), now.UTC().Month()+1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339))
	}
	before := want()
	code, stdout, stderr := weir(t, "check", rules, "a")
	if _, told, _ := strings.Cut(stdout, "\n"); code != 0 || told != before && told != want() {
		t.Errorf("%d, %s, %s: want %s", code, told, stderr, before)
	}
	_, stdout, _ = weir(t, "check", "--json", rules, "a")
	var report rulecheck.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Keys) != 1 {
		t.Fatal(err, stdout)
	}
	if q := report.Keys[0].Rules[0].Quota; q.Unit != "day" || q.Zone != "Asia/Tokyo" || q.Next == nil || !q.Next.After(time.Now().Add(-time.Hour)) {
		t.Errorf("%+v", q)
	}
	code, _, stderr = weir(t, "check", "--store", "redis://127.0.0.1:1", rules)
	if want := `rule "plan": algorithm: calendar counts in one process`; code == 0 || !strings.Contains(stderr, want) {
		t.Errorf("%d, %s: want %s", code, stderr, want)
	}
}

// The options of a rule about fleets are shown: with a key, without one, and as JSON.
func TestCheckFleetRules(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: pages, glob: "page*", rate: 200/s, unassigned: share, away: deny}, {name: jobs, glob: "job*", rate: 9/s, away: allow}, {name: rest, glob: "*", rate: 1/s}]`)
	for _, c := range []struct {
		key, want string
	}{
		{"page", "\npage\n  pages (glob \"page*\"): 200/s, 200 at once (gcra), 100 may wait, for at most 1h; unassigned: share, away: deny\n"},
		{"job", "\njob\n  jobs (glob \"job*\"): 9/s, 9 at once (gcra), 100 may wait, for at most 1h; away: allow\n"},
		{"", "  pages: unassigned: share, away: deny\n  jobs: away: allow\n"},
	} {
		args := []string{"check", rules}
		if c.key != "" {
			args = append(args, c.key)
		}
		code, stdout, stderr := weir(t, args...)
		if _, told, _ := strings.Cut(stdout, "\n"); code != 0 || told != c.want {
			t.Errorf("%q: %d, %s, %s: want %s", c.key, code, told, stderr, c.want)
		}
	}
	_, stdout, _ := weir(t, "check", "--json", rules, "page")
	var report rulecheck.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Fleet) != 2 || report.Fleet[0] != (rulecheck.Fleet{Rule: "pages", Unassigned: "share", Away: "deny"}) || report.Keys[0].Rules[0].Away != "deny" {
		t.Errorf("%v, %s", err, stdout)
	}
	var many strings.Builder
	for i := range 25 {
		fmt.Fprintf(&many, "  - {name: r%d, key: k%d, rate: 1/s, away: deny}\n", i, i)
	}
	_, stdout, _ = weir(t, "check", file(t, "many.yaml", "rules:\n"+many.String()))
	if n := strings.Count(stdout, "away: deny"); n != 20 || !strings.HasSuffix(stdout, "  and 5 more rules with unassigned or away: see --json\n") {
		t.Errorf("%d rules: %s", n, stdout)
	}
}

// Descriptors are keys, and get the limits of a file of envoyproxy/ratelimit.
func TestCheckDescriptors(t *testing.T) {
	rules := file(t, "edge.yaml", `
domain: edge
descriptors:
- {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 5, name: login}}
- {key: path, value: "/files/*", share_threshold: true, shadow_mode: true, rate_limit: {unit: week, requests_per_unit: 7}}
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100, replaces: [{name: login}]}}
- {key: free, rate_limit: {unlimited: true}}
- {key: plan, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 9}}
`)
	code, stdout, stderr := weir(t, "check", "--rls-algorithm=fixed_window", rules, "edge|path=/login", "edge|path=/files/a", "edge|user=7", "edge|free=", "edge|other=", "edge|plan=x")
	_, told, _ := strings.Cut(stdout, "\n")
	const want = `
edge|path=/login
  edge.path_/login (descriptor "edge|path=/login"): 5/m, 5 at once (fixed_window), 100 may wait, for at most 1h; shared by all keys; replaced by edge.user in a request with both

edge|path=/files/a
  edge.path_/files/* (descriptor "edge|path=/files/*"): 7/7d, 7 at once (fixed_window), 100 may wait, for at most 1h; shared by all values of /files/*; mode shadow

edge|user=7
  edge.user (descriptor "edge|user"): 100/h, 100 at once (fixed_window), 100 may wait, for at most 1h

edge|free=
  edge.free (descriptor "edge|free"): unlimited

edge|other=
  no rule matches: allow

edge|plan=x
  edge.plan (descriptor "edge|plan"): 9/d, 9 at once (fixed_window), 100 may wait, for at most 1h; quota_mode: denies a request only together with all its quotas
`
	if code != 0 || stderr != "" || told != want {
		t.Errorf("%d, %s, %s: want %s", code, stdout, stderr, want)
	}
}

// Rules of entries find descriptors, as keys and after others.
func TestCheckEntries(t *testing.T) {
	rules := file(t, "rules.yaml", `
rules:
  - {domain: edge, entries: {method: POST, path: "/api/*"}, rate: 5/m}
  - {name: users, entries: {user: "*"}, rate: 100/s, per: rule}
`)
	code, stdout, stderr := weir(t, "check", rules, "edge|path=/api/a|method=POST|user=7", "edge|user=", "edge|method=POST")
	_, told, _ := strings.Cut(stdout, "\n")
	const want = `
edge|path=/api/a|method=POST|user=7
  edge|method=POST|path=/api/* (entries "edge|method=POST|path=/api/*"): 5/m, 5 at once (gcra), 100 may wait, for at most 1h

edge|user=
  users (entries "*|user=*"): 100/s, 100 at once (gcra), 100 may wait, for at most 1h; shared by all keys

edge|method=POST
  no rule matches: allow
`
	if code != 0 || stderr != "" || told != want {
		t.Errorf("%d, %s, %s: want %s", code, stdout, stderr, want)
	}
}

// Texts that the server rejects as keys are errors.
func TestCheckNoKey(t *testing.T) {
	rules := file(t, "rules.yaml", checkRules)
	for _, key := range []string{"", " ", "a\nb"} {
		if code, stdout, stderr := weir(t, "check", rules, "a", key); code != 2 || stdout != "" || !strings.Contains(stderr, "is not a key") {
			t.Errorf("%q: %d, %s, %s", key, code, stdout, stderr)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	code, stdout, _ := weir(t, "check", "--json", file(t, "rules.yaml", checkRules), "login:a", "x")
	var told rulecheck.Report
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s", code, err, stdout)
	}
	login := told.Keys[0].Rules
	if told.Rules != 2 || len(told.Hash) != 12 || len(login) != 2 || told.Keys[1].Unmatched != "allow" {
		t.Fatalf("%s", stdout)
	}
	if q := login[0].Quota; q == nil || q.Rate != "5/m" || q.Burst != 10 || q.Algorithm != "gcra" || login[0].Queue != 20 || login[0].MaxWaitMS != 10000 {
		t.Errorf("%s", stdout)
	}
	if l := login[1].Concurrency; l == nil || l.Limit != "2" || l.TTLMS != 30000 || l.Queue != 100 || login[1].Quota != nil {
		t.Errorf("%s", stdout)
	}
}

// The mistakes of all files of a directory are reported, with exit status 1.
func TestCheckWrong(t *testing.T) {
	dir := t.TempDir()
	fatal(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("rules: [{glob: a}]"), 0o600))
	fatal(t, os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("rules: [{key: b, rate: fast}]"), 0o600))
	want := []string{"a.yaml:1:9: rules[0]: must have a rate", "b.yaml:1:24: rules[0].rate = "}

	code, stdout, stderr := weir(t, "check", dir)
	for _, w := range want {
		if !strings.Contains(stderr, w) {
			t.Errorf("%s: want %q in it", stderr, w)
		}
	}
	if code != 1 || stdout != "" {
		t.Errorf("%d, %s: want exit status 1", code, stdout)
	}

	code, stdout, stderr = weir(t, "check", "--json", dir)
	var told rulecheck.Report
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || code != 1 || len(told.Errors) != 2 || !strings.HasSuffix(stderr, ": 2 errors\n") {
		t.Errorf("%d, %v, %s, %s: want 2 errors", code, err, stdout, stderr)
	}
	if code, _, stderr := weir(t, "check", filepath.Join(dir, "c.yaml")); code != 1 || !strings.Contains(stderr, "no such file") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// The schema is printed as a whole; the test of package config says that it is true.
func TestCheckSchema(t *testing.T) {
	code, stdout, stderr := weir(t, "check", "--schema")
	var schema struct {
		Properties struct {
			Rules struct{ Items map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &schema); code != 0 || stderr != "" || err != nil || len(schema.Properties.Rules.Items) == 0 {
		t.Errorf("exit %d, %v, %q\n%s", code, err, stderr, stdout)
	}
	for want, args := range map[string][]string{
		`expected "<path>", a file of rules`:                                  {"check"},
		"give the path of the rules, --reference or --schema: each by itself": {"check", "--schema", "rules.yaml"},
	} {
		if code, stdout, stderr := weir(t, args...); code != 2 || stdout != "" || !strings.HasPrefix(stderr, "weir check: "+want) {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// Rules with memory of their own are checked for the memory that the server has.
func TestCheckMemory(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{glob: "a*", rate: 5/m, memory: 100MiB}]`)
	if code, _, stderr := weir(t, "check", rules); code != 1 || !strings.Contains(stderr, "the memory of rules is 100MiB together") {
		t.Errorf("%d, %s", code, stderr)
	}
	if code, _, stderr := weir(t, "check", "--memory=1GiB", rules); code != 0 {
		t.Errorf("%d, %s", code, stderr)
	}
}

// Rules that no request can reach are warnings, with their places. The exit status stays 0.
func TestCheckUnreachable(t *testing.T) {
	rules := file(t, "rules.yaml", `rules:
  - {name: users, glob: "user:*", rate: 5/m}
  - {name: gone, glob: "user:off:*", rate: 1/m, mode: off}
  - name: admins
    glob: "user:admin:*"
    rate: 50/m
  - {name: never, regex: "^ x", rate: 1/s}
  - {name: others, glob: "*", rate: 1/s}
`)
	code, stdout, stderr := weir(t, "check", rules)
	_, told, _ := strings.Cut(stdout, "\n")
	want := rules + `:4:5: warning: rule admins: is never used, because rule users (` + rules + `:2:5), which comes first, matches all its keys: put the narrower rule first, or use apply: all
` + rules + `:7:5: warning: rule never: regex "^ x" matches no key
`
	if code != 0 || stderr != "" || told != want {
		t.Errorf("%d, %s, %s: want %s", code, stdout, stderr, want)
	}
	gocc := file(t, "keys.json", `{"keys": [{"key_pattern": "a"},
	{"key_pattern": "b^", "key_pattern_is_regex": true}]}`)
	if _, stdout, _ := weir(t, "check", gocc); !strings.Contains(stdout, gocc+`:2:2: warning: rule b^: regex "b^" matches no key`) {
		t.Errorf("%s", stdout)
	}
}
