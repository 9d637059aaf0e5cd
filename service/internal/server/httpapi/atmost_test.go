package httpapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/httpapi"
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
