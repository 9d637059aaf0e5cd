package httpapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// After a crash, the answer says that the server recovers, and until when.
func TestLeaseAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, config.Rule{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 2, TTL: 10 * s, MaxTTL: time.Minute}})
		site.server.Recover()
		time.Sleep(15 * s)
		for _, url := range []string{"/lease/a", "/lease/a?canWait=true"} {
			a := (&step{method: "POST", url: url, status: 429,
				body: `{"error":"no leases are granted for a while after a crash","key":"a","reason":"recovering","retry_after_ms":45000}`}).take(t, site)
			if got := a.header.Get("Retry-After"); got != "45" {
				t.Errorf("%s: Retry-After: %s, want 45", url, got)
			}
		}
		time.Sleep(45 * s)
		(&step{method: "POST", url: "/lease/a", status: 200, body: ".*"}).take(t, site)
	})
}

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := 1
		jobs := config.Rule{Name: "jobs", Glob: "job:*", Concurrency: &config.Concurrency{Limit: 2, TTL: 10 * s, MaxTTL: time.Minute, Queue: &queue}}
		site := newSite(t, httpapi.Config{}, jobs)
		do := func(method, url string, status int, body string) *answer {
			t.Helper()
			return (&step{method: method, url: url, status: status, body: body}).take(t, site)
		}
		first := do("POST", "/lease/job:1", 200, `{"lease_id":"[0-9a-f]+","token":\d+,"ttl_ms":10000,"limit":2,"inflight":1,"waited_ms":0}`)
		id, token := first.text("lease_id"), first.json["token"].(float64)
		do("GET", "/lease/job:1", 200, `{"limit":2,"inflight":1,"waiting":0}`)
		do("POST", "/lease/job:1?n=2", 429, `{"error":"concurrency limit reached","key":"job:1","reason":"over_limit".*`)
		second := do("POST", "/lease/job:1?ttl=30", 200, `.*"ttl_ms":30000,"limit":2,"inflight":2,.*`)
		if second.json["token"].(float64) <= token {
			t.Errorf("token %v after %v", second.json["token"], token)
		}

		// Renewed, it lasts from now, and no longer than its rule lets it.
		time.Sleep(6 * s)
		do("POST", "/lease/job:1/"+id+"?ttl=1h", 200, `{"lease_id":"`+id+`","token":\d+,"ttl_ms":60000,"limit":2,"inflight":2,"waited_ms":0}`)
		do("POST", "/lease/job:2/"+id, 404, `.*no such lease.*`)
		do("POST", "/lease/job:1/x", 404, `.*no such lease.*`)

		// It can be waited for, until it runs out.
		do("POST", "/lease/job:1?canWait=true&timeout=1s", 429, `.*"too_late".*`)
		do("POST", "/lease/job:1?canWait=true", 200, `.*"waited_ms":2[34]000}`) // 30 s − 6 s, and one second of that has been waited
		do("DELETE", "/lease/job:1/"+id+"?outcome=dropped", 200, `{}`)
		do("DELETE", "/lease/job:1/"+id, 404, `.*no such lease.*`)

		do("POST", "/lease/user", 404, `{"error":"no rule with a concurrency matches this key","key":"user"}`)
		do("GET", "/lease/user", 404, `{"error":"no rule with a concurrency matches this key","key":"user"}`)
		do("POST", "/rate/job:1", 404, `{"error":"no rule with a rate matches this key, only one with a concurrency: ask for a lease of it: POST /lease/{key}","key":"job:1"}`)
		do("POST", "/rate/job:1?canWait=true&n=0", 404, `.*ask for a lease.*`)
		do("POST", "/lease/job:1?n=0", 400, `.*at least 1 for a lease.*`)
		do("POST", "/lease/job:1?ttl=0", 400, `.*cannot read ttl.*`)
		do("DELETE", "/lease/job:1/x?outcome=good", 400, `.*cannot read outcome: it must be success, dropped.*`)

		site.server.Close(false)
		a := do("POST", "/lease/job:3", 503, `{"error":"the server is closing","key":"job:3","reason":"closed".*`)
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.header)
		}
	})
}

// Of several rules, that which has the least room is told of.
func TestLeasesOfTheTightestRule(t *testing.T) {
	rule := func(name string, limit config.Limit) config.Rule {
		return config.Rule{Name: name, Glob: "*", Concurrency: &config.Concurrency{Limit: limit}}
	}
	site := newSite(t, httpapi.Config{}, rule("wide", 20), rule("tight", 4), rule("middle", 10))
	site.ask("POST", "/lease/a?n=3", "")
	if a := site.ask("GET", "/lease/a", ""); a.body != `{"limit":4,"inflight":3,"waiting":0}`+"\n" {
		t.Errorf("%s", a.body)
	}
}
