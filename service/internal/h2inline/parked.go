package h2inline

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
	p.answer.head = c.request.http.Method == http.MethodHead
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
	answered := c.call(c.srv.http.Handler, &p.answer, r)
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
