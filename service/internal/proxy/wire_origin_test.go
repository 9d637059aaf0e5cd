package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/httpserve"
)

// A scripted is an origin that records the bytes that it gets. It answers each request with
// the script for its path, or 200.
type scripted struct {
	setting
	got  testrig.Buffer // on any connection: this proxy has two kinds
	real *http.Server
	mu   sync.Mutex // guards all
	all  []net.Conn
}

func newScripted(s setting) *scripted {
	o := &scripted{setting: s}
	if s.origin != nil {
		o.real = &http.Server{Handler: s.origin, ErrorLog: silent}
		httpserve.SpeakHTTP2(o.real, 30*time.Second)
	}
	return o
}

func (o *scripted) stop() {
	if o.real != nil {
		o.real.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.all {
		c.Close()
	}
}

// transport returns a transport that reaches the origin.
func (o *scripted) transport(s setting) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!s.http2Origin)
	protocols.SetUnencryptedHTTP2(s.http2Origin)
	return &http.Transport{
		DialContext: o.dial, Protocols: &protocols, MaxIdleConnsPerHost: 100, DisableCompression: true, ExpectContinueTimeout: time.Second,
	}
}

// A tap records what is read.
type tap struct {
	net.Conn
	got *testrig.Buffer
}

func (c tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, _ = c.got.Write(b[:n])
	return n, err
}

func (o *scripted) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	o.mu.Lock()
	defer o.mu.Unlock()
	c := tap{ours, &o.got}
	o.all = append(o.all, ours)
	if o.real != nil {
		ln := pipenet.Listen()
		go func() { _ = ln.Connect(context.Background(), c) }()
		go func() { _ = o.real.Serve(ln) }()
	} else {
		go o.serve(c)
	}
	return theirs, nil
}

// scripts are the answers of the origin, by path.
var scripts = map[string]string{
	"/":              "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/chunked":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"/trailer":       "HTTP/1.1 200 OK\r\nTrailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: 42\r\n\r\n",
	"/unannounced":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: 42\r\n\r\n",
	"/continue":      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/hints":         "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/102":           "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
	"/304":           "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\n\r\n",
	"/until-close":   "HTTP/1.1 200 OK\r\n\r\nuntil the end CLOSE",
	"/http10":        "HTTP/1.0 200 OK\r\n\r\nold CLOSE",
	"/short":         "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nbroken off CLOSE",
	"/bad-chunk":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
	"/two-lengths":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
	"/same-lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	"/both-lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"/obs-fold":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Folded: a\r\n b\r\n\r\nok",
	"/bare-lf":       "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"/space-colon":   "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
	"/garbage":       "no HTTP at all CLOSE",
	"/nothing":       " CLOSE",
	"/error":         "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nbug!",
	"/unavailable":   "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
	"/hop":           "HTTP/1.1 200 OK\r\nConnection: X-Secret, close\r\nX-Secret: a\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok",
	"/cookies":       "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok",
	"/gzip":          "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzip!",
	"/upgrade":       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ECHO",
	"/wrong-upgrade": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello ECHO",
	"/999":           "HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n",
	"/99":            "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
}

// serve answers the requests of a connection. A script that ends with CLOSE ends the
// connection after it; one with ECHO sends back what comes.
func (o *scripted) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Header.Get("Expect") != "" && req.URL.Path != "/no-continue" {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		if req.Header.Get("Upgrade") == "" {
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
		}
		script, ok := scripts[req.URL.Path]
		switch {
		case o.script != "":
			script = o.script
		case !ok:
			script = scripts["/"]
		}
		if req.Method == http.MethodHead {
			head, _, _ := strings.Cut(script, "\r\n\r\n")
			script = head + "\r\n\r\n"
		}
		text, ends := strings.CutSuffix(script, " CLOSE")
		text, echoes := strings.CutSuffix(text, " ECHO")
		if _, err := io.WriteString(c, text); err != nil || ends {
			return
		}
		if echoes {
			_, _ = io.Copy(c, r)
			return
		}
	}
}
