package serve

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const (
	// inlineBatch is the number of requests up to which the reader decides a batch itself.
	inlineBatch = 100
	// patience is how many times longer than its peer a session endures silence, and writes that
	// do not end.
	patience = 3
)

// A session is a connection of a Handler. One goroutine reads and makes the decisions that do not
// wait; each request that waits has another.
type session struct {
	h       *Handler
	peer    wire.Info
	conn    net.Conn
	in      *wire.Reader
	out     *wire.Writer
	silence time.Duration // that is taken for the end of the peer

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // of requests with a goroutine
	heard  atomic.Bool    // a frame has come since the last tick

	rules   wire.RuleNumbers // guarded by out.mu
	waits   waitTable
	started chan struct{} // the request that was begun last has its place in a queue, or has ended

	// Used by the reader alone.
	request  decider.Request
	requests []decider.Request
	verdicts []decider.Verdict
	id       []byte
}

func newSession(h *Handler, conn net.Conn, in *wire.Reader, out *wire.Writer, peer wire.Hello) *session {
	s := &session{
		h: h, peer: peer.Info, conn: conn, in: in, out: out, started: make(chan struct{}, 1),
		silence:  patience * min(max(time.Duration(peer.SilenceMS)*time.Millisecond, 100*time.Millisecond), time.Minute),
		verdicts: make([]decider.Verdict, 1),
	}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	return s
}

// run serves the connection until it ends.
func (s *session) run() {
	defer s.wg.Wait()
	defer s.conn.Close()
	defer s.cancel()
	s.wg.Go(s.watch)
	for {
		if !s.in.Ready() {
			s.out.Flush()
			s.out.Room()
		}
		f, err := s.in.Read()
		if err != nil {
			s.out.Fail(err)
			return
		}
		s.heard.Store(true)
		if s.h.cfg.Blocking && s.serveBlocking(f) {
			continue
		}
		s.serve(f)
	}
}

// watch closes the connection if the peer is silent or reads too slowly.
func (s *session) watch() {
	tick := time.NewTicker(s.silence)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if !s.heard.Swap(false) || s.out.Stuck(s.silence) {
				s.h.slow.Add(1)
				_ = s.conn.Close()
				return
			}
		}
	}
}

// A waitTable has the requests that a peer can cancel, by their numbers.
type waitTable struct {
	mu    sync.Mutex // guards waits
	waits map[uint64]context.CancelFunc
}

// add adds a request with a number that is not in use.
func (t *waitTable) add(id uint64, cancel context.CancelFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waits == nil {
		t.waits = map[uint64]context.CancelFunc{}
	}
	if t.waits[id] != nil {
		return false
	}
	t.waits[id] = cancel
	return true
}

func (t *waitTable) remove(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waits, id)
}

func (t *waitTable) cancel(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel := t.waits[id]; cancel != nil {
		cancel()
	}
}

// background runs a request in a goroutine. The next request is read after the goroutine has called
// started, so that requests wait in the order in which they came. Its context ends after
// timeout, if that is not 0, and when the peer cancels it.
func (s *session) background(id uint64, timeout time.Duration, taken place, do func(ctx context.Context, started func())) {
	ctx, cancel := s.ctx, context.CancelFunc(nil)
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	if !s.waits.add(id, cancel) {
		cancel()
		taken.leave()
		s.fail(id, wire.ErrInvalid, 0)
		return
	}
	s.wg.Go(func() {
		var once sync.Once
		started := func() { once.Do(func() { s.started <- struct{}{} }) }
		defer started()
		defer taken.leave()
		defer cancel()
		do(ctx, started)
	})
	<-s.started
}

// end answers a request that ran in the background: put adds the answer.
func (s *session) end(id uint64, put func()) {
	s.waits.remove(id) // before the peer can use the number again
	put()
	s.out.Flush()
}

// A place is a part of a bounded number, which a request in the background takes.
type place struct {
	of *atomic.Int64
	n  int64
}

// enter takes places, and reports whether there are enough.
func (p place) enter(most int) bool {
	if p.of.Add(p.n) <= int64(most) {
		return true
	}
	p.leave()
	return false
}

func (p place) leave() { p.of.Add(-p.n) }
