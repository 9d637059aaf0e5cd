package pacing

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/ratelimitfield"
)

const s, ms = time.Second, time.Millisecond

// An answer that was overtaken says less than the one before it. It is not for
// long that this cannot be told.
func TestOfAnswersUnderWayTogetherTheLeastCounts(t *testing.T) {
	for _, test := range []struct{ second, next, want time.Duration }{{100 * ms, 100 * ms, 9 * s}, {s, s, s}} {
		p := Pacer{MaxHold: time.Hour}
		one, two := p.Send(0), p.Send(0)
		says := func(at time.Duration, number uint64, r int64) {
			p.Answer(at, &Answer{Number: number, Limits: []ratelimitfield.ServiceLimit{{Name: "a", Remaining: r, Reset: 9*s - at}}}, 0)
		}
		says(0, one, 1)
		says(test.second, two, 5)
		if at := max(p.Next(test.next), test.next); at != test.want {
			t.Errorf("after %v: the next goes at %v: want %v", test.second, at, test.want)
		}
	}
}

// Those in flight have used units that were given back since.
func TestWhatIsInFlightCountsAtAKnownRate(t *testing.T) {
	p := Pacer{MaxHold: time.Hour}
	var first uint64
	for i := range 4 {
		if n := p.Send(0); i == 0 {
			first = n
		}
	}
	limits := []ratelimitfield.ServiceLimit{{Name: "a", Remaining: 1, Reset: s}}
	p.Answer(s, &Answer{Number: first, Limits: limits, Policy: []string{`"a";q=10;w=1`}}, 0)
	if at := p.Next(s); at != 1300*ms {
		t.Errorf("one is left and three are in flight: the next goes at %v", at)
	}
}

// What is taken back did not count in what was heard of a later request.
func TestOnlyWhatCountsIsTakenBack(t *testing.T) {
	p := Pacer{MaxHold: time.Hour}
	one, two := p.Send(0), p.Send(0)
	p.Answer(0, &Answer{Number: two, Limits: []ratelimitfield.ServiceLimit{{Name: "a", Remaining: 1, Reset: s}}}, 0)
	p.Cancel(0, one)
	p.Send(0)
	if at := p.Next(0); at != s {
		t.Errorf("one was left, and after it is sent the next may go at %v", at)
	}
}

func TestLimitsBeyondSixteenAreNotRemembered(t *testing.T) {
	p := Pacer{MaxHold: time.Hour}
	for i := range maxLimits + 1 {
		n := p.Send(0)
		p.Answer(0, &Answer{Number: n, Limits: []ratelimitfield.ServiceLimit{{Name: fmt.Sprint(i), Remaining: 100, Reset: s}}}, 0)
	}
	if n := len(p.limits); n != maxLimits {
		t.Errorf("%d", n)
	}
	n := p.Send(2 * s)
	p.Answer(2*s, &Answer{Number: n, Limits: []ratelimitfield.ServiceLimit{{Name: "new", Remaining: 0, Reset: s}}}, 0)
	if at := p.Next(2 * s); at != 3*s {
		t.Errorf("what is over makes no place: %v", at)
	}
}

// Only answers to requests that were sent after a wait show that the server
// has recovered. The ninth lifts the pacing.
func TestGoodAnswersHalveTheGap(t *testing.T) {
	p := Pacer{MaxHold: time.Hour}
	before := p.Send(0)
	first := p.Send(0)
	p.Answer(0, &Answer{Number: first, Overload: true, Refused: true, Waits: true, After: s}, 0)
	now := s
	for n := range 9 {
		number := p.Send(now)
		p.Answer(now, &Answer{Number: before}, 0)
		p.Answer(now, &Answer{}, 0)
		if gap, want := p.Next(now)-now, firstGap>>n; gap != want {
			t.Errorf("after %d answers the next request waits %v: want %v", n, gap, want)
		}
		now = p.Next(now)
		p.Answer(now, &Answer{Number: number}, 0)
	}
	if p.Send(now); p.Next(now) > now {
		t.Errorf("a request waits %v after nine good answers", p.Next(now)-now)
	}
}

// The Pacer reports the reason of the wait that ends last.
func TestReason(t *testing.T) {
	for _, tt := range []struct {
		quota, busy time.Duration
		want        weir.Reason
	}{
		{10 * s, 0, weir.OverRate},
		{0, 10 * s, weir.Throttled},
		{10 * s, 20 * s, weir.Throttled},
		{20 * s, 10 * s, weir.OverRate},
		{weir.Never, 0, weir.OverRate},
	} {
		p := Pacer{MaxHold: weir.Never}
		p.Answer(0, &Answer{Overload: true, Refused: true, Waits: true, After: tt.quota}, 0)
		p.Answer(0, &Answer{Overload: true, Busy: true, Waits: true, After: tt.busy}, 0)
		o, at := p.Opens(0), min(max(tt.quota, tt.busy), MaxWait)
		if o.At != at || o.Reason != tt.want || p.Reason() != tt.want {
			t.Errorf("%v and %v: %+v, %v: want %v, %v", tt.quota, tt.busy, o, p.Reason(), at, tt.want)
		}
	}
}

// A good answer ends the wait for an overloaded server, and leaves that for a
// quota.
func TestQuotaOutlivesOverload(t *testing.T) {
	p := Pacer{MaxHold: time.Hour}
	p.Answer(0, &Answer{Overload: true, Refused: true, Waits: true, After: 10 * s}, 0)
	p.Answer(0, &Answer{Overload: true, Busy: true, Waits: true, After: 20 * s}, 0)
	p.Answer(s, &Answer{}, 0)
	if at := p.Next(s); at != 10*s {
		t.Errorf("the next request is sent at %v", at)
	}
}

// A wait is prolonged at random, by up to a tenth and a second at most.
func TestSpread(t *testing.T) {
	for _, tt := range []struct{ after, want time.Duration }{{5 * s, 5250 * ms}, {60 * s, 60500 * ms}} {
		p := Pacer{MaxHold: time.Hour}
		p.Answer(0, &Answer{Overload: true, Busy: true, Waits: true, After: tt.after}, 0.5)
		if at := p.Next(0); at != tt.want {
			t.Errorf("%v ends at %v: want %v", tt.after, at, tt.want)
		}
	}
}
