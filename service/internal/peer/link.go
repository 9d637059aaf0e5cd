package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
)

// pings is how many pings a peer gets in the time in which it may be silent.
const pings = 4

// A link is a connection of a Client. A goroutine reads, one writes, and one sends pings.
type link struct {
	client *Client
	conn   net.Conn
	in     *wire.Reader
	out    *wire.Writer
	rules  wire.KnownRules // that the peer has told; used by the reader alone
	wake   chan struct{}
	missed atomic.Int32  // pings since the peer last sent anything
	gone   chan struct{} // closed when the link takes no more calls
	dead   chan struct{} // closed when it has ended
	bytes  atomic.Int64  // of the frames of calls

	mu       sync.Mutex // guards what follows
	calls    []*call    // by their numbers; nil where a number is unused
	unused   []uint64
	inflight int
	leaving  bool
	err      error // why it has ended
}

func newLink(c *Client, conn net.Conn, in *wire.Reader, out *wire.Writer) *link {
	return &link{
		client: c, conn: conn, in: in, out: out,
		wake: make(chan struct{}, 1), gone: make(chan struct{}), dead: make(chan struct{}),
	}
}

// run serves the link until it ends.
func (l *link) run() {
	defer context.AfterFunc(l.client.ctx, func() { l.end(errEnded) })()
	var wg sync.WaitGroup
	wg.Go(l.write)
	wg.Go(l.ping)
	l.end(l.read())
	wg.Wait()
}

// end fails all calls.
func (l *link) end(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
	if !l.leaving {
		close(l.gone)
	}
	calls := l.calls
	l.calls, l.inflight = nil, 0
	l.mu.Unlock()
	close(l.dead)
	l.out.Fail(err)
	_ = l.conn.Close()
	for _, c := range calls {
		if c != nil {
			c.finish(l.err)
		}
	}
}

// finish ends a call with an error.
func (c *call) finish(err error) {
	if c.state.CompareAndSwap(pending, answered) {
		c.err = err
		c.events <- done
	} else {
		c.free()
	}
}

// enter gives a call a number.
func (l *link) enter(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.leaving && c.state.Load() != abandoned: // those give back what was granted
		return errLeaving
	case l.inflight >= l.client.cfg.MaxCalls:
		return wire.ErrBusy
	}
	if n := len(l.unused); n > 0 {
		c.id, l.unused = l.unused[n-1], l.unused[:n-1]
		l.calls[c.id] = c
	} else {
		c.id = uint64(len(l.calls))
		l.calls = append(l.calls, c)
	}
	l.inflight++
	return nil
}

// take ends the use of a number, and returns its call; nil if there is none.
func (l *link) take(id uint64) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id >= uint64(len(l.calls)) || l.calls[id] == nil {
		return nil
	}
	c := l.calls[id]
	l.calls[id] = nil
	l.unused = append(l.unused, id)
	l.inflight--
	return c
}

// idle reports whether no call is in flight on a link that takes no more.
func (l *link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving && l.inflight == 0
}

// start sends a call. If there is no error, the call ends.
func (l *link) start(c *call) error {
	if err := l.enter(c); err != nil {
		return err
	}
	id := c.id
	if err := l.add(c); err != nil && l.take(id) != nil { // else the link has ended, and the call too
		return err
	}
	l.flush()
	return nil
}

// add adds the frame of a call.
func (l *link) add(c *call) error {
	if l.out.Open() != nil {
		return wire.ErrUnavailable
	}
	defer l.out.Close()
	b, err := c.append(l.out.Start(c.id, c.kind))
	if err != nil {
		l.out.Drop(b)
		return err
	}
	size, ok := l.out.Finish(b)
	if !ok {
		return wire.ErrTooLarge
	}
	if c.size = size; l.bytes.Add(int64(size)) > int64(l.client.cfg.MaxBytes) {
		l.bytes.Add(-int64(size))
		l.out.Drop(b)
		return wire.ErrBusy
	}
	return nil
}

// flush has the frames written.
func (l *link) flush() {
	select {
	case l.wake <- struct{}{}:
	default: // the writer will wake up already
	}
}

// write writes frames until the link ends.
func (l *link) write() {
	for {
		select {
		case <-l.wake:
			runtime.Gosched() // callers that are ready add their frames to this write
			l.out.Flush()
			if err := l.out.Failed(); err != nil {
				l.end(err)
				return
			}
		case <-l.dead:
			return
		}
	}
}

// abandon leaves a call without an answer to the reader, and has the peer cancel it. It reports
// false if the call ends just now.
func (l *link) abandon(c *call) bool {
	if c.req != nil {
		c.key = strings.Clone(c.req.Key)
	}
	opened := l.out.Open() == nil
	l.mu.Lock()
	// While the call has its number, a frame that is added now comes before that of any
	// other call with this number.
	waits := c.id < uint64(len(l.calls)) && l.calls[c.id] == c
	id := c.id
	left := c.state.CompareAndSwap(pending, abandoned)
	l.mu.Unlock()
	if opened {
		if left && waits {
			l.out.Finish(l.out.Start(id, wire.KindCancel))
		}
		l.out.Close()
		l.flush()
	}
	return left
}

var (
	errSilent = errors.New("it is silent")
	errSlow   = errors.New("it does not read")
	errEnded  = errors.New("the client is closed")
	// errLeaving says that the peer shuts down.
	errLeaving = fmt.Errorf("%w: it is shutting down", wire.ErrUnavailable)
)

// ping sends pings, and ends the link if the peer does not answer. It counts ticks, not time, so
// that a pause of this process is not taken for silence of the peer.
func (l *link) ping() {
	silence := l.client.cfg.Silence
	tick := time.NewTicker(silence / pings)
	defer tick.Stop()
	for {
		select {
		case <-l.dead:
			return
		case now := <-tick.C:
			switch {
			case l.missed.Add(1) > pings:
				l.end(errSilent)
			case l.out.Stuck(silence):
				l.end(errSlow)
			case l.idle():
				l.end(errLeaving)
			default:
				_ = l.out.Send(0, wire.KindPing, binary.BigEndian.AppendUint64(nil, uint64(now.Sub(l.client.epoch))))
				l.flush()
			}
		}
	}
}
