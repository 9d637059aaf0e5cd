package h2inline

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/message"
)

// A parked is a request that may wait. A separate goroutine calls its handler. The whole request has come. The
// answer is sent when it is whole.
type parked struct {
	conn   *conn
	id     uint32
	window int64 // bytes of DATA that the client takes for the stream
	cancel context.CancelFunc
	answer message.Response
}

// park calls the handler for the request that was set.
func (c *conn) park(id uint32) {
	if c.parking >= c.srv.settings.maxStreams { // the client has reset streams, and their handlers have not ended yet
		c.reset(id, http2.ErrCodeRefusedStream)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	p := &parked{conn: c, id: id, window: c.initial, cancel: cancel, answer: message.NewResponse()}
	p.answer.Head = c.request.HTTP.Method == http.MethodHead
	if c.parked == nil {
		c.parked = map[uint32]*parked{}
	}
	c.parked[id] = p
	c.parking++
	go p.serve(c.request.Clone(ctx))
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
	if answered && p.answer.Closes {
		c.part(now)
	}
	c.settle(now)
}
