package wire

import (
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

func (d *Decoder) float() float64 { return math.Float64frombits(bits.ReverseBytes64(d.Uvarint())) }

// flagsOf returns a number with the bit i for the condition i.
func flagsOf(conditions ...bool) (flags uint64) {
	for i, set := range conditions {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

// AppendExchange appends an exchange. It reports false if a report is too large.
func AppendExchange(b []byte, x *decider.LeafExchange, timeout time.Duration) (_ []byte, ok bool) {
	b = AppendText(AppendSpan(b, timeout), x.Leaf)
	b = binary.AppendUvarint(b, flagsOf(x.Leave, x.Single, x.Share, x.Unsure, x.Repeat))
	b = AppendText(appendFloat(binary.AppendUvarint(b, uint64(max(x.Held, 0))), x.Keep), x.Tenant)
	b = binary.AppendUvarint(b, uint64(len(x.Reports)))
	for i := range x.Reports {
		r, at := &x.Reports[i], len(b)
		b = appendSigned(AppendText(BeginElement(b), r.Key), int64(r.Used))
		b = binary.AppendUvarint(appendFloat(appendFloat(b, r.Wants), r.Has), flagsOf(r.Done))
		if b, ok = EndElement(b, at); !ok {
			return b, false
		}
	}
	return b, true
}

// Exchange reads an exchange, after its timeout.
func (d *Decoder) Exchange() *decider.LeafExchange {
	x := &decider.LeafExchange{Exchange: leaf.Exchange{Leaf: string(d.bytes())}}
	flags := d.Uvarint()
	x.Leave, x.Single, x.Share, x.Unsure, x.Repeat = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 != 0
	x.Held, x.Keep, x.Tenant = d.Count(), d.float(), string(d.bytes())
	n := d.Count()
	if n > len(d.Rest) { // each takes a byte or more
		d.Fail()
		return x
	}
	x.Reports = make([]leaf.Report, 0, n)
	for range n {
		e := d.Element()
		x.Reports = append(x.Reports, leaf.Report{Key: e.Key(), Used: int(e.signed()), Wants: e.float(), Has: e.float(), Done: e.Uvarint()&1 != 0})
		if e.Failed || x.Reports[len(x.Reports)-1].Used < 0 {
			d.Fail()
			return x
		}
	}
	return x
}

// AppendLeafAnswer appends the answer to an exchange. An assignment has no key if its report has the
// same.
func AppendLeafAnswer(b []byte, x *decider.LeafExchange, a *decider.LeafAnswer) (_ []byte, ok bool) {
	b = binary.AppendUvarint(appendSigned(appendSigned(b, a.TTLMS), a.NextMS), flagsOf(a.Resync))
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.Known)), uint64(max(a.Leaves, 0)))
	b = binary.AppendUvarint(b, uint64(len(a.Watch)))
	for _, key := range a.Watch {
		b = AppendText(b, key)
	}
	b = binary.AppendUvarint(b, uint64(len(a.Assignments)))
	for i := range a.Assignments {
		s, at := &a.Assignments[i], len(b)
		own := i >= len(x.Reports) || s.Key != x.Reports[i].Key
		b = binary.AppendUvarint(BeginElement(b), flagsOf(own, s.Unlimited, s.Learning, s.Contended, s.Error != ""))
		if own {
			b = AppendText(b, s.Key)
		}
		b = appendFloat(appendFloat(b, s.Rate), s.Burst)
		b = appendSigned(appendFloat(appendFloat(b, s.LimitRate), s.LimitBurst), int64(s.Leaves))
		if s.Error != "" {
			b = AppendText(b, s.Error)
		}
		if b, ok = EndElement(b, at); !ok {
			return b, false
		}
	}
	return b, true
}

// LeafAnswer reads what AppendLeafAnswer writes into got.
func (d *Decoder) LeafAnswer(x *decider.LeafExchange, got *decider.LeafAnswer) {
	*got = decider.LeafAnswer{Answer: leaf.Answer{Watch: got.Watch[:0], Assignments: got.Assignments[:0]}}
	got.TTLMS, got.NextMS = d.signed(), d.signed()
	got.Resync = d.Uvarint()&1 != 0
	got.Known, got.Leaves = d.Count(), d.Count()
	for n := d.Uvarint(); n > 0 && !d.Failed; n-- {
		if len(d.Rest) == 0 {
			d.Fail()
			return
		}
		got.Watch = append(got.Watch, string(d.bytes()))
	}
	for n := d.Uvarint(); n > 0 && !d.Failed; n-- {
		if len(d.Rest) == 0 {
			d.Fail()
			return
		}
		e := d.Element()
		got.Assignments = append(got.Assignments, e.assignment(x, len(got.Assignments)))
		d.Failed = d.Failed || e.Failed
	}
}

func (d *Decoder) assignment(x *decider.LeafExchange, i int) (s leaf.Assignment) {
	flags := d.Uvarint()
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
