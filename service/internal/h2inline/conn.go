package h2inline

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/weir-go/weir/service/internal/h2inline/fieldblock"
	"github.com/weir-go/weir/service/internal/h2inline/message"
)

const (
	// leastRead is the size of the buffer of a connection that waits for frames.
	leastRead = 4 << 10
	// mostRead is the size of the buffer of a connection after a read that has filled a small one.
	mostRead = 18 << 10
	// mostWritten bounds the bytes of answers before they are written, and mostRelayed those of frames for the
	// relay. A single frame may exceed either.
	mostWritten = 64 << 10
	mostRelayed = 64 << 10
	// soon is how long a connection keeps a large buffer, and a request that can be answered here waits for
	// its body.
	soon = 50 * time.Millisecond
	// leastCredit is the least number of bytes in a WINDOW_UPDATE, as in net/http.
	leastCredit = 4 << 10

	headerLen     = 9 // of a frame
	initialWindow = 1<<16 - 1
	maxWindow     = 1<<31 - 1
)

var (
	bigBuffers = sync.Pool{New: func() any { return new([mostRead]byte) }}
	outBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// A conn is a connection. One goroutine reads it. Others write the answers of parked requests, and of its
// relay, if there is one.
type conn struct {
	srv    *Server
	nc     net.Conn
	http1  bool // it speaks HTTP/1.1
	ctx    context.Context
	cancel context.CancelFunc

	// Of the goroutine that reads.
	small    []byte
	big      *[mostRead]byte // nil while buf is small
	buf      []byte
	r, w     int // what is read, but not handled yet, is buf[r:w]
	block    block
	decoder  *fieldblock.Decoder
	request  message.Request
	unreadID uint32 // the stream that request is for, while its body has not come; 0 if there is none
	response message.Response
	parting  bool   // an answer asks the client to leave
	owed     int    // bytes of DATA that were handled here, and not credited yet
	toRelay  []byte // frames

	mu       sync.Mutex // guards what follows, and writes
	out      []byte     // frames for the client
	pooled   *[]byte    // has the memory of out
	greeted  bool       // the first SETTINGS have come
	unacked  int        // SETTINGS that the client has not acknowledged
	lastID   uint32     // the last stream of the client
	encoder  fieldblock.Encoder
	trailer  []byte    // the block of one, while it is sent
	encoded  bool      // the size of the client's table was sent
	window   int64     // bytes of DATA that the client takes
	initial  int64     // the same, of a new stream
	list     uint32    // SETTINGS_MAX_HEADER_LIST_SIZE; if zero, none
	bodies   []*unread // requests without their body, which has not come yet
	blocked  []*blocked
	parked   map[uint32]*parked
	parking  int // running handlers of parked requests, also after the client has reset the stream
	relay    *relay
	relayed  map[uint32]int64 // streams that the relay has not answered, and the DATA that it may send for each
	returned int              // bytes of its DATA that the client has taken, and it was not told
	leaving  bool             // GOAWAY was sent with the last stream
	failed   bool             // GOAWAY was sent with an error: nothing is handled any more
	busy     bool             // told to ConnState
	handed   bool             // net/http has the connection
	spare    bool             // buf is large, and need not be
	err      error            // of writing
	times
}

func newConn(s *Server, nc net.Conn) *conn {
	now, buf := time.Now(), make([]byte, leastRead)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.LocalAddrContextKey, nc.LocalAddr()))
	return &conn{
		srv: s, nc: nc, ctx: s.http.ConnContext(ctx, nc), cancel: cancel, small: buf, buf: buf, decoder: fieldblock.NewDecoder(s.settings.maxList),
		window: initialWindow, initial: initialWindow, times: times{began: now, read: now, active: now},
	}
}

// serve serves the connection until it ends.
func (c *conn) serve() {
	defer c.close()
	c.initRequest()
	c.response = message.NewResponse()
	c.mu.Lock()
	c.greet()
	c.mu.Unlock()
	for {
		c.mu.Lock()
		c.answer(time.Now())
		done := c.err != nil
		c.mu.Unlock()
		c.writeRelay()
		if done || !c.hasFrame() && c.fill() != nil {
			return
		}
	}
}

// initRequest makes the request without anything of those before.
func (c *conn) initRequest() {
	c.unreadID = 0
	c.request.Init(c.ctx, c.nc.RemoteAddr(), c.http1)
}

