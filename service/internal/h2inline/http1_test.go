package h2inline_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"

	"github.com/weir-go/weir/internal/pipenet"
)

// ask1 sends bytes to a server, and returns what it answers, and whether it has closed the
// connection.
func ask1(t *testing.T, std bool, pause time.Duration, parts ...string) (got []string, closed bool) {
	synctest.Test(t, func(t *testing.T) {
		c, end := connect(t, newServer(std))
		defer time.Sleep(time.Second) // net/http lets clients read the last answer
		defer end()
		for _, part := range parts {
			c.write([]byte(part))
			time.Sleep(pause)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-c.ended:
			closed = true
		default:
		}
		got = readAnswers(c.got.String())
	})
	return got, closed
}

// readAnswers reads answers to their end, or to the first one that is not whole.
func readAnswers(text string) (got []string) {
	all := bufio.NewReader(strings.NewReader(text))
	for {
		if _, err := all.Peek(1); err != nil {
			return got
		}
		text, err := readAnswer(all)
		got = append(got, text)
		if err != nil {
			return append(got, fmt.Sprint("an answer that is not whole: ", err))
		}
	}
}

// readAnswer reads an answer, without what two servers may say in different ways.
func readAnswer(from *bufio.Reader) (text string, err error) {
	r, err := http.ReadResponse(from, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(r.Body)
	for _, name := range []string{"Content-Length", "Date"} {
		r.Header.Del(name)
	}
	text = r.Status + "\n"
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			text += fmt.Sprintf("%s: %q\n", name, h[name])
		}
	}
	return text + "\n" + string(body), err
}

// compare1 compares what the two servers answer to bytes.
func compare1(t *testing.T, pause time.Duration, parts ...string) {
	t.Helper()
	std, stdClosed := ask1(t, true, pause, parts...)
	inline, inlineClosed := ask1(t, false, pause, parts...)
	if n := len(inline) - 1; n == len(std) && !stdClosed && strings.HasPrefix(inline[n], "400 ") {
		// net/http waits for the first four bytes of a further request before it judges it, and for more
		// of the first one, to see whether they are the preface of HTTP/2.
		inline, inlineClosed = inline[:n], false
	}
	if !slices.Equal(std, inline) || stdClosed != inlineClosed {
		t.Errorf("%.300q: std\n%.500q, closed: %v\ninline\n%.500q, closed: %v", parts, std, stdClosed, inline, inlineClosed)
	}
}

// requests1 are requests of HTTP/1.1, and what is not quite one.
var requests1 = []string{
	"GET /now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"POST /now/a?q=1&r HTTP/1.1\r\nhost: weir:80\r\nuser-agent: test\r\nAccept: a\r\naccept: b\r\nx-empty:\r\nX-Tab: a\tb\t \r\nX-Text: \xc3\xa4\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 3\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 003\r\nConnection: Keep-Alive\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n",
	"PUT /now/empty HTTP/1.1\r\nHost: weir\r\n\r\n",
	"DELETE /now/bodyless HTTP/1.1\r\nHost: weir\r\n\r\n",
	"PATCH /now/trailer HTTP/1.1\r\nHost: weir\r\nContent-Length: 1\r\n\r\na",
	"GET /now/trailer HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/70000 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a%20b?q=%20 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET //now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a#b HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a? HTTP/1.1\r\nHost:\r\n\r\n",
	"GET /now/close HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/lines HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/panic HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /later/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /soon/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"HEAD /now/9 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"OPTIONS /now/9 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n",
	"CONNECT weir:80 HTTP/1.1\r\nHost: weir:80\r\n\r\n",
	"BREW /now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"get /now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET http://other/now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/%zz HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a b HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET  /now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/\x7f HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/\x00 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/\xc3\xa4 HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/1.0\r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/1.1 \r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/2.0\r\nHost: weir\r\n\r\n",
	"GET /now/a\r\n\r\n",
	"\r\nGET /now/a HTTP/1.1\r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/1.1\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: we ir\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: a@weir\r\n\r\n",
	"GET /now/a HTTP/1.1\nHost: weir\n\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\nX-A: 1\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-A: 1\rX-B: 2\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-A: 1\r\n 2\r\n\r\n",
	"GET /now/a HTTP/1.1\r\n Host: weir\r\nHost: weir\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-A : 1\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-A\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\n: 1\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-A: \x00\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX(A: 1\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nPragma: no-cache\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nConnection: keep-alive, close\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: +3\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 3, 3\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length:\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: identity\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\nX-T: 1\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nExpect: more\r\n\r\n",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("a", 20000),
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("a", 6000),
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-Long: " + strings.Repeat("a", 6000) + "\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-Long: " + strings.Repeat("a", 20000) + "\r\n\r\n",
	"GET /now/a HTTP/1.1\r\nHost: weir\r\nX-Half: ",
	"POST /now/a HTTP/1.1\r\nHost: weir\r\nContent-Length: 10\r\n\r\nhalf",
	"\x16\x03\x01\x02\x00\x01\x00\x01",
	"PRI * HTTP/1.1\r\nHost: weir\r\n\r\n",
}

