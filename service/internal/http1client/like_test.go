package http1client_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

var answers = map[string][]string{
	"plain":             {ok, ok},
	"closes":            {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", ok},
	"closes later":      {ok + "CLOSE"},
	"chunks":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n", ok},
	"trailer":           {"HTTP/1.1 200 OK\r\nTrailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: 42\r\n\r\n", ok},
	"until the end":     {"HTTP/1.1 200 OK\r\n\r\nall thisCLOSE"},
	"HTTP/1.0":          {"HTTP/1.0 200 OK\r\n\r\noldCLOSE"},
	"HTTP/1.0 kept":     {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", ok},
	"no content":        {"HTTP/1.1 204 No Content\r\n\r\n", ok},
	"not modified":      {"HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\nContent-Length: 5\r\n\r\n", ok},
	"empty":             {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ok},
	"only line feeds":   {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", ok},
	"1xx":               {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" + ok, ok},
	"many 1xx":          {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + ok, ok},
	"101":               {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", ok},
	"short":             {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nbroken offCLOSE"},
	"short chunks":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nokCLOSE"},
	"bad chunks":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nok\r\n0\r\n\r\nCLOSE"},
	"more than it says": {ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", ok},
	"two lengths":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokCLOSE"},
	"both lengths":      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok},
	"other protocol":    {"SSH-2.0-OpenSSH_9.9\r\n", ok},
	"no version":        {"200 OK\r\n\r\n", ok},
	"status":            {"HTTP/1.1 abc OK\r\n\r\n", ok},
	"status of 99":      {"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", ok},
	"status of 1000":    {"HTTP/1.1 1000 OK\r\n\r\n", ok},
	"no colon":          {"HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", ok},
	"space in a name":   {"HTTP/1.1 200 OK\r\nContent Length: 2\r\n\r\n", ok},
	"folded":            {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok", ok},
	"half a header":     {"HTTP/1.1 200 OK\r\nContent-LeCLOSE"},
	"nothing":           {"CLOSE"},
	"second is nothing": {ok, "CLOSE"},
	"long header":       {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 9000) + "\r\nContent-Length: 2\r\n\r\nok", ok},
	"too long header":   {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 11<<20) + "\r\nContent-Length: 2\r\n\r\nok", ok},
	"long body":         {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("b", 100000), ok},
}

// The answers to two requests, what the server sees, and which connections stay open, are the
// same as with http.Transport.
func TestLikeTransport(t *testing.T) {
	likeTransport(t, func(text, method string) bool {
		return len(text) > 1<<20 && method != "GET" // too slow: TestLikeTransportCampaign
	})
}

// likeTransport tries all answers with all requests, except where skip returns true.
func likeTransport(t *testing.T, skip func(text, method string) bool) {
	for name, texts := range answers {
		for _, request := range []struct{ method, body string }{
			{"GET", ""}, {"HEAD", ""}, {"POST", ""}, {"POST", "some body"}, {"PUT", "x"}, {"DELETE", ""}, {"OPTIONS", ""},
		} {
			if skip(texts[0], request.method) {
				continue
			}
			for _, pieces := range []int{1 << 30, 1, 7} {
				if pieces < 1<<30 && (len(texts[0]) > 1<<14 || name == "more than it says") { // too slow; not seen in memory
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					want, got := &server{answers: texts, pieces: pieces}, &server{answers: texts, pieces: pieces}
					transport := want.transport()
					client := got.client()
					for i := range 2 {
						w := told(transport, newRequest(t, request.method, request.body))
						g := told(client, newRequest(t, request.method, request.body))
						if g != w {
							t.Errorf("%s, %s %q, pieces of %d, request %d:\n got %.600s\nwant %.600s", name, request.method, request.body, pieces, i, g, w)
						}
						synctest.Wait()
					}
					if w, g := want.got(), got.got(); g != w {
						t.Errorf("%s, %s %q, pieces of %d:\n got %.900s\nwant %.900s", name, request.method, request.body, pieces, g, w)
					}
					transport.CloseIdleConnections()
					client.CloseIdleConnections()
				})
			}
		}
	}
}

// FuzzLikeTransport compares the answers to a request, whatever the server sends.
func FuzzLikeTransport(f *testing.F) {
	for _, texts := range answers {
		if len(texts[0]) < 1<<16 {
			f.Add(texts[0], 5, true)
		}
	}
	f.Fuzz(func(t *testing.T, text string, pieces int, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		synctest.Test(t, func(t *testing.T) {
			var said [2]string
			for i := range said {
				s := &server{answers: []string{text + "CLOSE"}, pieces: max(pieces, len(text)/100+1)}
				client, transport := s.client(), s.transport()
				rt := http.RoundTripper(client)
				if i == 1 {
					rt = transport
				}
				said[i] = told(rt, newRequest(t, method, ""))
				client.CloseIdleConnections()
				transport.CloseIdleConnections()
			}
			if said[0] != said[1] {
				t.Errorf("%q:\n got %s\nwant %s", text, said[0], said[1])
			}
		})
	})
}
