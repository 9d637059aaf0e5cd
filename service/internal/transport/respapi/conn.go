package respapi

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/eventloop"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/respapi/respwire"
)

// Sizes of the buffers of a connection, in bytes.
const (
	smallRead = 4 << 10  // of an idle connection
	fullRead  = 16 << 10 // of one that sends much; a longer command has more
	flushAt   = 8 << 10  // replies that are sent before the next command is decided
	keptReply = 4 << 10  // of an idle connection
	// quietReads is how many reads of little there are before the buffer is small again.
	quietReads = 16
	chunk      = 8 << 10 // of replies, for which a client has the time-out
)

// A conn is a connection.
type conn struct {
	api    *API
	nc     net.Conn
	loop   eventloop.Conn // nc; nil if the connection always has a goroutine
	serial int64
	epoch  uint64      // see Config.Epoch
	idle   atomic.Bool // it reads, and has no part of a command

	borrowed *buffers // nil while an event loop has the connection
	respwire.Decoder
	in      []byte // read, and not yet decoded, is in[from:to]
	from    int
	to      int
	begun   bool      // the rest of a command has its deadline for reading
	timed   bool      // there is a deadline for reading
	quiet   int       // reads of little in a row
	writeBy time.Time // the deadline for writing
	reply
	failed error // of writing, or of a client that has disconnected
	ends   bool  // the client has asked for the end
	broken bool  // the connection ends with an error

	session *token.Session // nil if clients need no token
	name    string

	last struct { // command
		name  [maxName + 1]byte // of a longer one, the beginning: it is unknown
		size  int
		index int
	}
	same struct { // commands in a row, with the same result, that are not counted yet
		index  int
		result result
		n      uint64
	}

	later   *throttles // that are not decided yet; nil if there are none
	request decider.Request
	verdict decider.Verdict
	id      []byte      // of a grant
	watch   watch       // of the command that waits
	onWait  func()      // c.await, made once
	onReady func() bool // c.ready, made once
}

func newConn(a *API, nc net.Conn) *conn {
	c := &conn{api: a, nc: nc, serial: a.serials.Add(1), Decoder: respwire.Decoder{MaxArg: a.cfg.MaxKey + 4<<10}, quiet: quietReads, timed: true}
	c.onWait, c.epoch = c.await, a.epoch()
	if loop, ok := nc.(eventloop.Conn); ok && !a.cfg.Blocking {
		c.loop, c.onReady = loop, c.ready
	}
	c.logOut()
	return c
}

// logOut ends what the client may do by the token that it has sent.
func (c *conn) logOut() {
	if c.api.cfg.Identify != nil {
		c.session = c.api.cfg.Identify("")
	}
}

// serve reads commands and replies, until the connection ends or the event loop has it. It
// reports whether the event loop has it.
func (c *conn) serve() bool {
	for c.prepare() {
		if c.attach() {
			return true
		}
		if !c.turn() {
			break
		}
	}
	c.finish()
	return false
}

// turn reads once, and replies to the commands that are whole. It returns false if the
// connection is to end.
func (c *conn) turn() bool { return c.read() && c.decide() && c.flush() }

// finish ends the connection.
func (c *conn) finish() {
	if c.flush() && c.broken {
		c.detach()
		c.drain()
	}
	_ = c.nc.Close()
	c.api.remove(c)
}

// lastTime bounds the time for a client to take the error that ends its connection.
const lastTime = 500 * time.Millisecond

// drain reads what the client still sends: otherwise closing would reset the connection
// before the client reads the error.
func (c *conn) drain() {
	if c.nc.SetReadDeadline(time.Now().Add(lastTime)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, maxDrained))
	}
}

// maxDrained bounds what drain reads, in bytes.
const maxDrained = 1 << 20

