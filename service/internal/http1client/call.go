package http1client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"sync"
	"time"
)

const (
	maxHeader = 10 << 20 // bytes of the header of an answer, as in http.Transport
	maxKept   = 8 << 10  // bytes of the buffer for requests that an idle connection keeps
)

// ErrInterrupted says that Do has no answer yet: Interrupt was called, or only a part of the header
// of an answer has come.
var ErrInterrupted = errors.New("http1client: the wait for the answer was interrupted")

var errHeader = fmt.Errorf("http1client: the header of the answer exceeds %d bytes", maxHeader)

// A conn is a connection to the server. One call uses it at a time.
type conn struct {
	client *Client
	nc     net.Conn
	out    bytes.Buffer // the request
	in     *bufio.Reader
	left   int64     // bytes that may still be read
	reused bool      // it was idle, or served another request
	since  time.Time // idle since then
}

func newConn(c *Client, nc net.Conn) *conn {
	cn := &conn{client: c, nc: nc}
	cn.in = bufio.NewReader(cn)
	return cn
}

// Read implements io.Reader for the bufio.Reader.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.nc.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// usable reports whether an idle connection can serve a request. If not, it closes it.
func (c *conn) usable() bool {
	is, first := quiet(c.nc)
	if !is {
		c.unsolicited(first)
		_ = c.nc.Close()
	}
	return is
}

// timedOut matches an answer that says that the server has waited for a request for too long.
var timedOut = regexp.MustCompile(`^HTTP/1\.\d 408`)

// unsolicited logs bytes that came without a request, as http.Transport does.
func (c *conn) unsolicited(first []byte) {
	if len(first) > 0 && !timedOut.Match(first) {
		log.Printf("Unsolicited response on an idle connection to %v, starting with %q", c.nc.RemoteAddr(), first)
	}
}

// A Call is a request on its way, and the body of its answer. Interrupt and Abort may be
// called at any time, and the other methods by one goroutine at a time.
type Call struct {
	conn   *conn
	req    *http.Request
	inform Inform
	begun  bool  // the request is in the buffer
	sent   int   // bytes of it
	failed error // to send all of it
	come   bool  // a byte of the answer
	parts  bool  // the answer does not come whole
	body   io.ReadCloser
	keep   bool // the connection, after the body

	mu          sync.Mutex // guards the fields below
	state       state
	interrupted bool        // and Do has not yet returned for it
	stop        func() bool // ends the watch of a context; nil if there is none
}

// The state of a call.
type state uint8

const (
	waiting state = iota // for the answer
	reading              // the answer
	over
)

// Do sends the request and waits for the answer. After ErrInterrupted, another goroutine may
// call it again, to go on. If a part of the header of an answer has come, Interrupt does not
// end the wait for the rest of it.
//
// After another error, Stale says whether the request may be sent again.
func (k *Call) Do() (*http.Response, error) {
	resp, err := k.do()
	if err != nil && err != ErrInterrupted {
		k.Abort()
	}
	return resp, err
}

func (k *Call) do() (*http.Response, error) {
	if err := k.send(); err != nil {
		return nil, err
	}
	for {
		if err := k.await(); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(k.conn.in, k.req)
		if err != nil {
			return nil, whole(err)
		}
		if code := resp.StatusCode; code < 100 || code > 199 || code == http.StatusSwitchingProtocols {
			return k.answered(resp), nil
		}
		if err := k.inform(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
			return nil, err
		}
		k.conn.left = maxHeader
		k.become(waiting)
	}
}

// send sends the request, or the rest of it. If the server does not read all of it, it may
// have answered.
func (k *Call) send() error {
	c := k.conn
	if !k.begun {
		if k.req.GetBody != nil {
			var err error
			if k.req.Body, err = k.req.GetBody(); err != nil {
				return err
			}
		}
		c.out.Reset()
		if err := k.req.Write(&c.out); err != nil {
			return err
		}
		k.begun, c.left = true, maxHeader
	}
	for k.failed == nil && k.sent < c.out.Len() {
		n, err := c.nc.Write(c.out.Bytes()[k.sent:])
		k.sent += n
		if err != nil && k.resume(err) {
			return ErrInterrupted
		}
		k.failed = err
	}
	return nil
}