// Both servers answer alike, whether a request is the first of its connection or not, and in
// how many parts it comes.
func TestHTTP1Answers(t *testing.T) {
	first, other := requests1[0], requests1[1]
	preface := http2.ClientPreface + string(frames(func(f *http2.Framer) { _ = f.WriteSettings() }))
	compare1(t, 0, first+preface)
	compare1(t, 0, first, preface)
	compare1(t, 0, first, preface[:5], preface[5:])
	compare1(t, 0, first, "XYZ\r\n\r\n")
	compare1(t, 0, other[:1], other[1:]) // it begins as the preface does
	for _, r := range requests1 {
		compare1(t, 0, r)
		compare1(t, 0, first+r)
		compare1(t, 0, first+first+other+r+first+other)
		compare1(t, 0, first, r, other)
		if len(r) < 1000 {
			compare1(t, 0, strings.Split(first+r, "")...)
			compare1(t, time.Millisecond, strings.Split(r+first, "")...)
		}
		head, body, _ := strings.Cut(r, "\r\n\r\n")
		compare1(t, 100*time.Millisecond, head+"\r\n\r\n", body, first)
		compare1(t, 10*time.Millisecond, head+"\r\n\r\n", body, first)
		compare1(t, 10*time.Millisecond, first+head, "\r\n\r\n"+body+first)
	}
}

// A halfClosed is the connection of a client that has sent all that it sends, and still reads.
type halfClosed struct {
	net.Conn
	rest string
}

