//go:build system

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// oddHeads are status lines and fields of answers, by what is odd about them. Each is tried with three kinds of framing.
var oddHeads = map[string]string{
	"plain":                      "200 OK",
	"reason":                     "200 Fine by me",
	"empty reason":               "200 ",
	"no reason":                  "200",
	"reason in Latin-1":          "200 sch\xf6n",
	"unknown 2xx":                "299 Odd",
	"unknown 4xx":                "499 Gone away",
	"unknown 5xx":                "599 Odd",
	"404":                        "404 Nothing here",
	"503 with Retry-After":       "503 Later\r\nRetry-After: 7",
	"redirect":                   "302 Found\r\nLocation: /x?y=z#f",
	"401":                        "401 Who\r\nWWW-Authenticate: Basic realm=\"a\"",
	"nosniff":                    "200 OK\r\nX-Content-Type-Options: nosniff",
	"empty type":                 "200 OK\r\nContent-Type:",
	"odd type":                   "200 OK\r\nContent-Type: text/HTML;charset=\"x\"",
	"unknown encoding":           "200 OK\r\nContent-Encoding: rot13",
	"cookies":                    "200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Secure",
	"fields twice":               "200 OK\r\nX-A: 1\r\nX-A: 2",
	"empty field":                "200 OK\r\nX-A:",
	"field in small letters":     "200 OK\r\nx-small: 1",
	"field with spaces around":   "200 OK\r\nX-A:  \t a b \t ",
	"field in Latin-1":           "200 OK\r\nX-A: sch\xf6n",
	"long field":                 "200 OK\r\nX-A: " + strings.Repeat("x", 3000),
	"many fields":                "200 OK" + manyFields(60),
	"odd date":                   "200 OK\r\nDate: yesterday",
	"server":                     "200 OK\r\nServer: mine/1.0",
	"via":                        "200 OK\r\nVia: 1.1 other",
	"age":                        "200 OK\r\nAge: 12",
	"etag":                       "200 OK\r\nETag: W/\"x\"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT",
	"named by Connection":        "200 OK\r\nConnection: x-hop\r\nX-Hop: 1",
	"Keep-Alive":                 "200 OK\r\nKeep-Alive: timeout=9",
	"early hints":                "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK",
	"several early answers":      "103 Early Hints\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1",
	"rates of the origin itself": "200 OK\r\nRateLimit: \"o\";r=1",
}

func manyFields(n int) (fields string) {
	for i := range n {
		fields += fmt.Sprintf("\r\nX-%d: %d", i, i)
	}
	return fields
}

// oddFramings are ways to send the body "0123456789".
var oddFramings = map[string]string{
	"a length":        "\r\nContent-Length: 10\r\n\r\n0123456789",
	"chunks":          "\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
	"until the close": "\r\n\r\n0123456789",
}

// oddBodies are further answers, as a whole.
var oddBodies = map[string]string{
	"204":                   "204 Nothing\r\n\r\n",
	"204 with a type":       "204 Nothing\r\nContent-Type: text/plain\r\n\r\n",
	"205":                   "205 Reset\r\nContent-Length: 0\r\n\r\n",
	"empty":                 "200 OK\r\nContent-Length: 0\r\n\r\n",
	"empty, in chunks":      "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"trailer":               "200 OK\r\nTrailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nSum: 1\r\n\r\n",
	"length twice":          "200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
	"length, a list":        "200 OK\r\nContent-Length: 2, 2\r\n\r\nab",
	"lengths that differ":   "200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
	"no number as length":   "200 OK\r\nContent-Length: +2\r\n\r\nab",
	"HTTP/1.0":              "HTTP/1.0 200 OK\r\n\r\nab",
	"a field without colon": "200 OK\r\nnonsense\r\nContent-Length: 2\r\n\r\nab",
	"lines end in LF":       "200 OK\nContent-Length: 2\n\nab",
	"a cut length":          "200 OK\r\nContent-Length: 5\r\n\r\nab",
	"a cut chunk":           "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	"no HTTP":               "SSH-2.0-OpenSSH_9\r\n",
}