// answer handles the frames that were read, and writes what comes of them.
func (c *conn) answer(now time.Time) {
	c.read, c.pinged = now, time.Time{}
	if err := c.handleFrames(now); err != nil {
		if code, ok := errors.AsType[http2.ConnectionError](err); ok {
			c.goAway(http2.ErrCode(code))
		} else {
			c.err = err
			return
		}
	}
	if c.parting {
		c.part(now)
	}
	if c.failed {
		c.r = c.w
	}
	c.toRelay = c.appendReturned(c.toRelay)
	if c.owed >= leastCredit {
		c.number(http2.FrameWindowUpdate, 0, uint32(c.owed))
		c.owed = 0
	}
	c.resize()
	c.settle(c.read)
}

// settle writes what there is to write, and notes the state of the connection.
func (c *conn) settle(now time.Time) {
	c.flush(now)
	c.tell(now)
	c.arm(now)
}

// handleFrames handles the whole frames in the buffer, until there is much to relay: the fields of a frame can take
// a thousand times its size.
func (c *conn) handleFrames(now time.Time) error {
	for c.w-c.r >= headerLen && !c.failed && len(c.toRelay) < mostRelayed {
		b := c.buf[c.r:c.w]
		n := c.frameLen()
		if n > headerLen+c.srv.settings.maxFrame {
			return http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		if len(b) < n {
			return nil
		}
		c.r += n
		h := frame{http2.FrameType(b[3]), http2.Flags(b[4]), binary.BigEndian.Uint32(b[5:]) & maxWindow, b[:n]}
		if err := c.handle(&h, now); err != nil {
			return err
		}
		if len(c.out) > mostWritten {
			c.flush(now)
			now = time.Now()
			c.read = now
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// hasFrame reports whether there is a whole frame in the buffer.
func (c *conn) hasFrame() bool { return c.w-c.r >= headerLen && c.w-c.r >= c.frameLen() }

// frameLen returns the length of the frame at the start of the buffer, of which the header was read.
func (c *conn) frameLen() int { return headerLen + int(binary.BigEndian.Uint32(c.buf[c.r:])>>8) }

// needsBig reports whether the frame at the start of the buffer needs a large one.
func (c *conn) needsBig() bool { return c.w-c.r >= headerLen && c.frameLen() > leastRead }

// resize makes room for the next read. After a read that has filled the buffer, more is
// expected.
func (c *conn) resize() { c.useBig(c.w == len(c.buf) || c.w-c.r > leastRead || c.needsBig()) }

func (c *conn) useBig(big bool) {
	rest, had := c.buf[c.r:c.w], c.big
	switch {
	case big && had == nil:
		c.big = bigBuffers.Get().(*[mostRead]byte)
		c.buf = c.big[:]
	case !big && had != nil:
		c.buf, c.big = c.small, nil
	}
	c.w, c.r = copy(c.buf, rest), 0
	c.spare = c.big != nil && !c.needsBig()
	if had != nil && c.big == nil {
		bigBuffers.Put(had)
	}
}

// fill reads more. An error means that the connection ends.
func (c *conn) fill() error {
	for {
		n, err := c.nc.Read(c.buf[c.w:])
		if c.w += n; n > 0 {
			return nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = c.wake()
		}
		if err != nil {
			return err
		}
	}
}

// flush writes the frames for the client.
func (c *conn) flush(now time.Time) {
	if c.pooled == nil {
		return
	}
	rest := c.out
	for len(rest) > 0 && c.err == nil {
		c.armWrite(now)
		n, err := c.nc.Write(rest)
		if rest = rest[n:]; err == nil || n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			now = time.Now()
			continue
		}
		c.err = err
	}
	*c.pooled = c.out[:0]
	outBuffers.Put(c.pooled)
	c.out, c.pooled = nil, nil
}

// close ends the connection.
func (c *conn) close() {
	_ = c.nc.Close()
	c.cancel()
	c.mu.Lock()
	if c.relay != nil {
		_ = c.relay.nc.Close()
	}
	c.err = net.ErrClosed
	c.mu.Unlock()
	if c.big != nil {
		bigBuffers.Put(c.big)
		c.big, c.buf = nil, nil
	}
}
