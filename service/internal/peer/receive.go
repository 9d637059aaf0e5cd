package peer

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// read reads frames until the link ends.
func (l *link) read() error {
	now := time.Duration(0)
	for {
		waits := !l.in.Ready()
		f, err := l.in.Read()
		if err != nil {
			return err
		}
		if waits {
			l.missed.Store(0)
			now = l.client.now()
		}
		if err := l.receive(f, now); err != nil {
			return err
		}
	}
}

// receive handles a frame. Frames of unknown kinds are ignored.
func (l *link) receive(f wire.Frame, now time.Duration) error {
	switch f.Kind {
	case wire.KindAnswer, wire.KindFailure:
		c := l.take(f.ID)
		if c == nil {
			return fmt.Errorf("%w: an answer without a request", wire.ErrInvalid)
		}
		l.bytes.Add(-int64(c.size))
		return l.answer(c, f, now)
	case wire.KindWaits:
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.ID < uint64(len(l.calls)) && l.calls[f.ID] != nil {
			select {
			case l.calls[f.ID].events <- waits:
			default:
			}
		}
	case wire.KindRule:
		return l.rules.Learn(f)
	case wire.KindPong:
		if len(f.Payload) >= 8 {
			l.client.took(time.Since(l.client.epoch) - time.Duration(binary.BigEndian.Uint64(f.Payload)))
		}
	case wire.KindLeave:
		l.leave()
	}
	return nil
}

// answer ends a call with its answer.
func (l *link) answer(c *call, f wire.Frame, now time.Duration) error {
	d := wire.Decoder{Rest: f.Payload}
	if !c.state.CompareAndSwap(pending, answered) {
		if f.Kind == wire.KindAnswer {
			l.undo(c, &d, now)
		}
		c.free()
		return nil
	}
	if f.Kind == wire.KindFailure {
		c.step, c.err = d.Failure()
	} else {
		c.read(&d, now, l.rules)
	}
	var err error
	if d.Failed {
		err = fmt.Errorf("%w: an answer of kind %d", wire.ErrInvalid, c.kind)
		c.err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
	}
	c.events <- done
	return err
}

// undo gives back what a request was given after its caller has left.
func (l *link) undo(c *call, d *wire.Decoder, now time.Duration) {
	var back *call
	switch c.kind {
	case wire.KindDecide, wire.KindWait:
		var v decider.Verdict
		d.Verdict(&v, now, l.rules)
		if !v.OK || v.Grant.ID == "" {
			return
		}
		back = l.client.pool.get(wire.KindSettle)
		back.payload = wire.AppendSettle(nil, c.key, v.Grant.ID, 0)
	case wire.KindAcquire:
		lease := d.Lease()
		back = l.client.pool.get(wire.KindReturn)
		back.payload = wire.AppendReturn(nil, lease.Key, lease.ID, weir.Ignored)
	default:
		return
	}
	back.state.Store(abandoned)
	if d.Failed || l.start(back) != nil {
		back.free()
	}
}

// leave stops further calls, because the peer shuts down.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving || l.err != nil {
		return
	}
	l.leaving = true
	close(l.gone)
}