// refused are the answers of which a client gets nothing or 502, though HAProxy passes them on: a list of equal lengths,
// which a recipient may refuse (RFC 9110, section 8.6), and a short answer that breaks off before any of it was passed on.
var refused = []string{"length, a list", "a cut length"}

// ofTheMessage are the fields that docs/proxy.md says a proxy adds: they belong to the message and its connection.
var ofTheMessage = []string{"Date", "Connection", "Content-Length", "Transfer-Encoding", "Keep-Alive"}

// What a client gets of an answer.
type got struct {
	status string
	header http.Header
	body   string
	cut    bool // it did not end well, or is none
}

// fails reports whether there is no answer, or only that of a proxy to one that it does not understand.
func (g got) fails() bool { return g.header == nil || strings.HasPrefix(g.status, "502 ") }

func (g got) String() string {
	if g.header == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %q cut %t", g.status, g.body, g.cut)
}

// The proxy passes on what the origin says, as nginx and HAProxy do, and adds no field that is not in docs/proxy.md.
func TestAnswersBeside(t *testing.T) {
	answers := map[string]string{}
	for head, says := range oddHeads {
		for framing, rest := range oddFramings {
			answers[head+", "+framing] = says + rest
		}
	}
	maps.Copy(answers, oddBodies)
	if len(answers) < 100 {
		t.Fatalf("%d answers", len(answers))
	}
	names := slices.Sorted(maps.Keys(answers))
	origin := listening(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		i, _ := strconv.Atoi(r.URL.Path[1:])
		says := answers[names[i]]
		if !strings.HasPrefix(says, "HTTP/") && !strings.HasPrefix(says, "SSH") {
			says = "HTTP/1.1 " + says
		}
		_, _ = io.WriteString(c, says)
	})
	all := besides(t, origin)
	added := map[string]map[string]bool{}
	for i, name := range names {
		says := answers[name]
		sent, _ := textproto.NewReader(bufio.NewReader(strings.NewReader(says[strings.Index(says, "\n")+1:]))).ReadMIMEHeader()
		results := map[string]got{}
		for proxy, address := range all {
			g := getOdd(t, address, i)
			results[proxy] = g
			for field := range g.header {
				if _, ok := sent[field]; !ok && !strings.Contains(says, field+":") {
					if added[proxy] == nil {
						added[proxy] = map[string]bool{}
					}
					added[proxy][field] = true
				}
			}
		}
		w, n, h := results["weir proxy"], results["nginx"], results["HAProxy"]
		if w.String() != h.String() || w.String() != n.String() {
			t.Logf("%-40s weir proxy: %v; nginx: %v; HAProxy: %v", name, w, n, h)
		}
		if w.fails() {
			if !h.fails() && !slices.Contains(refused, name) {
				t.Errorf("%s: no answer: want that of HAProxy", name)
			}
			continue
		}
		if w.String() != h.String() {
			t.Errorf("%s: %v: want %v, as HAProxy", name, w, h)
		}
		for field := range w.header {
			if !slices.Contains(ofTheMessage, field) && !strings.Contains(strings.ToLower(says), "\n"+strings.ToLower(field)+":") {
				t.Errorf("%s: the proxy adds %s: %q", name, field, w.header[field])
			}
		}
	}
	for proxy, fields := range added {
		t.Logf("%s adds %q", proxy, slices.Sorted(maps.Keys(fields)))
	}
}

// getOdd returns the final answer to a request.
func getOdd(t *testing.T, address string, i int) (g got) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	fatal(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", i)
	text, err := io.ReadAll(c)
	g.cut = err != nil
	in := bufio.NewReader(bytes.NewReader(text))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			g.cut = true
			return g
		}
		if resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		return got{resp.Status, resp.Header, string(body), g.cut || err != nil}
	}
}
