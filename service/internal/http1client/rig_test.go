package http1client_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/http1client"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // unsolicited responses
	m.Run()
}

// A server in memory answers each request of a connection with the next of its answers, in
// pieces of that many bytes, and closes the connection after one that ends with CLOSE. The answer
// to HEAD ends with the first empty line.
type server struct {
	answers []string
	pieces  int

	mu    sync.Mutex // guards the fields below
	conns []*tap
}

// A tap records what the server reads.
type tap struct {
	net.Conn
	server *server
	got    bytes.Buffer
	closed bool // by the client
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.got.Write(b[:n])
	t.closed = t.closed || err == io.EOF
	return n, err
}

// dial returns the client's end of a connection to the server.
func (s *server) dial() net.Conn {
	client, ours := net.Pipe()
	t := &tap{Conn: ours, server: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, t)
	go s.serve(t)
	return client
}

func (s *server) serve(t *tap) {
	defer t.Close()
	r := bufio.NewReader(t)
	for _, text := range s.answers {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		text, last := strings.CutSuffix(text, "CLOSE")
		for _, end := range []string{"\r\n\r\n", "\n\n"} {
			if i := strings.Index(text, end); req.Method == http.MethodHead && i > 0 {
				text = text[:i+len(end)]
			}
		}
		for len(text) > 0 {
			n := min(s.pieces, len(text))
			if _, err := io.WriteString(t, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		if last {
			return
		}
	}
	_, _ = r.ReadByte() // until the client closes the connection
}

// got returns what the server has read, by connection, and which of them the client has closed.
func (s *server) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all strings.Builder
	for i, c := range s.conns {
		fmt.Fprintf(&all, "connection %d, closed %v: %q\n", i, c.closed, c.got.String())
	}
	return all.String()
}

func (s *server) client() *http1client.Client {
	return &http1client.Client{
		Dial:    func(context.Context) (net.Conn, error) { return s.dial(), nil },
		MaxIdle: 10, IdleTimeout: time.Hour,
	}
}

func (s *server) transport() *http.Transport {
	return &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return s.dial(), nil },
		MaxIdleConnsPerHost: 10, DisableCompression: true,
	}
}

// newRequest returns a request, with a body unless that is empty.
func newRequest(t testing.TB, method, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://origin.test/path?q=1", r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// told sends a request, reads the answer, and tells all of it. Of errors, it tells that there
// was one.
func told(rt http.RoundTripper, req *http.Request) string {
	var all, informed strings.Builder
	var mu sync.Mutex // guards informed: http.Transport may go on after it has failed
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&informed, "%d %v; ", code, h)
		return nil
	}})
	resp, err := rt.RoundTrip(req.WithContext(ctx))
	mu.Lock()
	defer mu.Unlock()
	all.WriteString(informed.String())
	if err != nil {
		return all.String() + "failed"
	}
	fmt.Fprintf(&all, "%s %s %v %d %v %v; ", resp.Proto, resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close)
	if resp.StatusCode == http.StatusSwitchingProtocols { // http.Transport gives the connection away
		_ = resp.Body.Close()
		return all.String()
	}
	body, err := io.ReadAll(resp.Body)
	fmt.Fprintf(&all, "%q %v %v", body, err != nil, resp.Trailer)
	_ = resp.Body.Close()
	return all.String()
}