func (c *halfClosed) Read(b []byte) (int, error) {
	n := copy(b, c.rest)
	if c.rest = c.rest[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// compareHalfClosed compares what the two servers that make returns answer to a text, after which the client sends no more.
func compareHalfClosed(t *testing.T, make func(tb testing.TB, std bool) service, text string) {
	t.Helper()
	var got [2][]string
	for i := range got {
		synctest.Test(t, func(t *testing.T) {
			ln, srv := pipenet.Listen(), make(t, i == 0)
			go func() { _ = srv.Serve(ln) }()
			near, far := net.Pipe()
			if err := ln.Connect(t.Context(), &halfClosed{far, text}); err != nil {
				t.Fatal(err)
			}
			all, _ := io.ReadAll(near) // to the end of the connection
			got[i] = readAnswers(string(all))
			_ = ln.Close()
			_ = srv.Close()
		})
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("%.300q: std\n%.500q\ninline\n%.500q", text, got[0], got[1])
	}
}

// Both servers answer alike if the client sends no more.
func TestHTTP1HalfClosed(t *testing.T) {
	make := func(_ testing.TB, std bool) service { return newServer(std) }
	for _, r := range requests1 {
		for _, text := range []string{r, requests1[0] + r, r[:len(r)/2], requests1[0] + r[:len(r)/2]} {
			compareHalfClosed(t, make, text)
		}
	}
}

// An answer heeds the header of its request, whatever the one before on its connection was.
func TestHTTP1Headers(t *testing.T) {
	lines := []string{
		"", "Accept: text/plain\r\n", "accept: application/problem+json\r\n", "Origin: http://other\r\n", "Sec-Fetch-Site: cross-site\r\n", "Content-Type: application/grpc\r\n",
	}
	for _, a := range lines {
		for _, b := range lines {
			text := ""
			for _, header := range []string{a, b, a} {
				for _, path := range []string{rls.RateLimitService_ShouldRateLimit_FullMethodName, "/rate/a?n=0", "/rate/a?n=0&n=0"} {
					text += "POST " + path + " HTTP/1.1\r\nHost: weir\r\n" + header + "\r\n"
				}
			}
			compareHalfClosed(t, decisions, text)
		}
	}
}

// A request that comes in parts within 50 ms leaves the connection here.
func TestHTTP1Parts(t *testing.T) {
	whole := requests1[0]
	head, body, _ := strings.Cut(requests1[2], "abc")
	for _, tt := range []struct {
		name  string
		parts []string
		pause time.Duration
		want  bool // net/http gets it
	}{
		{"whole", []string{whole, whole}, time.Second, false},
		{"first in parts", []string{whole[:20], whole[20:]}, 5 * time.Millisecond, false},
		{"head and body", []string{head, "abc" + body}, 5 * time.Millisecond, false},
		{"later in parts", []string{whole, "", "", "", whole[:20], whole[20:]}, 40 * time.Millisecond, false},
		{"more than a buffer", []string{strings.Repeat(whole, 300)}, 0, false},
		{"a first request of more than a small buffer", []string{strings.Replace(whole, "\r\n\r\n", "\r\nX: "+strings.Repeat("a", 6000)+"\r\n\r\n", 1)}, 0, false},
		{"slow parts", []string{whole[:20], whole[20:]}, 100 * time.Millisecond, true},
		{"another request", []string{strings.Replace(whole, "/now/", "/later/", 1)}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs, got := newHTTP(), false
				hs.ConnState = func(_ net.Conn, s http.ConnState) { got = got || s == http.StateNew }
				c, end := connect(t, newInline(hs))
				defer time.Sleep(time.Second)
				defer end()
				for _, part := range tt.parts {
					if part != "" {
						c.write([]byte(part))
					}
					time.Sleep(tt.pause)
				}
				synctest.Wait()
				if got != tt.want {
					t.Errorf("net/http has the connection: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A connection is closed when it was idle for as long as net/http permits. A part of a request is
// net/http's soon, so that its time-outs apply.
func TestHTTP1Times(t *testing.T) {
	whole := requests1[0]
	for _, tt := range []struct {
		name  string
		parts []string // each a second after the last
		want  time.Duration
	}{
		{"idle", []string{whole}, 2 * time.Minute},
		{"idle again", []string{whole, whole, whole}, 2 * time.Minute},
		{"idle after more than a buffer", []string{strings.Repeat(whole, 1000)}, 2 * time.Minute},
		{"half a header", []string{whole, whole[:20]}, timeout},
		{"slow", append([]string{whole}, strings.Split(whole[:len(whole)-2], "")[:5]...), timeout - 4*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, end := connect(t, newServer(false))
				defer time.Sleep(time.Second)
				defer end()
				for i, part := range tt.parts {
					if i > 0 {
						time.Sleep(time.Second)
					}
					c.write([]byte(part))
				}
				from := time.Now()
				select {
				case <-c.ended:
				case <-time.After(time.Hour):
				}
				if took := time.Since(from).Round(time.Second); took != tt.want {
					t.Errorf("closed after %v: want %v", took, tt.want)
				}
			})
		})
	}
}

// Shutdown closes connections that are idle, and ConnState is told of those in use.
func TestHTTP1Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []http.ConnState
		hs := newHTTP()
		hs.ConnState = func(_ net.Conn, s http.ConnState) { states = append(states, s) }
		srv := newInline(hs)
		c, end := connect(t, srv)
		defer end()
		time.Sleep(time.Minute)
		for range 3 {
			c.write([]byte(requests1[0]))
			synctest.Wait()
		}
		if want := []http.ConnState{http.StateActive, http.StateIdle}; !slices.Equal(states, want) {
			t.Errorf("%v: want %v, once a second", states, want)
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the client reads the end
		select {
		case <-c.ended:
		default:
			t.Error("Shutdown has left a connection open")
		}
		if n := strings.Count(c.got.String(), "HTTP/1.1 418"); n != 3 {
			t.Errorf("%d answers", n)
		}
	})
}

func FuzzHTTP1(f *testing.F) {
	for _, r := range requests1 {
		f.Add([]byte(requests1[0]+r), uint16(20))
		f.Add([]byte(r+requests1[1]), uint16(len(r)+3))
	}
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		text, cut := string(b), min(int(at), len(b))
		compare1(t, 10*time.Millisecond, text[:cut], text[cut:])
	})
}
