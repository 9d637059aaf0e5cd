package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The flags, variables and files of GoCC work.
func TestServeLikeGoCC(t *testing.T) {
	goccFile := file(t, "gocc.json", `{"keys": [{"key_pattern": "^slow-", "key_pattern_is_regex": true, "max_requests_per_window": 1}]}`)
	for _, tt := range []struct {
		rule string
		args string
		env  map[string]string
		path string
		want []int
	}{
		{"short flags", "-m 2 -w 60000", nil, "/rate/a", []int{200, 200, 429}},
		{"short flags with =", "-m=2 -w=60000 -r=false", nil, "/rate/a", []int{200, 200, 429}},
		{"long flags", "--max-requests=1 --window-millis=60000", nil, "/rate/a", []int{200, 429}},
		{"the environment", "", map[string]string{"MAX_REQUESTS": "2", "WINDOW_MILLIS": "60000"}, "/rate/a", []int{200, 200, 429}},
		{"our own variables go before", "", map[string]string{"WEIR_MAX_REQUESTS": "1", "MAX_REQUESTS": "2", "WINDOW_MILLIS": "60000"}, "/rate/a", []int{200, 429}},
		{"its file", "-w 60000 -c " + goccFile, nil, "/rate/slow-a", []int{200, 429}},
		{"its file, and the default of flags", "-w 60000 -m 2", map[string]string{"CONFIG_FILE": goccFile}, "/rate/a", []int{200, 200, 429}},
		{"requests cannot set the rate unless they may", "-w 60000", nil, "/rate/a?maxRequests=1", []int{403}},
		{"requests that may", "-r -w 60000", nil, "/rate/a?maxRequests=1", []int{200, 429}},
		{"the defaults of GoCC", "--gocc -l text -w 60000", nil, "/rate/a?maxRequests=1&maxRequestsInQueue=0", []int{200, 429}},
		{"the defaults of GoCC but one", "--gocc -l text -w 60000 -r=false", nil, "/rate/a?maxRequests=1", []int{403}},
		{"the defaults of GoCC, by a variable", "-l text -w 60000", map[string]string{"WEIR_GOCC": "true", "REQUESTS_CAN_SET_RATE": "false"}, "/rate/a?maxRequestsInQueue=0&maxRequests=1", []int{403}},
		{"a bound to what they may", "-r=true --override-max-requests 1 -w 60000", nil, "/rate/a?maxRequests=2", []int{400}},
		{"no queue", "-m 1 -w 60000 --max-requests-in-queue 0", nil, "/rate/a?canWait=true", []int{200, 429}},
		{"another algorithm", "-m 2 -w 60000 --algorithm gcra", nil, "/rate/a", []int{200, 200, 429}},
		{"its other flags", "-l text -s echo-http2 --log-level INFO --log-includes-source=false --log2xx=true", nil, "/healthz", []int{405}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			s := serving(t, strings.Fields(tt.args)...)
			if got := s.statuses(tt.path, len(tt.want)); !slices.Equal(got, tt.want) {
				t.Errorf("%v: want %v", got, tt.want)
			}
			s.end()
		})
	}
}

