package peer

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// appendFloat appends a number: short if it is a whole one.
func appendFloat(b []byte, f float64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(f)))
}

func (d *decoder) float() float64 { return math.Float64frombits(bits.ReverseBytes64(d.uvarint())) }

// flagsOf returns a number with the bit i for the condition i.
func flagsOf(conditions ...bool) (flags uint64) {
	for i, set := range conditions {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

// appendExchange appends an exchange. It reports false if a report is too large.
func appendExchange(b []byte, x *decider.LeafExchange, timeout time.Duration) (_ []byte, ok bool) {
	b = appendText(appendSpan(b, timeout), x.Leaf)
	b = binary.AppendUvarint(b, flagsOf(x.Leave, x.Single, x.Share, x.Unsure))
	b = appendText(appendFloat(binary.AppendUvarint(b, uint64(max(x.Held, 0))), x.Keep), x.Tenant)
	b = binary.AppendUvarint(b, uint64(len(x.Reports)))
	for i := range x.Reports {
		r, at := &x.Reports[i], len(b)
		b = appendSigned(appendText(beginElement(b), r.Key), int64(r.Used))
		b = binary.AppendUvarint(appendFloat(appendFloat(b, r.Wants), r.Has), flagsOf(r.Done))
		if b, ok = endElement(b, at); !ok {
			return b, false
		}
	}
	return b, true
}

// exchange reads an exchange, after its timeout.
func (d *decoder) exchange() *decider.LeafExchange {
	x := &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: string(d.bytes())}}
	flags := d.uvarint()
	x.Leave, x.Single, x.Share, x.Unsure = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	x.Held, x.Keep, x.Tenant = d.count(), d.float(), string(d.bytes())
	n := d.count()
	if n > len(d.b) { // each takes a byte or more
		d.fail()
		return x
	}
	x.Reports = make([]leaf.Report, 0, n)
	for range n {
		e := d.element()
		x.Reports = append(x.Reports, leaf.Report{Key: e.key(), Used: int(e.signed()), Wants: e.float(), Has: e.float(), Done: e.uvarint()&1 != 0})
		if e.failed || x.Reports[len(x.Reports)-1].Used < 0 {
			d.fail()
			return x
		}
	}
	return x
}

// appendLeafAnswer appends the answer to an exchange. An assignment has no key if its report has the
// same.
func appendLeafAnswer(b []byte, x *decider.LeafExchange, a *decider.LeafAnswer) (_ []byte, ok bool) {
	b = binary.AppendUvarint(appendSigned(appendSigned(b, a.TTLMS), a.NextMS), flagsOf(a.Resync))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.Known)), uint64(max(a.Leaves, 0)))
	b = binary.AppendUvarint(b, uint64(len(a.Watch)))
	for _, key := range a.Watch {
		b = appendText(b, key)
	}
	b = binary.AppendUvarint(b, uint64(len(a.Assignments)))
	for i := range a.Assignments {
		s, at := &a.Assignments[i], len(b)
		own := i >= len(x.Reports) || s.Key != x.Reports[i].Key
		b = binary.AppendUvarint(beginElement(b), flagsOf(own, s.Unlimited, s.Learning, s.Contended, s.Error != ""))
		if own {
			b = appendText(b, s.Key)
		}
		b = appendFloat(appendFloat(b, s.Rate), s.Burst)
		b = appendSigned(appendFloat(appendFloat(b, s.LimitRate), s.LimitBurst), int64(s.Leaves))
		if s.Error != "" {
			b = appendText(b, s.Error)
		}
		if b, ok = endElement(b, at); !ok {
			return b, false
		}
	}
	return b, true
}

// leafAnswer reads what appendLeafAnswer writes into got.
func (d *decoder) leafAnswer(x *decider.LeafExchange, got *decider.LeafAnswer) {
	*got = decider.LeafAnswer{Answer: leaf.Answer{Watch: got.Watch[:0], Assignments: got.Assignments[:0]}}
	got.TTLMS, got.NextMS = d.signed(), d.signed()
	got.Resync = d.uvarint()&1 != 0
	got.Known, got.Leaves = d.count(), d.count()
	for n := d.uvarint(); n > 0 && !d.failed; n-- {
		if len(d.b) == 0 {
			d.fail()
			return
		}
		got.Watch = append(got.Watch, string(d.bytes()))
	}
	for n := d.uvarint(); n > 0 && !d.failed; n-- {
		if len(d.b) == 0 {
			d.fail()
			return
		}
		e := d.element()
		got.Assignments = append(got.Assignments, e.assignment(x, len(got.Assignments)))
		d.failed = d.failed || e.failed
	}
}

func (d *decoder) assignment(x *decider.LeafExchange, i int) (s leaf.Assignment) {
	flags := d.uvarint()
	switch {
	case flags&1 != 0:
		s.Key = string(d.bytes())
	case i < len(x.Reports):
		s.Key = x.Reports[i].Key
	}
	s.Unlimited, s.Learning, s.Contended = flags&2 != 0, flags&4 != 0, flags&8 != 0
	s.Rate, s.Burst, s.LimitRate, s.LimitBurst = d.float(), d.float(), d.float(), d.float()
	if s.Leaves = int(d.signed()); flags&16 != 0 {
		s.Error = string(d.bytes())
	}
	return s
}

// Exchange shares rates out among leaves: see decider.Decider.
func (c *Client) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	b, ok := appendExchange(nil, x, timeLeft(ctx))
	if !ok {
		return ErrTooLarge
	}
	b, _, err := c.request(ctx, kindExchange, b, nil)
	if err != nil {
		return err
	}
	d := decoder{b: b}
	d.leafAnswer(x, got)
	return d.check(nil)
}

// exchange answers an exchange.
func (s *session) exchange(ctx context.Context, d *decoder) ([]byte, error) {
	x := d.exchange()
	if d.failed {
		return nil, errInvalid
	}
	var got decider.LeafAnswer
	if err := s.h.cfg.Decider.Exchange(ctx, x, &got); err != nil {
		return nil, err
	}
	b, ok := appendLeafAnswer(nil, x, &got)
	if !ok {
		return nil, ErrTooLarge
	}
	return b, nil
}
