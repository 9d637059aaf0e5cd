package http2serve

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// A parked is a request that may wait. A separate goroutine calls its handler. The whole request has come. The
// answer is sent when it is whole.
type parked struct {
	conn   *conn
	id     uint32
	window int64 // bytes of DATA that the client takes for the stream
	cancel context.CancelFunc
	answer response
}

// park calls the handler for the request that was set.
func (c *conn) park(id uint32) {
	if c.parking >= c.srv.settings.maxStreams { // the client has reset streams, and their handlers have not ended yet
		c.reset(id, http2.ErrCodeRefusedStream)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	p := &parked{conn: c, id: id, window: c.initial, cancel: cancel, answer: response{header: http.Header{}}}
	p.answer.begin(&c.request, c.read)
	if c.parked == nil {
		c.parked = map[uint32]*parked{}
	}
	c.parked[id] = p
	c.parking++
	go p.serve(c.request.clone(ctx))
}

// clone returns a copy that can outlive the request.
func (r *request) clone(ctx context.Context) *http.Request {
	h := r.http.WithContext(ctx)
	h.RequestURI, h.Header = strings.Clone(h.RequestURI), r.header.Clone()
	u := r.url
	u.Path, u.RawPath, u.RawQuery = strings.Clone(u.Path), strings.Clone(u.RawPath), strings.Clone(u.RawQuery)
	h.URL = &u
	return h
}

// serve answers the request, unless its stream or its connection has ended meanwhile.
func (p *parked) serve(r *http.Request) {
	defer p.cancel()
	c := p.conn
	answered := c.call(c.srv.cfg.HTTP.Handler, (*parkedWriter)(&p.answer), r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parking--
	if c.parked[p.id] != p || c.err != nil {
		return
	}
	delete(c.parked, p.id)
	now := time.Now()
	if answered {
		c.sendAnswer(p.id, p.window, &p.answer, now)
	} else {
		c.reset(p.id, http2.ErrCodeInternal)
	}
	if answered && p.answer.closes {
		c.part(now)
	}
	c.settle(now)
}

// A parkedWriter is the http.ResponseWriter of a parked request: a response that is no inline.Writer, because
// the handler may wait.
type parkedWriter response

func (w *parkedWriter) response() *response { return (*response)(w) }

func (w *parkedWriter) Header() http.Header { return w.header }

func (w *parkedWriter) WriteHeader(status int) { w.response().WriteHeader(status) }

func (w *parkedWriter) Write(b []byte) (int, error) { return w.response().Write(b) }

// FlushError does nothing: an answer is sent when it is whole.
func (w *parkedWriter) FlushError() error { return nil }

// SetReadDeadline does nothing: the whole request was read.
func (w *parkedWriter) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the connection has deadlines.
func (w *parkedWriter) SetWriteDeadline(time.Time) error { return nil }
