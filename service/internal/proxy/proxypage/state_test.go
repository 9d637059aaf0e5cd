package proxypage

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// at is a reading some seconds after the start.
func at(seconds int, r proxy.Report) reading {
	return reading{report: r, work: forward.Work{At: time.Unix(1_000_000+int64(seconds), 0)}}
}

func class(name string, requests, denied, full uint64) proxy.ClassReport {
	return proxy.ClassReport{Name: name, Requests: requests, Denied: denied, Rejected: map[string]uint64{"queue_full": full}}
}

// Rates are of the period, also after a reload has removed or added classes and rules.
func TestRates(t *testing.T) {
	then := at(0, proxy.Report{
		Classes: []proxy.ClassReport{class("gone", 1000, 0, 0), class("default", 100, 10, 0)},
		Rules:   []proxy.RuleReport{{Name: "clients", Denied: 10}},
	})
	now := at(5, proxy.Report{
		Classes: []proxy.ClassReport{class("new", 50, 0, 25), class("default", 200, 20, 5)},
		Rules:   []proxy.RuleReport{{Name: "more", Allowed: 5}, {Name: "clients", Denied: 20, WouldDeny: 1}},
	})
	st := stateOf(now, then)
	if f := st.Flow; f.Requests != 30 || f.Denied != 2 || f.Rejected != 6 || f.Reasons["queue_full"] != 6 || st.WindowMS != 5000 {
		t.Errorf("%+v over %d ms", f, st.WindowMS)
	}
	if r := st.Rules; r[0].AllowedRate != 1 || r[1].DeniedRate != 2 || r[1].WouldDenyRate != 0.2 {
		t.Errorf("%+v", r)
	}
	if s := st.sample(); s.Denied != 2 || s.Rejected != 6 || s.Would != 0.2 {
		t.Errorf("%+v", s)
	}
	if st := stateOf(now, now); st.WindowMS != 0 || st.Flow.Requests != 0 {
		t.Errorf("%+v: want no rates of a single reading", st)
	}
}

// The share of wasted work, and the times in the queue, are of the period and of all classes.
func TestWastedAndWaits(t *testing.T) {
	class := func(name string, ended, wasted uint64, waits ...uint64) proxy.ClassReport {
		c := proxy.ClassReport{Name: name, Outcomes: map[string]uint64{"success": ended - wasted, "ignored": wasted}, Wasted: wasted}
		copy(c.Waits[:], waits)
		return c
	}
	then := at(0, proxy.Report{Classes: []proxy.ClassReport{class("a", 100, 100, 1000), class("b", 0, 0), class("c", 5, 5)}})
	now := at(5, proxy.Report{Classes: []proxy.ClassReport{class("a", 130, 103, 1090, 5), class("b", 10, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 2), class("c", 5, 5)}})
	st := stateOf(now, then)
	for i, want := range []float64{0.1, 0.7, -1} {
		if got := st.Classes[i].PerSecond.Wasted; want < 0 && got != nil || want >= 0 && (got == nil || *got != want) {
			t.Errorf("%s: %v: want %v", st.Classes[i].Name, got, want)
		}
	}
	if got := st.Flow.Wasted; got == nil || *got != 0.25 {
		t.Errorf("together: %v: want 0.25", got)
	}
	if got := fmt.Sprint(st.Waits); got != "[≤ 1 ms ≤ 5 ms > 30 s]" {
		t.Errorf("waits of 90 under 1 ms, 5 under 5 ms, 3 under 1 s and 2 beyond 30 s: %s", got)
	}
	if st = stateOf(now, now); st.Flow.Wasted != nil || st.Waits != nil {
		t.Errorf("%v, %q: want nothing without requests", st.Flow.Wasted, st.Waits)
	}
}

// The limits of classes are summed up, within that of all classes together.
func TestTotal(t *testing.T) {
	limit := func(now, exchanges, waiting int) *limits.Report {
		return &limits.Report{Limit: proxyrule.FixedLimit(now), LimitNow: now, Exchanges: exchanges, Waiting: waiting}
	}
	r := proxy.Report{Former: 1, Total: limit(9, 0, 2), Classes: []proxy.ClassReport{
		{Name: "a", Limit: limit(5, 4, 1)}, {Name: "b"}, {Name: "default", Limit: limit(10, 7, 0)},
	}}
	want := Total{Limit: 9, Mode: "10", Limits: 2, Inflight: 12, Former: 1, Waiting: 3}
	if got := totalOf(&r); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}

// The busiest rows are shown, in the order of the file.
func TestBound(t *testing.T) {
	var then, now proxy.Report
	for i := range 500 {
		name := fmt.Sprint(i)
		then.Rules, now.Rules = append(then.Rules, proxy.RuleReport{Name: name}), append(now.Rules, proxy.RuleReport{Name: name, Denied: uint64(i % 250)})
		then.Classes, now.Classes = append(then.Classes, class(name, 0, 0, 0)), append(now.Classes, class(name, uint64(i), 0, 0))
		then.Origins, now.Origins = append(then.Origins, origins.Report{}), append(now.Origins, origins.Report{URL: name, State: "in", Inflight: i})
	}
	now.Origins[7].State = "ejected"
	st := stateOf(at(5, now), at(0, then))
	if len(st.Rules) != 101 || len(st.Classes) != 101 || len(st.Origins) != 101 || st.AllRules != 500 || st.AllClasses != 500 || st.AllOrigins != 500 {
		t.Fatalf("%d rules, %d classes, %d origins", len(st.Rules), len(st.Classes), len(st.Origins))
	}
	if st.Rules[0].Name != "199" || st.Rules[100].Name != "499" || st.Classes[0].Name != "399" || st.Origins[0].URL != "7" || st.Origins[1].URL != "400" {
		t.Errorf("from %s to %s, from %s, from %s", st.Rules[0].Name, st.Rules[100].Name, st.Classes[0].Name, st.Origins[0].URL)
	}
}

