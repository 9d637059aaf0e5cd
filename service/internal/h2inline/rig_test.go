package h2inline_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/h2inline"
	"github.com/weir-go/weir/service/internal/httpserve"
)

// constants are more than a client's table has room for.
var constants = func() (all [][]string) {
	for i := range 20 {
		all = append(all, []string{strings.Repeat("c", 10*i)})
	}
	return all
}()

var one = []string{"1"}

// setConstants sets fields that many answers have, and some that few have.
func setConstants(w http.ResponseWriter, what string) {
	n, _ := strconv.Atoi(what)
	h := w.Header()
	h["X-First"], h["X-Constant"], h["X-Other"] = one, constants[len(what)%4], constants[n%20]
}

// answer answers /now/..., /soon/... and /later/... alike.
func answer(w http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h := w.Header()
	setConstants(w, what)
	switch n, _ := strconv.Atoi(what); {
	case what == "empty":
		w.WriteHeader(http.StatusNoContent)
	case what == "bodyless":
		w.WriteHeader(http.StatusNoContent)
		_, _ = io.WriteString(w, "not allowed")
	case what == "trailer":
		h["Trailer"] = []string{"Grpc-Status"}
		h["Content-Type"] = []string{"application/grpc"}
		_, _ = w.Write(body)
		h["Grpc-Status"] = []string{"0"}
	case what == "lines":
		h["X-Lines"] = []string{"a\r\nX-Split: b"}
	case what == "close":
		h["Connection"] = []string{"close"}
	case what == "panic":
		panic(http.ErrAbortHandler)
	case n > 0: // a fuzzer may choose it
		_, _ = w.Write(bytes.Repeat([]byte("x"), min(n, 100_000)))
	case what == "wait":
		<-r.Context().Done()
	case what == "slow":
		select {
		case <-time.After(time.Second):
			_, _ = io.WriteString(w, "xxxxxxxxx")
		case <-r.Context().Done():
		}
	case what == "stuck":
		time.Sleep(time.Minute)
	default:
		h["Weir-Odd"] = []string{"a", "b"}
		w.WriteHeader(http.StatusTeapot)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(w, "%s=%q;", name, r.Header[name])
		}
		fmt.Fprintf(w, "%s %s %s %q %d %q", r.Method, r.Host, r.URL, r.RequestURI, r.ContentLength, body)
	}
}

// isSingle reports whether the answer to a request waits, but is a single one.
func isSingle(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/soon/") }

// timeout bounds the time of a client for a header, and for an answer.
const timeout = 10 * time.Second

func newHTTP() *http.Server {
	srv := &http.Server{
		Handler: http.HandlerFunc(answer), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: timeout, IdleTimeout: 2 * time.Minute, WriteTimeout: timeout,
		ConnState: func(net.Conn, http.ConnState) {}, ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return ctx },
	}
	httpserve.SpeakHTTP2(srv, timeout)
	return srv
}

type service interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// newServer returns a server of answer: net/http's, or that of this package.
func newServer(std bool) service {
	srv := newHTTP()
	if std {
		return srv
	}
	return newInline(srv)
}

// newInline returns a server that answers /now/... at once.
func newInline(srv *http.Server) *h2inline.Server {
	return h2inline.New(srv, func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/now/") }, isSingle)
}

// A client speaks HTTP/2 by hand, in a bubble.
type client struct {
	tb      testing.TB
	nc      net.Conn
	block   bytes.Buffer
	encoder *hpack.Encoder
	got     testrig.Buffer
	ended   chan struct{} // closed when the server has closed the connection
	last    uint32        // stream
}

// dial connects a client of HTTP/2 to a server, which end closes.
func dial(tb testing.TB, srv service) (c *client, end func()) {
	c, end = connect(tb, srv)
	c.write([]byte(http2.ClientPreface))
	return c, end
}

// connect connects a client that has not said what it speaks.
func connect(tb testing.TB, srv service) (c *client, end func()) {
	ln := pipenet.Listen()
	served := make(chan struct{})
	go func() { _ = srv.Serve(ln); close(served) }()
	nc, err := ln.Dial(tb.Context(), "", "")
	if err != nil {
		tb.Fatal(err)
	}
	c = &client{tb: tb, nc: nc, ended: make(chan struct{})}
	c.encoder = hpack.NewEncoder(&c.block)
	go func() {
		_, _ = io.Copy(&c.got, nc)
		close(c.ended)
	}()
	return c, func() {
		_ = ln.Close()
		_ = srv.Close()
		_ = nc.Close()
		<-c.ended
		<-served
		synctest.Wait()
	}
}

// write writes bytes, unless the server has closed the connection.
func (c *client) write(b []byte) {
	_ = c.nc.SetWriteDeadline(time.Now().Add(time.Minute))
	_, _ = c.nc.Write(b)
}

// frames returns frames as bytes.
func frames(make func(f *http2.Framer)) []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	make(f)
	return b.Bytes()
}

