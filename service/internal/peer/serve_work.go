package peer

import (
	"context"
	"encoding/json"
	"slices"
)

// work serves a request that takes long, in a goroutine.
func (s *session) work(f frame) {
	taken := place{&s.h.working, workParts}
	if !taken.enter(maxWorking) {
		s.h.busy.Add(1)
		s.fail(f.id, ErrBusy, 0)
		return
	}
	d := decoder{b: slices.Clone(f.payload)}
	timeout := d.span()
	s.background(f.id, timeout, taken, func(ctx context.Context, started func()) {
		started()
		answer, err := s.answer(ctx, f.kind, &d)
		s.end(f.id, func() {
			if err != nil {
				s.fail(f.id, err, 0)
			} else {
				s.reply(f.id, answer)
			}
		})
	})
}

// answer returns the answer to a request that takes long.
func (s *session) answer(ctx context.Context, k kind, d *decoder) ([]byte, error) {
	switch k {
	case kindExchange:
		return s.exchange(ctx, d)
	case kindExplain:
		key := d.key()
		if d.failed {
			return nil, errInvalid
		}
		x, err := s.h.cfg.Decider.Explain(ctx, key)
		if err != nil {
			return nil, err
		}
		return json.Marshal(&x)
	case kindTop:
		all, err := s.h.cfg.Decider.Top(ctx, d.count())
		if err != nil {
			return nil, err
		}
		return json.Marshal(all)
	}
	call := s.h.cfg.Calls[d.text()]
	if d.failed || call == nil {
		return nil, ErrUnknown
	}
	b, err := call(ctx, s.peer, d.b)
	if err != nil {
		return nil, callError{err}
	}
	return b, nil
}
