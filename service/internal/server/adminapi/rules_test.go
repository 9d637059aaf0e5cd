package adminapi_test

import (
	"errors"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// hostile is a key that would break a page or a screen that took it for what it
// says: markup, and a mark that turns the direction of what follows.
const hostile = "login:<script>document.title='broken'</script><img src=x onerror=alert(1)>\u202egpj.exe"

// rules are of all kinds.
func rules() *config.Rules {
	rate := func(n int, per time.Duration) config.Quota {
		return config.Quota{Rate: config.Rate{Count: n, Period: per}}
	}
	candidate, queue := rate(10, time.Second), 30
	api := rate(20, time.Second)
	api.Burst = 40
	return &config.Rules{Hash: "3f2a90c1d5e7", Rules: []config.Rule{
		{Name: "login", Glob: "login:*", Quota: rate(60, time.Minute)},
		{Name: "api", Glob: "user:*", Quota: api, Candidate: &candidate},
		{Name: "search", Glob: "search:*", Quota: rate(20, time.Second), Per: config.PerRule, Queue: &queue, MaxWait: time.Second},
		{Name: "mail", Regex: "^mail:[0-9]+$", Quota: rate(3, time.Second), Queue: &queue},
		{Name: "batch", Glob: "batch:*", Quota: rate(5, time.Minute), Mode: config.Shadow},
		{Name: "exports", Glob: "export:*", Concurrency: &config.Concurrency{Limit: 4, TTL: 30 * time.Second}},
		{Name: "everything else", Glob: "*", Quota: rate(1000, time.Second)},
	}}
}

var errFile = errors.New("rules.yaml:12:5: unknown field \"rat\": want one of name, key, glob, regex, per, rate\n  11 |   glob: \"login:*\"\n> 12 |   rat: 5/m\n       ^")
