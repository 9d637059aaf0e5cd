package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// errInvalid ends a link whose peer sends what the protocol does not allow.
var errInvalid = errors.New("it sends frames that are not valid")

// read reads frames until the link ends.
func (l *link) read() error {
	now := time.Duration(0)
	for {
		waits := !l.in.ready()
		f, err := l.in.read()
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
func (l *link) receive(f frame, now time.Duration) error {
	switch f.kind {
	case kindAnswer, kindFailure:
		c := l.take(f.id)
		if c == nil {
			return fmt.Errorf("%w: an answer without a request", errInvalid)
		}
		l.bytes.Add(-int64(c.size))
		return l.answer(c, f, now)
	case kindWaits:
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.id < uint64(len(l.calls)) && l.calls[f.id] != nil {
			select {
			case l.calls[f.id].events <- waits:
			default:
			}
		}
	case kindRule:
		return l.learnRule(f)
	case kindPong:
		if len(f.payload) >= 8 {
			l.client.took(time.Since(l.client.epoch) - time.Duration(binary.BigEndian.Uint64(f.payload)))
		}
	case kindLeave:
		l.leave()
	}
	return nil
}

// answer ends a call with its answer.
func (l *link) answer(c *call, f frame, now time.Duration) error {
	d := decoder{b: f.payload}
	if !c.state.CompareAndSwap(pending, answered) {
		if f.kind == kindAnswer {
			l.undo(c, &d, now)
		}
		c.free()
		return nil
	}
	if f.kind == kindFailure {
		c.step, c.err = d.failure()
	} else {
		c.read(&d, now, l.rules)
	}
	var err error
	if d.failed {
		err = fmt.Errorf("%w: an answer of kind %d", errInvalid, c.kind)
		c.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.events <- done
	return err
}

// undo gives back what a request was given after its caller has left.
func (l *link) undo(c *call, d *decoder, now time.Duration) {
	var back *call
	switch c.kind {
	case kindDecide, kindWait:
		var v decider.Verdict
		d.verdict(&v, now, l.rules)
		if !v.OK || v.Grant.ID == "" {
			return
		}
		back = l.client.pool.get(kindSettle)
		back.payload = appendSettle(nil, c.key, v.Grant.ID, 0)
	case kindAcquire:
		lease := d.lease()
		back = l.client.pool.get(kindReturn)
		back.payload = appendReturn(nil, lease.Key, lease.ID, weir.Ignored)
	default:
		return
	}
	back.state.Store(abandoned)
	if d.failed || l.start(back) != nil {
		back.free()
	}
}

// learnRule learns the number of a rule.
func (l *link) learnRule(f frame) error {
	if f.id > uint64(len(l.rules)) || f.id >= maxNumber {
		return fmt.Errorf("%w: a rule with the number %d", errInvalid, f.id)
	}
	rule, err := readRule(f.payload)
	if err != nil {
		return err
	}
	if f.id == uint64(len(l.rules)) {
		l.rules = append(l.rules, rule)
	} else {
		l.rules[f.id] = rule
	}
	return nil
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
