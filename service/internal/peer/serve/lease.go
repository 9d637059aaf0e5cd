package serve

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func (s *session) settle(id uint64, d *wire.Decoder) {
	key, grantID, n := d.Text(), d.Text(), d.Count()
	if d.Failed {
		s.invalid(id)
		return
	}
	done, err := s.h.cfg.Decider.Settle(s.ctx, strings.Clone(key), strings.Clone(grantID), n)
	if err != nil {
		s.fail(id, err, 0)
		return
	}
	s.reply(id, binary.AppendUvarint(binary.AppendUvarint(nil, uint64(done.Was)), uint64(done.Charged)))
}

// acquire takes a lease: in a goroutine if the request may wait.
func (s *session) acquire(id uint64, d *wire.Decoder) {
	req, timeout, tells := d.LeaseRequest()
	if d.Failed || req.N < 1 {
		s.invalid(id)
		return
	}
	req.Key = strings.Clone(req.Key)
	if !req.Wait {
		l, err := s.h.cfg.Decider.Acquire(s.ctx, req)
		s.replyLease(id, &l, err)
		return
	}
	taken := place{&s.h.waiting, 1}
	if !taken.enter(s.h.cfg.MaxWaiting) {
		s.h.busy.Add(1)
		s.fail(id, weir.Reject(weir.QueueFull, 0), 0)
		return
	}
	s.background(id, timeout, taken, func(ctx context.Context, started func()) {
		req.OnWait = func() { s.tellWait(id, tells); started() }
		l, err := s.h.cfg.Decider.Acquire(ctx, req)
		started()
		if s.ctx.Err() != nil { // the peer is gone
			if err == nil {
				_ = s.h.cfg.Decider.Return(context.WithoutCancel(ctx), l.Key, l.ID, weir.Ignored)
			}
			return
		}
		s.end(id, func() { s.replyLease(id, &l, err) })
	})
}

func (s *session) replyLease(id uint64, l *decider.Lease, err error) {
	if err != nil {
		s.fail(id, err, l.Step)
		return
	}
	s.reply(id, wire.AppendLease(nil, l))
}

func (s *session) renew(id uint64, d *wire.Decoder) {
	key, lease, ttl := d.Text(), d.Text(), d.Span()
	if d.Failed {
		s.invalid(id)
		return
	}
	l, err := s.h.cfg.Decider.Renew(s.ctx, strings.Clone(key), strings.Clone(lease), ttl)
	s.replyLease(id, &l, err)
}

// giveBack ends a lease.
func (s *session) giveBack(id uint64, d *wire.Decoder) {
	key, lease, o := d.Text(), d.Text(), weir.Outcome(d.Octet())
	if d.Failed {
		s.invalid(id)
		return
	}
	if err := s.h.cfg.Decider.Return(s.ctx, strings.Clone(key), strings.Clone(lease), o); err != nil {
		s.fail(id, err, 0)
		return
	}
	s.reply(id, nil)
}
