package httplimit_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

var update = flag.Bool("update", false, "write the responses into testdata")

// A form is one way in which a response looks.
type form struct {
	name    string
	handler func(t *testing.T) http.Handler
	before  int      // requests before the one that is looked at
	method  string   // GET, if empty
	headers []string // of the requests: name, value, …
}

// Every form of response is in testdata, byte by byte:
//
//	go test ./httplimit -run Golden -update
func TestGolden(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f.check(t) })
		})
	}
}

func (f form) check(t *testing.T) {
	h := f.handler(t)
	for range f.before {
		f.ask(h)
	}
	resp := f.ask(h)
	checkFields(t, resp.Header)
	got := dump(resp)
	name := filepath.Join("testdata", f.name+".golden")
	if *update {
		testrig.Must(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	testrig.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func (f form) ask(h http.Handler) *http.Response {
	r := httptest.NewRequest(f.method, "/", nil) // an empty method is GET
	for i := 0; i < len(f.headers); i += 2 {
		r.Header.Add(f.headers[i], f.headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// dump returns a whole response of a Recorder, its headers in order.
func dump(resp *http.Response) []byte {
	var b, headers bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", resp.Proto, resp.Status)
	_ = resp.Header.Write(&headers)
	b.WriteString(strings.ReplaceAll(headers.String(), "\r\n", "\n"))
	b.WriteByte('\n')
	_, _ = b.ReadFrom(resp.Body)
	return b.Bytes()
}

var browser = []string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

var forms = []form{
	{name: "admitted", handler: with(httplimit.Config{}, perClient)},
	{name: "admitted-later", handler: with(httplimit.Config{}, perClient), before: 3},
	{name: "two-rules", handler: with(httplimit.Config{}, perClient, daily)},
	{name: "own-quota", handler: with(httplimit.Config{}, ownQuota)},
	{name: "unlimited", handler: with(httplimit.Config{}, unlimited)},
	{name: "unlimited-and-limited", handler: with(httplimit.Config{}, unlimited, perClient)},
	{name: "never-refilled", handler: with(httplimit.Config{}, once)},
	{name: "odd-name", handler: with(httplimit.Config{}, oddName)},
	{name: "over-rate", handler: with(httplimit.Config{}, perClient), before: 5},
	{name: "over-rate-of-second", handler: with(httplimit.Config{}, daily, perClient), before: 5},
	{name: "over-rate-for-good", handler: with(httplimit.Config{}, once), before: 1},
	{name: "over-burst", handler: with(httplimit.Config{}, tooCostly)},
	{name: "over-limit", handler: with(httplimit.Config{Limiter: closed()}, perClient, daily)},
	{name: "deadline", handler: with(httplimit.Config{Limiter: patient{}, Deadline: "X-Timeout"}, perClient),
		headers: []string{"X-Timeout", "250"}},
	{name: "shadow", handler: with(httplimit.Config{Shadow: true}, perClient), before: 5},
	{name: "shadow-rule", handler: with(httplimit.Config{}, shadowed), before: 5},
	{name: "no-fields", handler: with(httplimit.Config{Fields: httplimit.FieldsNone}, perClient)},
	{name: "no-fields-over-rate", handler: with(httplimit.Config{Fields: httplimit.FieldsNone}, perClient), before: 5},
	{name: "legacy-delta", handler: with(httplimit.Config{Fields: httplimit.FieldsDraft | httplimit.FieldsDelta}, daily, perClient), before: 2},
	{name: "legacy-delta-over-rate", handler: with(httplimit.Config{Fields: httplimit.FieldsDraft | httplimit.FieldsDelta}, perClient), before: 5},
	{name: "legacy-unix", handler: with(httplimit.Config{Fields: httplimit.FieldsDraft | httplimit.FieldsUnix}, perClient), before: 2},
	{name: "legacy-only", handler: with(httplimit.Config{Fields: httplimit.FieldsUnix}, perClient)},
	{name: "draft-next", handler: with(httplimit.Config{Fields: httplimit.FieldsDraftNext}, daily, perClient), before: 2},
	{name: "page-over-rate", handler: with(httplimit.Config{}, perClient), before: 5, headers: browser},
	{name: "page-over-burst", handler: with(httplimit.Config{}, tooCostly), headers: browser},
	{name: "page-over-limit", handler: with(httplimit.Config{Limiter: closed()}), headers: browser},
	{name: "head-over-rate", handler: with(httplimit.Config{}, perClient), before: 5, method: "HEAD"},
	{name: "nested", handler: nested},
	{name: "nested-over-rate", handler: nested, before: 3},
}

// with returns a constructor of a handler behind a Middleware with new rules.
func with(cfg httplimit.Config, rules ...func(*testing.T) httplimit.Rule) func(*testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		cfg := cfg
		for _, r := range rules {
			cfg.Rules = append(cfg.Rules, r(t))
		}
		return behind(t, cfg, http.HandlerFunc(greet))
	}
}

func greet(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func behind(t *testing.T, cfg httplimit.Config, next http.Handler) http.Handler {
	t.Helper()
	m, err := httplimit.New(cfg)
	testrig.Must(t, err)
	return m.Handler(next)
}

// nested is a Middleware behind another, each with a rule.
func nested(t *testing.T) http.Handler {
	inner := with(httplimit.Config{}, func(t *testing.T) httplimit.Rule { return byAddress(t, "writes", gcra.Per(1, time.Minute, 3)) })(t)
	return behind(t, httplimit.Config{Rules: []httplimit.Rule{perClient(t)}}, inner)
}

func byAddress(t *testing.T, name string, q gcra.Quota) httplimit.Rule {
	t.Helper()
	lim, err := keyed.New[netip.Addr](q, keyed.Config{})
	testrig.Must(t, err)
	return httplimit.PerKey(name, lim, httplimit.Address())
}

func perClient(t *testing.T) httplimit.Rule {
	return byAddress(t, "per-client", gcra.Per(6, time.Minute, 5))
}

func daily(*testing.T) httplimit.Rule {
	return httplimit.Overall("daily", rate.New(gcra.Per(1000, 24*time.Hour, 1000), rate.Config{}))
}

// ownQuota returns a rule with a quota of the client's own.
func ownQuota(t *testing.T) httplimit.Rule {
	lim, err := keyed.New[netip.Addr](gcra.Per(6, time.Minute, 5), keyed.Config{})
	testrig.Must(t, err)
	lim.SetQuotaFor(netip.MustParseAddr("192.0.2.1"), new(gcra.Per(600, time.Minute, 50)))
	return httplimit.PerKey("per-client", lim, httplimit.Address())
}

func unlimited(t *testing.T) httplimit.Rule { return byAddress(t, "friends", gcra.Unlimited()) }

func once(t *testing.T) httplimit.Rule { return byAddress(t, "once", gcra.Per(0, time.Minute, 1)) }

func oddName(t *testing.T) httplimit.Rule {
	return byAddress(t, `a "quoted", \odd;q=1 name`, gcra.Per(1, time.Second, 1))
}

func tooCostly(t *testing.T) httplimit.Rule {
	return perClient(t).Cost(func(*http.Request) int { return 6 })
}

func shadowed(t *testing.T) httplimit.Rule { return perClient(t).Shadow() }

// closed returns a limiter that lets nothing in.
func closed() weir.Limiter {
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(0), Queue: -1})
	if err != nil {
		panic(err) // it is valid
	}
	return l
}

// patient is a limiter that never admits.
type patient struct{}

func (patient) Acquire(ctx context.Context, _ int) (weir.Permit, error) {
	<-ctx.Done()
	return weir.Permit{}, ctx.Err()
}
