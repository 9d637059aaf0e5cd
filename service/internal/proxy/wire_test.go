package proxy_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

const (
	host = "Host: shop.example\r\n"
	next = "GET /next HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"
)

// requests are the bytes of clients, by name. Each is followed by a further request: a proxy
// that takes a body for a request, or the other way round, shows by that.
var requests = map[string]string{
	"get":                "GET / HTTP/1.1\r\n" + host + "\r\n",
	"head":               "HEAD /chunked HTTP/1.1\r\n" + host + "\r\n",
	"query":              "GET /?a=1;b=%zz&c=%2F HTTP/1.1\r\n" + host + "\r\n",
	"path":               "GET /a%2Fb/../c//d HTTP/1.1\r\n" + host + "\r\n",
	"HTTP/1.0":           "GET / HTTP/1.0\r\n\r\n",
	"HTTP/1.0 kept":      "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"post":               "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello",
	"post, chunked":      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"large":              "POST / HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
	"trailer":            "POST / HTTP/1.1\r\n" + host + "Trailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nSum: 42\r\n\r\n",
	"expect":             "POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	"expect in vain":     "POST /no-continue HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	"strange expect":     "POST / HTTP/1.1\r\n" + host + "Expect: a-miracle\r\nContent-Length: 5\r\n\r\nhello",
	"hop by hop":         "GET / HTTP/1.1\r\n" + host + "Connection: X-Secret, keep-alive\r\nX-Secret: a\r\nProxy-Connection: close\r\nTe: trailers, deflate\r\nKeep-Alive: 5\r\nProxy-Authorization: Basic a\r\n\r\n",
	"own forwarded":      "GET / HTTP/1.1\r\n" + host + "X-Forwarded-For: 203.0.113.9\r\nForwarded: for=203.0.113.9\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nX-Real-Ip: 203.0.113.9\r\nX-Forwarded-Port: 8443\r\n\r\n",
	"no user agent":      "GET / HTTP/1.1\r\n" + host + "Accept-Encoding: gzip\r\n\r\n",
	"many headers":       "GET / HTTP/1.1\r\n" + host + strings.Repeat("X-Many: value\r\n", 100) + "\r\n",
	"pipelined":          "GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n",
	"websocket":          "GET /upgrade HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\nping",
	"another upgrade":    "GET /wrong-upgrade HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n",
	"unasked upgrade":    "GET /upgrade HTTP/1.1\r\n" + host + "\r\n",
	"refused upgrade":    "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n",
	"upgrade, no ASCII":  "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: \xe9cho\r\n\r\n",
	"options of all":     "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
	"trace":              "TRACE / HTTP/1.1\r\n" + host + "\r\n",
	"odd method":         "BREW / HTTP/1.1\r\n" + host + "\r\n",
	"absolute URI":       "GET http://other.example/x HTTP/1.1\r\n" + host + "\r\n",
	"absolute https URI": "GET https://other.example/x HTTP/1.1\r\n" + host + "\r\n",
	"asterisk":           "GET * HTTP/1.1\r\n" + host + "\r\n",
	"no slash":           "GET x HTTP/1.1\r\n" + host + "\r\n",
	"double slash":       "GET //evil.example/x HTTP/1.1\r\n" + host + "\r\n",
	"fragment":           "GET /a#b HTTP/1.1\r\n" + host + "\r\n",

	// Smuggling.
	"two lengths, equal":      "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"two lengths":             "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	"list of lengths":         "POST / HTTP/1.1\r\n" + host + "Content-Length: 5, 5\r\n\r\nhello",
	"plus length":             "POST / HTTP/1.1\r\n" + host + "Content-Length: +5\r\n\r\nhello",
	"negative length":         "POST / HTTP/1.1\r\n" + host + "Content-Length: -5\r\n\r\nhello",
	"hexadecimal length":      "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x5\r\n\r\nhello",
	"empty length":            "POST / HTTP/1.1\r\n" + host + "Content-Length: \r\n\r\n",
	"length and chunks":       "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunks and length":       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunked twice":           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunked, then identity":  "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
	"identity":                "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
	"gzip, chunked":           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"chunked in disguise":     "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\nhello",
	"chunked, with a tab":     "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
	"chunked, upper case":     "POST / HTTP/1.1\r\n" + host + "TRANSFER-ENCODING: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunked, space, colon":   "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"chunked in HTTP/1.0":     "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunk extension":         "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n",
	"chunk extension, LF":     "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n",
	"chunk extension, long":   "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("a", 5000) + "\r\nhello\r\n0\r\n\r\n",
	"chunk size, spaces":      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
	"chunk size, 0x":          "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
	"chunk size, negative":    "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
	"chunk size, overflow":    "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
	"chunk without its end":   "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloGET /smuggled HTTP/1.1\r\n" + host + "\r\n",
	"chunk, LF":               "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
	"trailer, forbidden":      "POST / HTTP/1.1\r\n" + host + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
	"trailer, unannounced":    "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 5\r\nHost: evil.example\r\n\r\n",
	"body of a GET":           "GET / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello",
	"body of a GET, chunked":  "GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"body without a length":   "POST / HTTP/1.1\r\n" + host + "\r\nGET /smuggled HTTP/1.1\r\n" + host + "\r\n",
	"obs-fold":                "GET / HTTP/1.1\r\n" + host + "X-Folded: a\r\n b\r\n\r\n",
	"obs-fold of the length":  "POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n 5\r\n\r\nhello",
	"fold in the first line":  "GET / HTTP/1.1\r\n " + host + "\r\n",
	"bare LF":                 "GET / HTTP/1.1\n" + strings.TrimSuffix(host, "\r\n") + "\n\n",
	"bare LF in a header":     "GET / HTTP/1.1\r\n" + host + "X-A: b\nX-C: d\r\n\r\n",
	"bare CR":                 "GET / HTTP/1.1\r\n" + host + "X-A: b\rX-C: d\r\n\r\n",
	"NUL":                     "GET / HTTP/1.1\r\n" + host + "X-A: b\x00c\r\n\r\n",
	"no colon":                "GET / HTTP/1.1\r\n" + host + "X-A\r\n\r\n",
	"no name":                 "GET / HTTP/1.1\r\n" + host + ": a\r\n\r\n",
	"space in a name":         "GET / HTTP/1.1\r\n" + host + "X A: b\r\n\r\n",
	"space before the colon":  "GET / HTTP/1.1\r\n" + host + "Content-Length : 5\r\n\r\nhello",
	"underscore for a dash":   "POST / HTTP/1.1\r\n" + host + "Content_Length: 5\r\nContent-Length: 0\r\n\r\n",
	"two hosts":               "GET / HTTP/1.1\r\n" + host + "Host: evil.example\r\n\r\n",
	"no host":                 "GET / HTTP/1.1\r\n\r\n",
	"empty host":              "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"bad host":                "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"host with a path":        "GET / HTTP/1.1\r\nHost: shop.example/evil\r\n\r\n",
	"host with a user":        "GET / HTTP/1.1\r\nHost: user@shop.example\r\n\r\n",
	"connect":                 "CONNECT internal.example:443 HTTP/1.1\r\n" + host + "\r\n",
	"connect with a path":     "CONNECT /x HTTP/1.1\r\n" + host + "\r\n",
	"connect to all":          "CONNECT * HTTP/1.1\r\n" + host + "\r\n",
	"HTTP/0.9":                "GET /\r\n",
	"HTTP/1.2":                "GET / HTTP/1.2\r\n" + host + "\r\n",
	"HTTP/2.0 in a line":      "GET / HTTP/2.0\r\n" + host + "\r\n",
	"HTTP/3 in a line":        "GET / HTTP/3.0\r\n" + host + "\r\n",
	"three spaces":            "GET  /  HTTP/1.1\r\n" + host + "\r\n",
	"tabs":                    "GET\t/\tHTTP/1.1\r\n" + host + "\r\n",
	"leading CRLF":            "\r\n\r\nGET / HTTP/1.1\r\n" + host + "\r\n",
	"method in lower case":    "get / HTTP/1.1\r\n" + host + "\r\n",
	"method with a bracket":   "G(T / HTTP/1.1\r\n" + host + "\r\n",
	"space in the path":       "GET /a b HTTP/1.1\r\n" + host + "\r\n",
	"NUL in the path":         "GET /a\x00b HTTP/1.1\r\n" + host + "\r\n",
	"escaped NUL in the path": "GET /a%00b HTTP/1.1\r\n" + host + "\r\n",
	"escaped CRLF in a path":  "GET /a%0d%0aHost:%20evil.example HTTP/1.1\r\n" + host + "\r\n",
	"bad escape in the path":  "GET /a%zz HTTP/1.1\r\n" + host + "\r\n",
	"TLS":                     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	"header too large":        "GET / HTTP/1.1\r\n" + host + "X-Large: " + strings.Repeat("a", 80_000) + "\r\n\r\n",
	"cut off":                 "POST / HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\nhello",
}