func TestWords(t *testing.T) {
	denied := []proxy.RuleReport{{Name: "a", Denied: 5}, {Name: "b", Denied: 20}, {Name: "c", Denied: 10}, {Name: "d", Denied: 1}, {Name: "e"}}
	for _, tt := range []struct {
		report       proxy.Report
		level, words string
	}{
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.Well, Message: "no requests yet"}}, "healthy", "Healthy: no requests yet."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.Well, Message: "no sign", Origins: 3, Out: []string{"http://a (silence)", "http://b (check)"}}}, "degraded",
			"Degraded: no sign; 2 of 3 origins are out: http://a (silence), http://b (check)."},
		{proxy.Report{Status: condition.Status{Condition: condition.Well, Message: "no sign"}}, "draining", "Draining: clients are asked to leave; no sign."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.Silent, Message: "the origin does not answer all requests in time"}}, "failing",
			"Failing: the origin does not answer all requests in time."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.LimitUsed}, Classes: []proxy.ClassReport{class("default", 10_000, 0, 5_000)}}, "shedding",
			"Shedding: the limit is used up; 1,000 of 2,000 requests per second are rejected."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.LimitUsed, Rejecting: []string{"heavy"}}, Classes: []proxy.ClassReport{class("heavy", 10_000, 0, 5_000)}}, "shedding",
			"Shedding: the limit of class heavy is used up; 1,000 of 2,000 requests per second are rejected."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.LimitUsed}}, "shedding", "Shedding: the limit was used up a moment ago."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.Pressed}, Classes: []proxy.ClassReport{{Name: "default", Requests: 10_000, Rejected: map[string]uint64{"pressure": 5_000}}}}, "shedding",
			"Shedding: work waits for the processor, and 1,000 of 2,000 requests per second are rejected."},
		{proxy.Report{Status: condition.Status{Ready: true, Condition: condition.Pressed}}, "shedding", "Shedding: work waited for the processor a moment ago."},
		{proxy.Report{Mode: "shadow", Status: condition.Status{Ready: true, Condition: condition.Well, Message: "no sign"}, Rules: denied, Classes: []proxy.ClassReport{class("default", 100, 36, 0)}}, "healthy",
			"Healthy: no sign; rules deny 7.2 per second (b, c, a, 1 more); shadow mode: the proxy rejects none."},
	} {
		tt.report.Status.OutSince = time.UnixMilli(4711)
		st := stateOf(at(5, tt.report), at(0, proxy.Report{}))
		if (st.SinceMS == 4711) != (tt.level == "degraded") {
			t.Errorf("%s: since %d: want since when origins are out, if nothing else is wrong", tt.level, st.SinceMS)
		}
		if st.Level != tt.level || st.Words != tt.words {
			t.Errorf("%s, %s: want %s, %s", st.Level, st.Words, tt.level, tt.words)
		}
	}
}

func TestRequestOf(t *testing.T) {
	q := url.Values{
		"method": {"post"}, "url": {"https://shop.example/a%2Fb?c=d"}, "address": {"2001:db8::1"}, "header": {"X-Api-Key: 4 2", "", "Content-Length: 7"},
	}
	r, err := requestOf(q)
	testrig.Must(t, err)
	if r.Method != "POST" || r.Host != "shop.example" || r.URL.RequestURI() != "/a%2Fb?c=d" || r.RemoteAddr != "[2001:db8::1]:0" ||
		r.Header.Get("X-Api-Key") != "4 2" || r.ContentLength != 7 {
		t.Errorf("%+v", r)
	}
	if r, err = requestOf(url.Values{"url": {"/"}, "header": {"Host: other.example"}}); err != nil || r.Method != "GET" || r.Host != "other.example" || r.Header.Get("Host") != "" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, tt := range []struct{ query, want string }{
		{"", "url: is missing"},
		{"url=reports", "must begin with /"},
		{"url=" + url.QueryEscape("http://[::1"), "cannot be read"},
		{"url=/" + strings.Repeat("a", 9000), "has 9001 bytes: must be <= 8192"},
		{"url=/&method=GET%20/", `method = "GET /": must be a method`},
		{"url=/&address=here", `address = "here": must be unix: or an IP address`},
		{"url=/&header=none", `header = "none": must be a line such as`},
		{"url=/&header=a%20b:%20c", "must be a line such as"},
		{"url=/&header=a:b%0ac", "must be a line such as"},
		{"url=/&header=Content-Length:%20many", `header = "Content-Length: many": must be a whole number >= 0`},
		{"url=/" + strings.Repeat("&header=a:b", 51), "there are 51: must be <= 50"},
	} {
		q, err := url.ParseQuery(tt.query)
		testrig.Must(t, err)
		if _, err := requestOf(q); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s: %v: want %s", tt.query, err, tt.want)
		}
	}
}