// decide decides the whole commands that have been read. It returns false if the
// connection is to end.
func (c *conn) decide() bool {
	for {
		n, err := c.Decode(c.in[c.from:c.to])
		if n == 0 {
			c.decideThrottles()
		}
		if err != nil {
			c.api.counts.ended[badProtocol].Add(1)
			c.err("ERR " + err.Error())
			c.broken = true
			return false
		}
		if n == 0 {
			return true
		}
		c.from += n
		c.begun = false
		if len(c.Args) == 0 {
			continue
		}
		c.run()
		if c.ends || c.broken || c.failed != nil {
			return false
		}
		if len(c.b) >= flushAt {
			c.detach() // other connections need the event loop
			if !c.flush() {
				return false
			}
		}
	}
}

// prepare makes the connection ready for the next read. It returns false if the connection is
// to end.
func (c *conn) prepare() bool {
	part := c.makeRoom()
	if !c.setDeadline(part) {
		return false
	}
	if part {
		return true
	}
	c.becomeIdle()
	return !c.api.closing.Load() && c.epoch == c.api.epoch()
}

// read reads more, after what is there of a command. It returns false if the connection is
// to end.
func (c *conn) read() bool {
	part := c.to > 0
	c.borrow()
	n, err := c.nc.Read(c.in[c.to:])
	if !part && !c.idle.CompareAndSwap(true, false) {
		return false // Shutdown has closed it
	}
	if !part && n > 0 && c.api.cfg.SetIdle != nil {
		c.api.cfg.SetIdle(c.nc, false)
	}
	c.to += n
	if n == 0 && part && errors.Is(err, os.ErrDeadlineExceeded) {
		c.api.counts.ended[slowCommand].Add(1)
		c.err("ERR the command was not received in time")
		c.broken = true
	}
	return n > 0
}

// becomeIdle drops what an idle connection does not need.
func (c *conn) becomeIdle() {
	if cap(c.b) > keptReply {
		c.b = nil
	}
	if !c.idle.Swap(true) && c.api.cfg.SetIdle != nil {
		c.api.cfg.SetIdle(c.nc, true)
	}
}

// makeRoom makes room in the buffer for the next read. It reports whether there is a part of
// a command.
func (c *conn) makeRoom() (part bool) {
	left := c.in[c.from:c.to]
	size, full := len(c.in), c.to == len(c.in)
	if c.quiet++; c.to >= smallRead {
		c.quiet = 0
	}
	switch {
	case full && len(left) == size: // a part of a long command
		size = min(2*size, max(size, c.Most()))
	case full:
		size = max(size, fullRead)
	case len(left) == 0 && c.quiet > quietReads:
		size = smallRead
	}
	if size != len(c.in) {
		c.in = append(make([]byte, 0, size), left...)[:size]
	} else {
		copy(c.in, left)
	}
	c.from, c.to = 0, len(left)
	return len(left) > 0
}

// setDeadline bounds the time for the rest of a command, if a part of it is there.
func (c *conn) setDeadline(part bool) bool {
	if part == c.timed && part == c.begun {
		return true
	}
	var by time.Time
	if part {
		by = time.Now().Add(c.api.cfg.ClientTimeout)
	}
	c.timed, c.begun = part, part
	return c.nc.SetReadDeadline(by) == nil
}

// flush sends the replies. It returns false if the connection is to end.
func (c *conn) flush() bool {
	c.countSame()
	if c.failed != nil {
		return false
	}
	for left := c.b; len(left) > 0; {
		part := left[:min(len(left), chunk)]
		left = left[len(part):]
		if c.failed = c.write(part); c.failed != nil {
			return false
		}
	}
	c.b = c.b[:0]
	return true
}

// write sends a part of the replies within the time-out. A deadline that leaves the client
// at least half of it is not set again, because that would cost as much as a decision.
func (c *conn) write(part []byte) error {
	now := time.Now()
	if timeout := c.api.cfg.ClientTimeout; c.writeBy.Sub(now) < timeout/2 {
		c.writeBy = now.Add(timeout)
		if err := c.nc.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	_, err := c.nc.Write(part)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.api.counts.ended[slowReader].Add(1)
	}
	return err
}