func init() {
	for path, script := range scripts { // what origins answer
		// Without a type, whether net/http adds one depends on the instant of its first flush.
		scripts[path] = strings.ReplaceAll(script, " 200 OK\r\n", " 200 OK\r\nContent-Type: text/plain\r\n")
		requests["answer "+path] = "GET " + path + " HTTP/1.1\r\n" + host + "\r\n"
	}
}

// stricter are the requests that this proxy refuses, and net/http's sends on.
var stricter = map[string]string{
	"connect":             "405: a tunnel",
	"connect with a path": "405: a tunnel",
	"connect to all":      "405: a tunnel",
}

// Of any bytes, this proxy makes of them what net/http makes: its clients get the same
// answers, and the origin the same bytes.
func TestSameVerdicts(t *testing.T) {
	for name, sends := range requests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				compare(t, sends+next, stricter[name] != "")
			})
		})
	}
}

// compare sends bytes through both proxies. Strict means that this proxy is to refuse them.
func compare(t testing.TB, sends string, strict bool) {
	bare, weir := newBare(t, setting{}), newWeir(t, setting{})
	want, got := judge(t, bare, sends), judge(t, weir, sends)
	bare.stop()
	weir.stop()
	if strict {
		if len(got.answers) == 0 || !strings.HasPrefix(got.answers[0], "405 ") || strings.Contains(got.origin, "CONNECT") {
			t.Errorf("%.300q:\n%v", sends, got)
		}
		return
	}
	if !same(want, got) {
		t.Errorf("%.300q:\nthis proxy: %v\nnet/http: %v", sends, got, want)
	}
}

// same reports whether two verdicts are equal. One difference is on purpose: net/http's proxy
// blames the origin for a body that its client has sent wrongly, with 502; this one answers 400.
func same(bare, weir verdict) bool {
	for i, answer := range weir.answers {
		if answer == "400 HTTP/1.1" && i < len(bare.answers) && bare.answers[i] == "502 HTTP/1.1" {
			weir.answers[i] = bare.answers[i]
		}
	}
	return bare.String() == weir.String()
}

// Whatever a client sends, both proxies agree about it.
func FuzzSameVerdicts(f *testing.F) {
	for name, sends := range requests {
		if stricter[name] == "" && len(sends) < 2000 {
			f.Add(sends)
		}
	}
	f.Fuzz(func(t *testing.T, sends string) {
		if strings.Contains(sends, "CONNECT") || len(sends) > 10_000 {
			return
		}
		synctest.Test(t, func(t *testing.T) { compare(t, sends+next, false) })
	})
}