// GET takes tokens as in GoCC, but under rules of a file only if --get-decides is given.
func TestServeGet(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{glob: "*", rate: 1/h}]`)
	for args, want := range map[string][]int{
		"-m 1 -w 60000":                       {200, 429},
		"--rules " + rules:                    {405, 405},
		"--rules " + rules + " --get-decides": {200, 429},
	} {
		s := serving(t, strings.Fields(args)...)
		for i, status := range want {
			if a := ask(t, http.DefaultClient, "GET", s.public+"/rate/a"); a.status != status {
				t.Errorf("weir serve %s: request %d: %d: want %d", args, i+1, a.status, status)
			}
		}
		s.end()
	}
}

// The mistakes in all files are reported.
func TestServeWrongFiles(t *testing.T) {
	_, _, stderr := weir(t, "serve", "--rules", file(t, "r.yaml", "rules: [{glob: a}, {rate: 5/s}]"), "--tokens", file(t, "t.yaml", "tokens: [{name: a}]"))
	for _, want := range []string{"r.yaml:1:9: rules[0]: must have a rate", "r.yaml:1:20: rules[1]: must have one of", "t.yaml:1:10: tokens[0].token: must"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%s: want %q in it", stderr, want)
		}
	}
}

func TestServeTokens(t *testing.T) {
	tokens := file(t, "tokens.yaml", `tokens: [{name: shop, token: the shop's own secret, keys: ["user:*"]}]`)
	s := serving(t, "--tokens", tokens)
	shop := []string{"Authorization", "Bearer the shop's own secret"}
	for _, tt := range []struct {
		method, path string
		fields       []string
		want         int
	}{
		{"POST", "/rate/user:1", shop, 200},
		{"POST", "/rate/admin", shop, 403},
		{"GET", "/debug/user:1", shop, 403},
		{"POST", "/rate/user:1", nil, 401},
		{"POST", "/rate/user:1", []string{"Authorization", "Bearer another"}, 401},
		{"GET", "/healthz", nil, 200},
	} {
		a := ask(t, http.DefaultClient, tt.method, s.public+tt.path, tt.fields...)
		if a.status != tt.want || a.status > 400 && (!strings.HasPrefix(a.body, `{"error":`) || a.header.Get("Content-Type") != "application/json") {
			t.Errorf("%s %s %v: %v: want %d, as JSON", tt.method, tt.path, tt.fields, a, tt.want)
		}
	}
	fatal(t, os.WriteFile(tokens, []byte(`tokens: [{name: new, token: another secret of its own}]`), 0o600))
	s.reload()
	if a := ask(t, http.DefaultClient, "POST", s.public+"/rate/user:1", shop...); a.status != 401 {
		t.Errorf("a token that is gone: %v: want 401", a)
	}
	s.end()
}

// A reload follows a change of a file, SIGHUP, or POST. A file with mistakes changes
// nothing, and is reported once.
func TestServeReload(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: one, glob: "*", rate: 1/h}]`)
	s := serving(t, "--rules", rules, "--watch-interval", "1h")
	if got := s.statuses("/rate/a", 2); !slices.Equal(got, []int{200, 429}) {
		t.Fatalf("%v: want 1 an hour", got)
	}
	first := s.status().Config.Hash
	write := func(text string) { fatal(t, os.WriteFile(rules, []byte(text), 0o600)) }

	write(`rules: [{name: one, glob: "*", rate: 1/h}, {name: two, key: b, rate: 1/h}]`)
	s.until("1 added, 1 as before")

	write(`rules: [{name: one}]`)
	s.until("reload failed: files with errors keep their last good content")
	st := s.status()
	if st.Config.Hash == first || !strings.Contains(st.Config.LastError, "rules.yaml:1:9: rules[0]: must have one of key, glob, regex and entries") || !st.Ready {
		t.Errorf("%+v: want the last good rules, and what is wrong with the new ones", st)
	}
	if got := s.statuses("/rate/a", 1); got[0] != 429 {
		t.Errorf("%v: want the bucket as it was", got)
	}
	if a := s.reload(); a.status != 422 || !strings.Contains(a.body, "rules.yaml:1:9") || s.status().Config.Hash != st.Config.Hash {
		t.Errorf("%v: want 422, and why", a)
	}

	gauge := func(want string) {
		t.Helper()
		if metrics := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body; !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	gauge("weir_config_last_reload_successful 0")

	fatal(t, os.Remove(rules))
	s.until("no such file")
	if got := s.statuses("/rate/a", 1); got[0] != 429 {
		t.Errorf("%v: want the last good rules without a file, too", got)
	}

	write(`rules: [{name: one, glob: "*", rate: 2/h}, {name: three, key: c, rate: 3/h}]`)
	s.until("one: rate 1/h → 2/h")
	hangUp(t)
	s.until("2 as before")
	if a := s.reload(); a.status != 200 || a.body != `{"change":"2 as before"}`+"\n" {
		t.Errorf("%v", a)
	}
	if n := s.logged("must have one of"); n != 2 { // once for the file, once for the POST
		t.Errorf("%d lines about the file that was wrong: want one, and one for the POST", n)
	}
	gauge("weir_config_last_reload_successful 1")
	gauge("weir_config_reload_failures_total 3")
	s.end()
}

// Without files there is no reload.
func TestServeNoFile(t *testing.T) {
	s := serving(t)
	if a := s.reload(); a.status != 404 {
		t.Errorf("%v: want 404", a)
	}
	s.end()
}

// Counts and leases survive a restart.
func TestServeState(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{glob: "rate:*", rate: 2/h}, {glob: "job:*", concurrency: {limit: 1, ttl: 1h}}]`)
	state := filepath.Join(t.TempDir(), "state")
	s := serving(t, "--rules", rules, "--state", state)
	if got := s.statuses("/rate/rate:a", 1); got[0] != 200 {
		t.Fatal(got)
	}
	if got := s.statuses("/lease/job:a", 1); got[0] != 200 {
		t.Fatal(got)
	}
	s.end()
	s = serving(t, "--rules", rules, "--state", state)
	if got := s.statuses("/rate/rate:a", 2); !slices.Equal(got, []int{200, 429}) {
		t.Errorf("%v: want one of two left", got)
	}
	if got := s.statuses("/lease/job:a", 1); got[0] != 429 {
		t.Errorf("%v: want the lease to be held still", got)
	}
	s.end()

	fatal(t, os.WriteFile(state, []byte("damaged"), 0o600))
	s = serving(t, "--rules", rules, "--state", state)
	s.until("counts start at zero")
	if got := s.statuses("/rate/rate:a", 3); !slices.Equal(got, []int{200, 200, 429}) {
		t.Errorf("%v: want fresh counts", got)
	}
	s.end()
	if text, err := os.ReadFile(state + ".damaged"); err != nil || string(text) != "damaged" {
		t.Errorf("%q, %v: want the file put aside", text, err)
	}
}
