package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A raw request is sent as it stands.
type raw struct {
	request string
	status  int
	body    string // a regular expression that is somewhere in it
}

func get(path string, status int, body string) raw { return line("GET", path, "", status, body) }

// line is a request with headers, each of which ends in CRLF.
func line(method, path, headers string, status int, body string) raw {
	return raw{method + " " + path + " HTTP/1.1\r\nHost: weir\r\n" + headers + "\r\n", status, body}
}

// batchOf is a batch of a type.
func batchOf(kind, text string, status int, body string) raw {
	headers := fmt.Sprintf("Content-Length: %d\r\n", len(text))
	if kind != "" {
		headers += "Content-Type: " + kind + "\r\n"
	}
	r := line("POST", "/rate", headers, status, body)
	r.request += text
	return r
}

func jsonBatch(text string, status int, body string) raw {
	return batchOf("application/json", text, status, body)
}

func lineBatch(text string, status int, body string) raw {
	return batchOf("application/x-ndjson", text, status, body)
}

const aGrant = "00000000-0000-8000-8000-000000000000"

// nonsense has invalid and hostile requests.
func nonsense() []raw {
	long := strings.Repeat("k", 1024)
	return []raw{
		// Paths.
		get("/", 404, `unknown path`),
		get("//", 404, `unknown path`),
		get("///", 404, `unknown path`),
		get("/nowhere", 404, `unknown path`),
		get("/rates/a", 404, `unknown path`),
		get("/Rate/a", 404, `unknown path`),
		get("//rate/a", 404, `unknown path`),
		get("/./rate/a", 404, `unknown path`),
		get("/rate/a/b/c", 404, `write a slash in a key as %2F`),
		get("/rate/https://example.com/", 404, `write a slash in a key as %2F`),
		get("/rate/a/../b", 404, `unknown path`),
		get("/lease", 404, `unknown path`),
		get("/healthz/", 404, `unknown path`),
		get("/debug/a/b", 404, `unknown path`),
		get("/%2F", 404, `unknown path`),
		get("/rate%2Fa", 404, `unknown path`),
		get("http://weir/rate/a", 200, `request_id`),
		get("/rate/a?", 200, `request_id`),
		get("/rate/a#fragment", 429, `"key":"a#fragment"`), // Go takes it for a part of the path
		{"GET * HTTP/1.1\r\nHost: weir\r\n\r\n", 404, `unknown path`},
		{"OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n", 404, `unknown path`},
		{"GET rate/a HTTP/1.1\r\nHost: weir\r\n\r\n", 400, ``},
		get("", 400, ``),
		get("/rate/%zz", 400, ``),
		get("/rate/%", 400, ``),
		get("/rate/%2", 400, ``),

		// Keys.
		get("/rate/", 400, `the key is empty`),
		get("/rate//", 405, `DELETE, POST`),
		get("/rate/%20", 400, `the key is empty`),
		get("/rate/%20%09%0A", 400, `the key is empty`),
		get("/rate/%E2%80%83", 400, `the key is empty`), // an em space
		line("DELETE", "/rate//x", "", 400, `the key is empty`),
		line("DELETE", "/rate/a/", "", 404, `no such grant`),
		get("/rate/%00", 400, `without control characters`),
		get("/rate/a%00b", 400, `without control characters`),
		get("/rate/a%0Ab", 400, `without control characters`),
		get("/rate/a%7Fb", 400, `without control characters`),
		get("/rate/a%C2%85b", 400, `without control characters`),
		get("/rate/%FF", 400, `must be UTF-8`),
		get("/rate/a%C3", 400, `must be UTF-8`),
		get("/rate/%ED%A0%80", 400, `must be UTF-8`),
		get("/rate/%C0%AF", 400, `must be UTF-8`),
		get("/rate/"+long, 200, `request_id`),
		get("/rate/"+long+"k", 400, `the key is too long`),
		get("/rate/%20"+long+"%20", 429, `over_rate`),
		get("/rate/"+strings.Repeat("k", 100<<10), 400, `the key is too long`),
		get("/rate/"+strings.Repeat("%41", 100<<10), 400, `the key is too long`),
		get("/rate/"+strings.Repeat("k", 1<<20+8<<10), 431, ``),
		get("/lease/", 400, `the key is empty`),
		get("/debug/%00", 400, `without control characters`),

		// Methods.
		line("HEAD", "/rate/a", "", 405, ``),
		line("PUT", "/rate/a", "", 405, `GET`),
		line("PATCH", "/rate/a", "", 405, `GET`),
		line("OPTIONS", "/rate/a", "", 405, `GET`),
		line("TRACE", "/rate/a", "", 405, `GET`),
		line("DELETE", "/rate/a", "", 405, `the methods of this path are POST, GET`),
		line("get", "/rate/a", "", 405, `GET`),
		line("G\"T", "/rate/a", "", 400, ``),
		get("/rate", 405, `the methods of this path are POST"`),
		get("/rate/a/"+aGrant, 405, `^{"error":"the methods of this path are DELETE, POST; write a slash in a key as %2F"}`),
		line("POST", "/debug", "", 405, `GET, HEAD`),
		line("POST", "/healthz", "", 405, `GET, HEAD`),
		line("DELETE", "/lease/a", "", 405, `POST, GET`),
		get("/lease/a/x", 405, `POST, DELETE`),

		// Parameters.
		get("/rate/a?n=-1", 400, `cannot read n: it must be a whole number from 0 to 2147483647`),
		get("/rate/a?n=1.5", 400, `cannot read n`),
		get("/rate/a?n=1e3", 400, `cannot read n`),
		get("/rate/a?n=0x10", 400, `cannot read n`),
		get("/rate/a?n=1_000", 400, `cannot read n`),
		get("/rate/a?n=NaN", 400, `cannot read n`),
		get("/rate/a?n=2147483648", 400, `cannot read n`),
		get("/rate/a?n=99999999999999999999", 400, `cannot read n`),
		get("/rate/a?n=2147483647", 429, `over_burst`),
		get("/rate/a?n=1&n=1", 400, `n is given twice`),
		get("/rate/a?n=&n=", 400, `n is given twice`),
		get("/rate/a?n=1&%6e=1", 400, `n is given twice`),
		get("/rate/a?n=%zz", 400, `invalid escape`),
		get("/rate/a?%zz=1", 400, `invalid escape`),
		get("/rate/a?x=%zz", 400, `unknown parameter`),
		get("/rate/a?canWait=maybe", 400, `cannot read canWait: it must be true or false`),
		get("/rate/a?canWait=true&canWait=true", 400, `canWait is given twice`),
		get("/rate/a?canWait=false;n=2", 400, `cannot read canWait`),
		get("/rate/a?canWait=true&timeout=-1s", 400, `cannot read timeout: it must be a duration`),
		get("/rate/a?canWait=true&timeout=soon", 400, `cannot read timeout`),
		get("/rate/a?canWait=true&timeout=1e3", 400, `cannot read timeout`),
		get("/rate/a?canWait=true&timeout=inf", 400, `cannot read timeout`),
		get("/rate/a?canWait=true&timeout=9999999999999", 400, `cannot read timeout`),
		get("/rate/a?timeout=x", 400, `cannot read timeout`),
		get("/rate/a?maxRequests=1", 403, `maxRequests query parameter is disabled`),
		get("/rate/a?maxRequests=x", 400, `cannot read maxRequests`),
		get("/rate/a?maxRequestsInQueue=1", 403, `maxRequestsInQueue query parameter is disabled`),
		get("/rate/a?maxRequestsInQueue=-1", 400, `cannot read maxRequestsInQueue`),
		get("/rate/a?"+strings.Repeat("&", 1000), 429, `over_rate`),
		get("/rate/a?=1", 400, `unknown parameter \\"\\": this method of this path has canWait, n, atMost, timeout, maxRequests, maxRequestsInQueue, ik"`),
		get("/rate/a?canwait=true", 400, `unknown parameter \\"canwait\\": this method of this path has canWait, n`),
		get("/rate/a?n=1&cost=2", 400, `unknown parameter \\"cost\\"`),
		get("/rate/a?ttl=1s", 400, `unknown parameter \\"ttl\\"`), // not this endpoint's
		get("/rate/a?a%0A%00%FF=1", 400, `unknown parameter \\"a\\\\n\\\\x00\\\\xff\\"`),
		get("/rate/a?"+strings.Repeat("x", 100<<10), 400, `unknown parameter \\"x{40}…\\"`),
		line("DELETE", "/rate/a/"+aGrant+"?n=1", "", 400, `unknown parameter \\"n\\": this method of this path has ik"`),
		line("DELETE", "/rate/a/"+aGrant+"?ik=true", "", 404, `no such grant`),
		line("DELETE", "/lease/a/x?n=1", "", 400, `unknown parameter \\"n\\": this method of this path has outcome"`),
		get("/debug?x", 400, `unknown parameter \\"x\\": this method of this path has none"`),
		get("/openapi.json?x", 200, `openapi`),
		line("GET", "/rate/a?canWait=true", "Request-Timeout: soon\r\n", 400, `cannot read Request-Timeout`),
		line("GET", "/rate/a?canWait=true", "Request-Timeout: -1\r\n", 400, `cannot read Request-Timeout`),
		line("GET", "/rate/a?canWait=true", "Request-Timeout:\r\n", 400, `cannot read Request-Timeout`),
		line("GET", "/rate/a?canWait=true", "Request-Timeout: 1\r\nRequest-Timeout: 1\r\n", 400, `cannot read Request-Timeout`),
		line("GET", "/rate/a", "Request-Timeout: soon\r\n", 429, `over_rate`), // without a wait it is not used
		line("POST", "/lease/a?ttl=-1s", "", 400, `cannot read ttl`),
		line("POST", "/lease/a?ttl=999us", "", 400, `ttl = 999us: must be at least 1ms`),
		line("POST", "/lease/a?n=-1", "", 400, `cannot read n`),

		// Ids.
		line("DELETE", "/rate/a/"+aGrant, "", 404, `no such grant of this key`),
		line("DELETE", "/rate/a/%00", "", 404, `no such grant of this key`),
		line("DELETE", "/rate/a/"+strings.Repeat("f", 100<<10), "", 404, `no such grant of this key`),
		line("DELETE", "/rate/a/"+aGrant+"-2147483647", "", 404, `no such grant of this key`),
		line("DELETE", "/rate/a/"+aGrant+"--1", "", 404, `no such grant of this key`),
		line("DELETE", "/rate/a/0123456789abcdef0123456789abcdef", "", 404, `no such grant of this key`), // as a lease's
		line("POST", "/rate/a/b", "", 400, `n is missing: the true cost of a grant; write a slash in a key as %2F`),
		line("POST", "/rate/a/"+aGrant+"?n=x", "", 400, `cannot read n`),
		line("DELETE", "/lease/a/"+aGrant, "", 404, `no such lease of this key`),
		line("POST", "/lease/a/..", "", 404, `no such lease of this key`),
		line("DELETE", "/lease/a/x?outcome=", "", 404, `no such lease of this key`),

		// Bodies.
		line("POST", "/rate/a", "Content-Length: 1073741824\r\n", 413, `the body is too large`),
		line("POST", "/rate", "Content-Length: 1073741824\r\n", 413, `the body is too large`),
		line("POST", "/rate/a", "Content-Length: x\r\n", 400, ``),
		line("POST", "/rate/a", "Content-Length: -1\r\n", 400, ``),
		line("POST", "/rate/a", "Content-Length: 1\r\nContent-Length: 2\r\n", 400, ``),
		line("POST", "/rate/a", "Transfer-Encoding: rot13\r\n", 501, ``),
		line("POST", "/rate/a", "Content-Length: 5\r\n", 408, `the body was not received in time`),
		line("POST", "/rate", "Content-Length: 5\r\n", 408, `the body was not received in time`),
		{"POST /rate/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, `the body is incomplete`},
		{"POST /rate HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{\"ke\r\n", 408, `the body was not received in time`},

		// Batches.
		batchOf("text/plain", `[]`, 415, `the Content-Type must be application/json or application/x-ndjson`),
		batchOf("application/x-www-form-urlencoded", `[]`, 415, `the Content-Type must be`),
		batchOf("application/json\r\nContent-Encoding: gzip", `[]`, 415, `must not be encoded`),
		batchOf("", `[]`, 200, `{"ok":true,"results":\[\]}`),
		jsonBatch(``, 400, `line 1, column 1: want an object, or an array`),
		jsonBatch(` `, 400, `line 1, column 2: want an object`),
		jsonBatch(`null`, 400, `want an object, or an array`),
		jsonBatch(`1`, 400, `want an object, or an array`),
		jsonBatch(`{`, 400, `want a string`),
		jsonBatch(`[`, 400, `want a request`),
		jsonBatch(`{}`, 400, `requests is missing`),
		jsonBatch(`{"requests":{}}`, 400, `requests must be an array`),
		jsonBatch(`{"requests":null}`, 400, `requests must be an array`),
		jsonBatch(`{"requests":[]`, 400, `want , or }`),
		jsonBatch(`{"requests":[]}}`, 400, `unexpected text after the end`),
		jsonBatch(`{"requests":[],}`, 400, `want a string`),
		jsonBatch(`{"requests":[],"requests":[]}`, 400, `requests is given twice`),
		jsonBatch(`{"requests":[],"all":1}`, 400, `want true or false`),
		jsonBatch(`{"requests":[],"all":true,"all":true}`, 400, `all is given twice`),
		jsonBatch(`{"requests":[],"All":true}`, 400, `unknown member \\"All\\"`),
		jsonBatch(`{"requests":[],"wait":true}`, 400, `line 1, column 16: unknown member \\"wait\\": a batch has requests, all and ids`),
		jsonBatch(`[[]]`, 400, `want a request, an object`),
		jsonBatch(`[null]`, 400, `want a request, an object`),
		jsonBatch(`[{}]`, 400, `line 1, column 2: key is missing`),
		jsonBatch(`[{"n":1}]`, 400, `key is missing`),
		jsonBatch(`[{"key":""}]`, 400, `line 1, column 9: the key is empty`),
		jsonBatch(`[{"key":"\u0000"}]`, 400, `without control characters`),
		jsonBatch(`[{"key":"`+long+`k"}]`, 400, `the key is too long`),
		jsonBatch(`[{"key":"a`+"\n"+`"}]`, 400, `a control character in a string`),
		jsonBatch(`[{"key":"`+"\xff"+`"}]`, 400, `text must be UTF-8`),
		jsonBatch(`[{"key":"\x"}]`, 400, `invalid escape`),
		jsonBatch(`[{"key":"\ud83d"}]`, 400, `line 1, column 9: half of a surrogate pair`),
		jsonBatch(`[{"key":"a\ude00\ud83d"}]`, 400, `half of a surrogate pair`),
		jsonBatch(`[{"key":"a}]`, 400, `unterminated string`),
		jsonBatch(`[{"key":"a\`, 400, `unterminated string`),
		jsonBatch(`[{"key":'a'}]`, 400, `want a string`),
		jsonBatch(`[{key:"a"}]`, 400, `want a string`),
		jsonBatch(`[{"key" "a"}]`, 400, `want a colon`),
		jsonBatch(`[{"key":1}]`, 400, `want a string`),
		jsonBatch(`[{"key":null}]`, 400, `want a string`),
		jsonBatch(`[{"key":"a"},]`, 400, `want a request`),
		jsonBatch(`[{"key":"a"} {"key":"b"}]`, 400, `want , or ]`),
		jsonBatch(`[{"key":"a"}`, 400, `want , or ]`),
		jsonBatch(`[{"key":"a","key":"a"}]`, 400, `line 1, column 13: key is given twice`),
		jsonBatch(`[{"key":"a","n":-1}]`, 400, `n must be a whole number from 0`),
		jsonBatch(`[{"key":"a","n":1.0}]`, 400, `n must be a whole number`),
		jsonBatch(`[{"key":"a","n":"1"}]`, 400, `n must be a whole number`),
		jsonBatch(`[{"key":"a","n":01}]`, 400, `n must be a whole number`),
		jsonBatch(`[{"key":"a","n":2147483648}]`, 400, `n must be a whole number`),
		jsonBatch(`[{"key":"a","n":null}]`, 400, `n must be a whole number`),
		jsonBatch("\ufeff[]", 400, `want an object`),
		jsonBatch(`[] // a comment`, 400, `unexpected text after the end`),
		jsonBatch(strings.Repeat(`[`, 100_000), 400, `want a request`),
		jsonBatch(strings.Repeat(`{"requests":`, 10_000), 400, `requests must be an array`),
		jsonBatch(`[`+strings.Repeat(`{"key":"a"},`, 10_000)+`{"key":"a"}]`, 413, `at most 10000 requests`),
		lineBatch(``, 200, `^$`),
		lineBatch("{\"key\":\"a\"} {\"key\":\"a\"}", 400, `line 1, column 13: want the end of the line`),
		lineBatch("{\"key\":\n\"a\"}", 400, `line 1, column 8: want a string`),
		lineBatch("[{\"key\":\"a\"}]", 400, `want a request, an object`),
		lineBatch("{\"key\":\"a\"}\n\n{\"kay\":\"a\"}", 400, `line 3, column 2: unknown member \\"kay\\"`),
		lineBatch(strings.Repeat("{\"key\":\"a\"}\n", 10_001), 413, `at most 10000 requests`),
		line("POST", "/rate?all=maybe", "Content-Length: 0\r\n", 400, `cannot read all: it must be true or false`),
		line("POST", "/rate?ids=1&ids=1", "Content-Length: 0\r\n", 400, `ids is given twice`),

		// Requests that net/http does not hand on.
		{"GET /rate/a HTTP/1.1\r\n\r\n", 400, ``}, // no Host
		{"GET /rate/a HTTP/9.9\r\nHost: weir\r\n\r\n", 505, ``},
		{"GET /rate/a\r\n\r\n", 400, ``},
		{"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400, ``}, // TLS
	}
}

// Each has the answer that it deserves, in JSON unless it is net/http's; none
// makes the server say a word to its log, and none takes what others need.
func TestNonsense(t *testing.T) {
	all := nonsense()
	if len(all) < 120 {
		t.Errorf("%d requests", len(all))
	}
	for _, r := range all {
		t.Run(fmt.Sprintf("%.60q", r.request), func(t *testing.T) { synctest.Test(t, r.test) })
	}
}

// A request that announces a body and does not send it is answered after the time-out
// of the body, whatever else is wrong, and also if the body is not used.
func TestNonsenseWithABodyThatDoesNotCome(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: weir\r\n"
	n := 0
	for _, r := range append(nonsense(), get("/healthz", 0, ""), get("/debug", 0, ""), get("/openapi.json", 0, ""), line("OPTIONS", "/rate/a", "", 0, "")) {
		first, rest, ok := strings.Cut(r.request, host)
		if !ok || strings.Contains(rest, "Content-Length") || strings.Contains(rest, "Transfer-Encoding") {
			continue
		}
		n++
		t.Run(fmt.Sprintf("%.60q", r.request), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serve(t, newSite(t, httpapi.Config{}, allKeys(1, time.Hour, config.Fixed)))
				conn := w.Conn(t)
				defer conn.Close()
				start := time.Now()
				go io.WriteString(conn, first+host+"Content-Length: 10\r\n"+rest)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if took := time.Since(start); took > httpapi.DefaultBodyTimeout {
					t.Errorf("%d after %v", resp.StatusCode, took)
				}
			})
		})
	}
	if n < 80 {
		t.Errorf("%d requests", n)
	}
}

