package redisscript

import (
	"fmt"
	"time"
)

// A Take asks for tokens of one bucket, or counts events in one window: what follows says
// tokens for both. The zero Take looks.
type Take struct {
	// N is how many tokens to take. If zero, the bucket is only looked at. It denies if it is
	// in debt; a ClockWindow denies if it has counted more than its limit, and other windows
	// do not deny. If less than zero, tokens that a Take took are given back, which is always
	// granted.
	N int
	// Least is how many tokens to take at least, if there are fewer than N: N for all or
	// nothing.
	Least int
	// Taken is Reply.Time of the Take that gave the tokens, which may be rounded down to a
	// millisecond. If zero, it is now. The bucket is then as if the tokens had not been taken: it
	// misses the refill that a fuller bucket would have had no room for. A window that has ended is
	// left as it is.
	Taken time.Duration
	// Remain is how many tokens of that Take are not given back.
	Remain int
	// Settled says that tokens of the Take may be given back later. The bucket then remembers
	// when they were taken. Windows remember that anyway.
	Settled bool
	// Ahead is for how long before they are refilled tokens may be taken. Windows have no such
	// tokens.
	Ahead time.Duration
	// Debt is how many tokens may be taken that the bucket does not hold.
	Debt int
	// Spare is how many tokens the bucket must hold after the Take; if zero, a look asks for none. With Spare, a look
	// at any window denies if there are fewer.
	Spare int
	// Most is the greatest Ahead or Debt, as a time to refill, of any call for this bucket. A
	// state that owes more is of another quota, or comes from a clock that was ahead, and is
	// set to this. If less than zero, any state counts. Windows do not use it.
	Most time.Duration
	// Soft lets other buckets decide: if not even Least tokens are available, the call takes
	// none of this bucket, and is granted nevertheless.
	Soft bool
}

// Args appends the arguments of the script for one key. The keys of a call must differ, and a
// key must always be used with the same kind of Quota. It panics if a window is to be taken
// from Ahead of time.
func (q *Quota) Args(args []any, t *Take) []any {
	least := t.Least
	if t.Soft {
		least = -1 - least
	}
	if q.kind != 0 {
		if t.Ahead > 0 {
			panic("redisscript: a reservation in a window")
		}
		limit := q.events(t)
		switch {
		case t.N < 0:
			limit, least = int64(t.Taken/time.Microsecond), t.Remain
		case t.N == 0 && t.Spare == 0 && q.kind != ClockWindow:
			limit = maxUnits // such a window does not deny
		}
		return append(args, 0, q.period, limit, int(q.kind), t.N, least)
	}
	limit, most := q.most(t), int64(1<<60)
	if t.Most >= 0 {
		most = q.full*q.token + q.units(t.Most)
	}
	most = max(limit, most)
	switch {
	case t.N < 0:
		return append(args, q.rate, q.token, int64(t.Taken/time.Microsecond), most, t.N, t.Remain)
	case t.Settled:
		return append(args, q.rate, q.token, limit, most, t.N, fmt.Sprintf("%d/%d", least, q.span()))
	}
	return append(args, q.rate, q.token, limit, most, t.N, least)
}

// spans is how many groups of takes last for as long as a bucket takes to fill.
const spans = 16

// span returns the microseconds of a group of takes.
func (q *Quota) span() int64 { return max(q.full*q.token/q.rate/spans, 1000) }

// most returns how many units a bucket may owe after the Take. A look does not ask for tokens,
// so a separate limit does not matter.
func (q *Quota) most(t *Take) int64 {
	limit := q.limit
	if t.N == 0 && t.Least == 0 && t.Spare == 0 {
		limit = q.full
	}
	return (limit-int64(t.Spare))*q.token + q.units(t.Ahead) + q.cost(max(t.Debt, 0))
}
