package serve

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// work serves a request that takes long, in a goroutine.
func (s *session) work(f wire.Frame) {
	taken := place{&s.h.working, workParts}
	if !taken.enter(maxWorking) {
		s.h.busy.Add(1)
		s.fail(f.ID, wire.ErrBusy, 0)
		return
	}
	d := wire.Decoder{Rest: slices.Clone(f.Payload)}
	timeout := d.Span()
	s.background(f.ID, timeout, taken, func(ctx context.Context, started func()) {
		started()
		answer, err := s.answer(ctx, f.Kind, &d)
		s.end(f.ID, func() {
			if err != nil {
				s.fail(f.ID, err, 0)
			} else {
				s.reply(f.ID, answer)
			}
		})
	})
}

// answer returns the answer to a request that takes long.
func (s *session) answer(ctx context.Context, k wire.Kind, d *wire.Decoder) ([]byte, error) {
	switch k {
	case wire.KindExchange:
		return s.exchange(ctx, d)
	case wire.KindExplain:
		key := d.Key()
		if d.Failed {
			return nil, wire.ErrInvalid
		}
		x, err := s.h.cfg.Decider.Explain(ctx, key)
		if err != nil {
			return nil, err
		}
		return json.Marshal(&x)
	case wire.KindTop:
		all, err := s.h.cfg.Decider.Top(ctx, d.Count())
		if err != nil {
			return nil, err
		}
		return json.Marshal(all)
	}
	call := s.h.cfg.Calls[d.Text()]
	if d.Failed || call == nil {
		return nil, wire.ErrUnknown
	}
	b, err := call(ctx, s.peer, d.Rest)
	if err != nil {
		return nil, wire.CallError{Err: err}
	}
	return b, nil
}

// exchange answers an exchange.
func (s *session) exchange(ctx context.Context, d *wire.Decoder) ([]byte, error) {
	x := d.Exchange()
	if d.Failed {
		return nil, wire.ErrInvalid
	}
	var got decider.LeafAnswer
	if err := s.h.cfg.Decider.Exchange(ctx, x, &got); err != nil {
		return nil, err
	}
	b, ok := wire.AppendLeafAnswer(nil, x, &got)
	if !ok {
		return nil, wire.ErrTooLarge
	}
	return b, nil
}
