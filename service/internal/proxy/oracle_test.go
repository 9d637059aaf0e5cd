package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/proxy"
)

// What the origin and the client get is the same as with httputil.ReverseProxy.
func TestLikeReverseProxy(t *testing.T) {
	seen := make(chan string, 1)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Del("X-Forwarded-For")
		seen <- fmt.Sprintf("%s %s %s %d %v %v %q %v", r.Method, r.RequestURI, r.Host, r.ContentLength, r.TransferEncoding, r.Header, body, r.Trailer)
		answerLike(w, r)
	}))
	defer origin.Close()
	target, err := url.Parse(origin.URL + "/base")
	testrig.Must(t, err)
	plain := httptest.NewServer(&httputil.ReverseProxy{Transport: &http.Transport{DisableCompression: true}, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	defer plain.Close()
	own := httptest.NewServer(newProxy(t, proxy.Config{Origins: []string{target.String()}}))
	defer own.Close()
	for _, request := range []string{
		"GET /small HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /small?a=1&b=%2f HTTP/1.1\r\nHost: a.test\r\nUser-Agent: x\r\nAccept: a\r\nAccept: b\r\n\r\n",
		"GET /sm%2Fall// HTTP/1.1\r\nHost: a.test\r\nUser-Agent:\r\n\r\n",
		"GET http://b.test/small HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"HEAD /small HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"OPTIONS /small HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /small HTTP/1.0\r\n\r\n",
		"GET /small HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: x-one, ,X-TWO\r\nConnection: X-Three\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\nX-Four: 4\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nKeep-Alive: 1\r\nProxy-Connection: 2\r\nProxy-Authenticate: 3\r\nProxy-Authorization: 4\r\nTrailer: X\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nTE: gzip, Trailers\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nTE: gzip\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: https\r\nForwarded: for=1.2.3.4\r\nx_odd~name: 1\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
		"POST /small HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
		"POST /small HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
		"PUT /small HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nUpgrade: x\r\n\r\n",
		"GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
		"GET /header HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /hop HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /none HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /unchanged HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /chunks HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /chunks HTTP/1.0\r\nHost: a.test\r\n\r\n",
		"GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /trailers HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /unannounced HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /trailer-only HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /early HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /breaks HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		wantAnswer := rawly(t, plain.Listener.Addr(), request)
		wantSeen := <-seen
		gotAnswer := rawly(t, own.Listener.Addr(), request)
		if gotSeen := <-seen; gotSeen != wantSeen {
			t.Errorf("%q: the origin gets\n%s\nwant\n%s", request, gotSeen, wantSeen)
		}
		if gotAnswer != wantAnswer {
			t.Errorf("%q: the client gets\n%.500q\nwant\n%.500q", request, gotAnswer, wantAnswer)
		}
	}
}

// answerLike answers by the path of a request.
func answerLike(w http.ResponseWriter, r *http.Request) {
	h, flush := w.Header(), http.NewResponseController(w).Flush
	switch strings.TrimPrefix(r.URL.Path, "/base") {
	case "/header":
		h["X-Many"] = []string{"1", "2"}
		h.Set("Connection", "X-Hop, close")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "1")
		h.Set("Proxy-Authenticate", "1")
		h.Set("Content-Type", "text/event-streams")
		w.WriteHeader(418)
	case "/hop":
		h.Set("Connection", "x-hop, , X-Other")
		h.Set("X-Hop", "1")
		h.Set("X-Other", "1")
		h.Set("X-Kept", "1")
	case "/none":
		w.WriteHeader(204)
	case "/unchanged":
		h.Set("Etag", `"1"`)
		w.WriteHeader(304)
	case "/chunks", "/breaks":
		_, _ = io.WriteString(w, "one")
		_ = flush()
		_, _ = io.WriteString(w, "two")
		if r.URL.Path == "/base/breaks" {
			panic(http.ErrAbortHandler)
		}
	case "/events":
		h.Set("Content-Type", "Text/Event-Stream; charset=utf-8")
		_, _ = io.WriteString(w, "data: 1\n\n")
	case "/trailers":
		h.Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "body")
		h.Set("X-End", "1")
	case "/trailer-only":
		h.Set("Trailer", "X-End")
		_ = flush()
		h.Set("X-End", "1")
	case "/unannounced":
		h.Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "body")
		h.Set("X-End", "1")
		h.Set(http.TrailerPrefix+"X-More", "2")
	case "/early":
		h.Set("Link", "</a>")
		w.WriteHeader(103)
		w.WriteHeader(102)
		h.Set("X-Last", "1")
		_, _ = io.WriteString(w, "body")
	case "/large":
		_, _ = w.Write(make([]byte, 200<<10))
	default:
		_, _ = io.WriteString(w, "ok\n")
	}
}

var dates = regexp.MustCompile(`Date:\[[^]]*]`)

// rawly returns the answer to a request, byte for byte but for the date and the sizes of chunks.
func rawly(t *testing.T, to net.Addr, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	testrig.Must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	in := bufio.NewReader(c)
	var text strings.Builder
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		body, err := io.ReadAll(resp.Body)
		fmt.Fprintf(&text, "%s %s %v %d %v %v %q %v %v\n", resp.Proto, resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close, body, resp.Trailer, err)
		if resp.StatusCode >= 200 {
			return dates.ReplaceAllString(text.String(), "")
		}
	}
}
