package httpapi_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// With atMost, a request gets what there is under all rules; its grant is settled by that cost.
func TestAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(5, time.Hour, config.GCRA), config.Rule{Name: "wide", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 100, Period: time.Hour}, Algorithm: config.Fixed}})
		do := func(method, url string, status int, body string) *answer {
			t.Helper()
			return (&step{method: method, url: url, status: status, body: body}).take(t, site)
		}
		do("POST", "/rate/a?n=3&atMost=true", 200, `{"request_id":"[^"]+","granted":3}`)
		id := do("POST", "/rate/a?n=9&atMost=true", 200, `{"request_id":"[^"]+","granted":2}`).text("request_id")
		for _, n := range []string{"9", "2"} { // the time until one token comes
			do("POST", "/rate/a?atMost=true&n="+n, 429, `.*"reason":"over_rate","rule":"everybody","retry_after_ms":720000}`)
		}
		do("DELETE", "/rate/a/"+id, 200, `{"was":2,"charged":0}`)
		do("POST", "/rate/a?n=1000&atMost=true", 200, `{"request_id":"[^"]+","granted":2}`)
		do("POST", "/rate/a?n=0&atMost=true", 429, `.*"over_rate".*`)
		do("POST", "/rate/b?n=9", 429, `.*"over_burst".*`) // without it, all or nothing
		do("POST", "/rate/b?atMost=false&n=5", 200, `{"request_id":"[^"]+"}`)
		do("POST", "/rate/b?n=1&atMost=true&canWait=true", 400, `.*atMost and canWait exclude each other.*`)
		do("POST", "/rate/b?n=1&atMost=some", 400, `.*cannot read atMost: it must be true or false.*`)
	})
}

// In a batch, each request with at_most gets what there is after the requests before it. Beside it,
// others are decided as ever.
func TestAtMostInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{}, allKeys(5, time.Hour, config.GCRA), config.Rule{Name: "wide", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 100, Period: time.Hour}, Algorithm: config.Fixed}})
		do := func(url, requests string, status int, body string) {
			t.Helper()
			if a := site.ask("POST", url, requests); a.status != status || !regexp.MustCompile("^"+body+"\n?$").MatchString(a.body) {
				t.Errorf("%s: %d %s: want %d %s", requests, a.status, a.body, status, body)
			}
		}
		do("/rate", `[{"key":"a","n":3,"at_most":true},{"key":"a","n":9,"at_most":true},{"key":"a","at_most":true},{"key":"b","n":9}]`, 200,
			`{"ok":false,"results":\[{"ok":true,"remaining":2,"granted":3},{"ok":true,"remaining":0,"granted":2},`+
				`{"ok":false,"reason":"over_rate","rule":"everybody","retry_after_ms":720000},{"ok":false,"reason":"over_burst","rule":"everybody"}\]}`)
		do("/rate", `[{"key":"c","n":9,"at_most":true},{"key":"c"},{"key":"d","n":5},{"key":"d","n":1,"at_most":false},{"key":"e","n":0,"at_most":true}]`, 200,
			`{"ok":false,"results":\[{"ok":true,"remaining":0,"granted":5},{"ok":false,"reason":"over_rate",.*},{"ok":true,"remaining":0},{"ok":false,"reason":"over_rate".*},{"ok":true,"remaining":5}\]}`)
		do("/rate?ids=true", `[{"key":"f","n":9,"at_most":true}]`, 200, `{"ok":true,"results":\[{"ok":true,"remaining":0,"granted":5,"request_id":"[^"]+-5"}\]}`)
		do("/rate?all=true", `[{"key":"g","n":9,"at_most":true}]`, 400, `.*all and at_most exclude each other.*`)
		do("/rate", `{"all":true,"requests":[{"key":"g","at_most":true}]}`, 400, `.*all and at_most exclude each other.*`)
		do("/rate", `[{"key":"g","at_most":1}]`, 400, `.*cannot read the batch: .*`)
		do("/rate", `[{"key":"g","at_most":true,"at_most":true}]`, 400, `.*cannot read the batch: .*at_most.*`)
	})
}

// A thief takes tokens of a key before a batch takes some.
type thief struct {
	decider.Decider
	key string
	n   []int // for each batch
}

func (d *thief) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	if reqs[0].N > 0 && len(d.n) > 0 {
		if err := d.Decide(ctx, &decider.Request{Key: d.key, N: d.n[0]}, new(decider.Verdict)); err != nil {
			return false, err
		}
		d.n = d.n[1:]
	}
	return d.Decider.Batch(ctx, reqs, all, verdicts)
}

// If other requests take tokens after the look, a request with at_most asks for what they have left.
func TestAtMostAfterOthers(t *testing.T) {
	for _, tt := range []struct {
		thefts []int
		body   string
	}{
		{[]int{2}, `{"ok":true,"results":[{"ok":true,"remaining":0,"granted":3}]}`},
		{[]int{2, 1}, `{"ok":true,"results":[{"ok":true,"remaining":0,"granted":2}]}`},
		{[]int{5}, `{"ok":false,"results":[{"ok":false,"reason":"over_rate","rule":"everybody","retry_after_ms":720000}]}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			site := newSite(t, httpapi.Config{}, allKeys(5, time.Hour, config.GCRA))
			api, err := httpapi.New(&thief{site.server, "a", tt.thefts}, httpapi.Config{})
			if err != nil {
				t.Fatal(err)
			}
			site.API = api
			if a := site.ask("POST", "/rate", `[{"key":"a","n":9,"at_most":true}]`); strings.TrimSpace(a.body) != tt.body {
				t.Errorf("others take %v: %s: want %s", tt.thefts, a.body, tt.body)
			}
		})
	}
}

// Two batches at the same time share what there is: together they get all of it.
func TestAtMostInBatchesTogether(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(1000, time.Hour, config.GCRA))
	var all sync.WaitGroup
	var got atomic.Int64
	for range 4 {
		all.Go(func() {
			for range 100 {
				a := site.ask("POST", "/rate", `[{"key":"a","n":7,"at_most":true},{"key":"a","n":5,"at_most":true}]`)
				for part := range strings.SplitSeq(a.body, `"granted":`) {
					n, _ := strconv.Atoi(part[:max(strings.IndexAny(part, ",}"), 0)])
					got.Add(int64(n))
				}
			}
		})
	}
	all.Wait()
	if n := got.Load(); n != 1000 {
		t.Errorf("%d tokens: want all 1000", n)
	}
}