func (r raw) test(t *testing.T) {
	site := newSite(t, httpapi.Config{}, allKeys(1, time.Hour, config.Fixed))
	if r.status == http.StatusTooManyRequests {
		for _, key := range []string{"a", "a%23fragment", strings.Repeat("k", 1024)} {
			site.ask("GET", "/rate/"+key, "")
		}
	}
	var words strings.Builder
	w := serve(t, site, log.New(&words, "", 0))
	r.check(t, w)
	if a := fetch(t, w.Client(t, 1), "POST", "/rate/somebody-else", ""); a.status != 200 {
		t.Errorf("afterwards %d %s", a.status, a.body)
	}
	if words.Len() > 0 {
		t.Errorf("the server has said %s", &words)
	}
}

func (r raw) check(t *testing.T, w *testrig.Network) {
	t.Helper()
	conn := w.Conn(t)
	defer conn.Close()
	go io.WriteString(conn, r.request)
	method, _, _ := strings.Cut(r.request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != r.status || !regexp.MustCompile(r.body).Match(body) {
		t.Errorf("%d %.200s, %v: want %d %s", resp.StatusCode, body, err, r.status, r.body)
	}
	if kind := resp.Header.Get("Content-Type"); r.body != "" && kind != "application/json" && kind != "application/x-ndjson" {
		t.Errorf("Content-Type: %s", kind)
	}
}
