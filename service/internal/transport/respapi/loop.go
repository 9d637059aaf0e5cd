package respapi

import "github.com/weir-go/weir/service/internal/transport/respapi/respwire"

// buffers hold the commands and replies of a turn.
type buffers struct {
	in      []byte
	args    [][]byte
	replies []byte
}

func newBuffers() any {
	return &buffers{in: make([]byte, smallRead), args: make([][]byte, 0, respwire.MaxArgs)}
}

// borrow gives the connection buffers, if it has none.
func (c *conn) borrow() {
	if c.borrowed != nil {
		return
	}
	b := c.api.buffers.Get().(*buffers)
	c.borrowed, c.in, c.Args, c.b = b, b.in, b.args, b.replies
}

// giveBack is the opposite of borrow. Nothing may be left in the buffers.
func (c *conn) giveBack() {
	b := c.borrowed
	if b == nil {
		return
	}
	if len(c.in) == smallRead {
		*b = buffers{c.in, c.Args, c.b}
		c.api.buffers.Put(b)
	}
	c.borrowed, c.in, c.Args, c.b = nil, nil, nil, nil
}

// attach has the event loop call ready when the client has sent something. It does so only for a
// client that has sent little at a time, and no part of a command, for a while: one that sends
// much gains nothing from it and would delay others, and the rest of a command has a deadline.
// It reports whether the event loop has the connection.
func (c *conn) attach() bool {
	switch {
	case c.loop == nil:
		return false
	case c.to > 0:
		c.detach()
		return false
	case c.quiet <= quietReads:
		c.loop.Detach()
		return false
	}
	c.giveBack()
	return c.loop.Attach(c.onReady)
}

// ready serves a turn. The event loop calls it.
func (c *conn) ready() bool {
	if c.turn() {
		return c.serve()
	}
	c.finish()
	return false
}

// detach gives the connection a goroutine for a while, before it does what may block.
func (c *conn) detach() {
	if c.loop != nil {
		c.loop.Detach()
		c.quiet = 0
	}
}
