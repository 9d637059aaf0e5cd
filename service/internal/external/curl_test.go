//go:build system

package external

import (
	"bufio"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/rate"
)

// curl returns the status line of a response, and its header fields by their lower-case
// names.
func curl(t *testing.T, args ...string) (status string, headers map[string]string) {
	t.Helper()
	args = append([]string{"--silent", "--show-error", "--noproxy", "*", "--output", "/dev/null", "--dump-header", "-"}, args...)
	r := textproto.NewReader(bufio.NewReader(strings.NewReader(run(t, "curl", args...))))
	status, err := r.ReadLine()
	testrig.Must(t, err)
	lines, err := r.ReadMIMEHeader()
	testrig.Must(t, err)
	headers = map[string]string{}
	for name, values := range lines {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return status, headers
}

// curl gets the same answers over HTTP/1.1 and over HTTP/2.
func TestCurl(t *testing.T) {
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{byKey(t, gcra.Per(1, time.Hour, 1))}}, hello)
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	admitted := map[string]string{
		"content-type": "text/plain; charset=utf-8", "content-length": "6",
		"ratelimit-policy": `"per-key";q=1;w=3600`, "ratelimit": `"per-key";r=0;t=3600`,
	}
	denied := map[string]string{
		"content-type": "application/problem+json", "content-length": "206", "cache-control": "no-store",
		"retry-after": "3600", "weir-reason": "over_rate",
		"ratelimit-policy": `"per-key";q=1;w=3600`, "ratelimit": `"per-key";r=0;t=3600`,
	}
	for _, protocol := range []struct{ flag, version string }{{"--http1.1", "HTTP/1.1"}, {"--http2", "HTTP/2"}} {
		for _, tt := range []struct {
			status string
			want   map[string]string
		}{{"200", admitted}, {"429", denied}} {
			status, headers := curl(t, "--insecure", protocol.flag, "-H", "X-Api-Key: "+protocol.flag, server.URL)
			if got := strings.Fields(status); got[0] != protocol.version || got[1] != tt.status {
				t.Errorf("%s: %q: want %s", protocol.flag, status, tt.status)
			}
			delete(headers, "date")
			settle(headers)
			if !maps.Equal(headers, tt.want) {
				t.Errorf("%s: %v\nwant %v", protocol.flag, headers, tt.want)
			}
		}
	}
	if n := s.runs.Load(); n != 2 {
		t.Errorf("the handler has run %d times: want once for each key", n)
	}
}

var seconds = regexp.MustCompile(`^(3600|35\d\d)$`)

// settle replaces the seconds that are left of an hour by 3600.
func settle(headers map[string]string) {
	hour := func(s string) string {
		if seconds.MatchString(s) {
			return "3600"
		}
		return s
	}
	if left, t, ok := strings.Cut(headers["ratelimit"], ";t="); ok {
		headers["ratelimit"] = left + ";t=" + hour(t)
	}
	if again, ok := headers["retry-after"]; ok {
		headers["retry-after"] = hour(again)
	}
}

// curl --retry waits for Retry-After instead of its backoff of one and two seconds.
func TestCurlObeysRetryAfter(t *testing.T) {
	lim := rate.New(gcra.Per(1, 3*time.Second, 1), rate.Config{})
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{httplimit.Overall("all", lim)}}, hello)
	var taken sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		taken.Do(func() { lim.Take(1) }) // a moment before the first request
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	out := run(t, "curl", "--silent", "--noproxy", "*", "--retry", "5", "--output", t.TempDir()+"/body", "--write-out", "%{http_code}", server.URL)
	rule := s.Stats().Rules[0]
	if out != "200" || rule.Denied != 1 || rule.Allowed != 1 {
		t.Errorf("%s after %d denials: want 200 after one", out, rule.Denied)
	}
}

// HEAD has the headers of GET, and no body.
func TestCurlHead(t *testing.T) {
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{byKey(t, gcra.Per(0, time.Hour, 0))}}, hello)
	server := httptest.NewServer(s)
	defer server.Close()
	get, body := curl(t, server.URL)
	head, none := curl(t, "--head", server.URL)
	delete(body, "date")
	delete(none, "date")
	if get != head || !maps.Equal(body, none) || !strings.Contains(get, strconv.Itoa(http.StatusTooManyRequests)) {
		t.Errorf("GET: %s %v, HEAD: %s %v", get, body, head, none)
	}
}