// fields encodes a header list of names and values. Half of the paths are not added to the table, as most clients do it.
func (c *client) fields(list ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(list); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1], Sensitive: list[i] == ":path" && len(list[i+1])%2 == 0})
	}
	return slices.Clone(c.block.Bytes())
}

// get returns a request without a body.
func (c *client) get(path string, more ...string) []byte { return c.request(true, path, more...) }

// request sends the header of a request. The path can have a method before it, instead of POST.
func (c *client) request(ends bool, path string, more ...string) []byte {
	method, rest, ok := strings.Cut(path, " ")
	if path = rest; !ok {
		method, path = "POST", method
	}
	c.last = c.last + 1 + c.last%2
	list := append([]string{":method", method, ":scheme", "http", ":authority", "weir", ":path", path, "user-agent", "test"}, more...)
	block := c.fields(list...)
	return frames(func(f *http2.Framer) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last, BlockFragment: block, EndStream: ends, EndHeaders: true})
	})
}

// A result has the frames that a client got.
type result struct {
	streams map[uint32]string // what came over each
	goAway  []http2.ErrCode
	closed  bool
	others  []string // frames of stream 0
	used    int      // bytes of DATA
}

// failed reports whether the server has ended the connection because of a mistake.
func (r *result) failed() bool {
	return r.closed && len(r.goAway) == 0 || slices.ContainsFunc(r.goAway, func(code http2.ErrCode) bool { return code != http2.ErrCodeNo })
}

// result parses what the client got. It must not get more at the same time.
func (c *client) result() *result {
	c.tb.Helper()
	r := &result{streams: map[uint32]string{}}
	select {
	case <-c.ended:
		r.closed = true
	default:
	}
	f := http2.NewFramer(nil, strings.NewReader(c.got.String()))
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				c.tb.Errorf("the answer cannot be read: %v %v", err, f.ErrorDetail())
			}
			return r
		}
		id := frame.Header().StreamID
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			list := slices.Clone(frame.Fields)
			slices.SortStableFunc(list, func(a, b hpack.HeaderField) int { return cmp.Compare(a.Name, b.Name) })
			for _, field := range list {
				if field.Name != "date" {
					r.streams[id] += field.Name + "=" + field.Value + "\n"
				}
			}
			r.streams[id] += "\n"
			if frame.StreamEnded() {
				r.streams[id] += "END"
			}
		case *http2.DataFrame:
			if r.used += len(frame.Data()); len(frame.Data()) > 16<<10 {
				c.tb.Errorf("a frame of %d bytes", len(frame.Data()))
			}
			r.streams[id] += string(frame.Data())
			if frame.StreamEnded() {
				r.streams[id] += "END"
			}
		case *http2.RSTStreamFrame:
			r.streams[id] += "RST " + frame.ErrCode.String()
		case *http2.GoAwayFrame:
			r.goAway = append(r.goAway, frame.ErrCode)
		case *http2.WindowUpdateFrame:
		default:
			r.others = append(r.others, frame.Header().String())
		}
	}
}

// both runs a test against both servers, each in a bubble.
func both(t *testing.T, run func(t *testing.T, srv service)) {
	for _, std := range []bool{true, false} {
		t.Run(map[bool]string{true: "std", false: "inline"}[std], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, newServer(std)) })
		})
	}
}