// await waits until the header of an answer begins.
func (k *Call) await() error {
	in := k.conn.in
	if _, err := in.Peek(1); err != nil {
		switch {
		case k.resume(err):
			return ErrInterrupted
		case k.failed != nil:
			return k.failed
		}
		return whole(err)
	}
	k.come = true
	if b, _ := in.Peek(in.Buffered()); !k.parts && !bytes.Contains(b, []byte("\n\r\n")) && !bytes.Contains(b, []byte("\n\n")) {
		k.parts = true
		return ErrInterrupted
	}
	k.become(reading)
	return nil
}

// become changes the state unless the call is over. Interrupt has an effect while it waits.
func (k *Call) become(to state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != over {
		k.state = to
		if k.interrupted {
			k.applyLocked()
		}
	}
}

// applyLocked lets the interruption end the wait, or lets the rest of the answer come.
func (k *Call) applyLocked() {
	var deadline time.Time
	if k.interrupted && k.state == waiting {
		deadline = time.Unix(1, 0)
	}
	_ = k.conn.nc.SetDeadline(deadline)
}

// whole returns the error of an answer that ends before its header does.
func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// resume reports whether an error comes from Interrupt. Then it lets the call go on.
func (k *Call) resume(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.interrupted || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	k.interrupted = false
	k.applyLocked()
	return true
}

// Interrupt lets Do return ErrInterrupted if it waits for an answer, or as soon as it does.
func (k *Call) Interrupt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != over && !k.interrupted {
		k.interrupted = true
		k.applyLocked()
	}
}

// Stale reports whether the connection had served other requests, and the server closed it
// before it saw this one, as far as one can tell, or before it answered one that may be
// repeated. http.Transport has the same rules.
func (k *Call) Stale() bool {
	return k.conn.reused && k.begun && !k.come && (k.sent == 0 || repeatable(k.req))
}

func repeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0
}

// answered returns the answer, with a body that gives back the connection.
func (k *Call) answered(resp *http.Response) *http.Response {
	k.conn.left = math.MaxInt64
	k.keep = !resp.Close && !k.req.Close && k.failed == nil && resp.StatusCode > 199 // that of 101 is given away
	if resp.Body == http.NoBody {
		k.end(k.keep)
	} else {
		k.body = resp.Body
		resp.Body = k
	}
	return resp
}

// Read reads the body of the answer.
func (k *Call) Read(p []byte) (int, error) {
	n, err := k.body.Read(p)
	if err != nil {
		k.end(k.keep && err == io.EOF)
	}
	return n, err
}

// Close closes the connection unless the body was read to its end.
func (k *Call) Close() error {
	k.Abort()
	return nil
}

// Abort closes the connection if the call goes on.
func (k *Call) Abort() { k.end(false) }

// end ends the call, once, and keeps the connection if that can serve another one.
func (k *Call) end(keep bool) {
	k.mu.Lock()
	was, stop := k.state, k.stop
	k.state = over
	k.mu.Unlock()
	if was == over {
		return
	}
	if stop != nil {
		stop()
	}
	c := k.conn
	if keep && c.in.Buffered() > 0 {
		first, _ := c.in.Peek(min(c.in.Buffered(), 64))
		c.unsolicited(first)
		keep = false
	}
	if !keep {
		_ = c.nc.Close()
		return
	}
	if c.out.Cap() > maxKept {
		c.out = bytes.Buffer{}
	}
	c.reused = true
	c.client.put(c)
}

// wait is Do until the context ends, which then also ends the body.
func (k *Call) wait(ctx context.Context) (*http.Response, error) {
	stop := context.AfterFunc(ctx, k.Abort)
	k.mu.Lock()
	k.stop = stop
	k.mu.Unlock()
	resp, err := k.Do()
	for err == ErrInterrupted {
		resp, err = k.Do()
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return resp, err
}
