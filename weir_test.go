package weir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/retrystep"
)

func TestRejection(t *testing.T) {
	for r, want := range map[weir.Reason]string{
		weir.OverRate: "over_rate", weir.OverLimit: "over_limit", weir.QueueFull: "queue_full",
		weir.Overdue: "overdue", weir.TooLate: "too_late", weir.Closed: "closed", weir.OverBurst: "over_burst",
	} {
		err := fmt.Errorf("asking: %w", &weir.Rejection{Reason: r})
		if !strings.HasSuffix(err.Error(), "rejected: "+want) {
			t.Errorf("%v: want %s", err, want)
		}
		if !errors.Is(err, weir.ErrRejected) {
			t.Errorf("%v: want it to be ErrRejected", err)
		}
		if is := errors.Is(err, context.DeadlineExceeded); is != (r == weir.TooLate) {
			t.Errorf("%v is DeadlineExceeded: %v", err, is)
		}
		if errors.Is(err, context.Canceled) {
			t.Errorf("%v is Canceled: want that to be the caller's own doing only", err)
		}
		if as, ok := errors.AsType[*weir.Rejection](err); !ok || as.Reason != r {
			t.Errorf("%v: %v, %v: want the Rejection itself", err, as, ok)
		}
	}
	if s := weir.Reason(99).String(); s != "unknown" {
		t.Errorf("an unknown reason is %q", s)
	}
	if s := weir.Reason(0).String(); s != "" {
		t.Errorf("no reason is %q", s)
	}
}

func TestOutcome(t *testing.T) {
	var zero weir.Outcome
	for o, want := range map[weir.Outcome]string{
		zero: "ignored", weir.Success: "success", weir.Dropped: "dropped", outcome.TimedOut: "timed_out", outcome.Left: "left", outcome.Late: "late", 99: "ignored",
	} {
		if got := o.String(); got != want {
			t.Errorf("outcome %d: %s: want %s", uint8(o), got, want)
		}
	}
}

func TestZeroDecisionDenies(t *testing.T) {
	if (weir.Decision{}).OK {
		t.Error("it allows")
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err         error
		ended, call weir.Outcome
	}{
		{nil, weir.Success, weir.Success},
		{context.DeadlineExceeded, outcome.Late, outcome.TimedOut},
		{fmt.Errorf("calling: %w", context.DeadlineExceeded), outcome.Late, outcome.TimedOut},
		{context.Canceled, weir.Ignored, outcome.Left},
		{fmt.Errorf("calling: %w", context.Canceled), weir.Ignored, outcome.Left},
		{weir.Reject(weir.OverRate, time.Second), weir.Ignored, weir.Ignored},
		{fmt.Errorf("further down: %w", weir.Reject(weir.OverBurst, weir.Never)), weir.Ignored, weir.Ignored},
		{weir.Reject(weir.Closed, 0), weir.Ignored, weir.Ignored},
		{weir.Reject(weir.Throttled, 0), weir.Ignored, weir.Ignored},
		{weir.Reject(weir.Recovering, 0), weir.Ignored, weir.Ignored},
		{weir.Reject(weir.OverLimit, 0), weir.Dropped, weir.Dropped},
		{fmt.Errorf("further down: %w", &weir.Rejection{Reason: weir.QueueFull}), weir.Dropped, weir.Dropped},
		{weir.Reject(weir.Overdue, 0), weir.Dropped, weir.Dropped},
		{&weir.Rejection{Reason: weir.TooLate}, weir.Dropped, weir.Dropped},
		{errors.Join(errors.New("one failed"), weir.ErrRejected), weir.Dropped, weir.Dropped},
		{errors.New("no such user"), weir.Ignored, weir.Ignored},
		{fmt.Errorf("connecting: %w", syscall.ECONNREFUSED), weir.Dropped, weir.Dropped},
		{fmt.Errorf("reading: %w", os.ErrDeadlineExceeded), weir.Dropped, outcome.TimedOut},
		{fmt.Errorf("query: %w", weir.Dropped.Wrap(errors.New("too many connections"))), weir.Dropped, weir.Dropped},
		{weir.Success.Wrap(errors.New("no rows")), weir.Success, weir.Success},
		{weir.Ignored.Wrap(context.DeadlineExceeded), weir.Ignored, weir.Ignored},
	} {
		if got := weir.OutcomeOf(tt.err); got != tt.ended {
			t.Errorf("%v: ended %v: want %v", tt.err, got, tt.ended)
		}
		ls, notes := diaries("a")
		p, err := ls[0].Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		p.Abandon(tt.err)
		p.Abandon(nil) // only the first counts
		expect(t, notes, "a admit 1", fmt.Sprintf("a 1 back, %v", tt.call))
	}
}

// A diary is a Limiter that notes what happens to it.
type diary struct {
	name   string
	refuse error
	notes  *[]string
}

func (d diary) note(format string, args ...any) {
	*d.notes = append(*d.notes, d.name+" "+fmt.Sprintf(format, args...))
}

func (d diary) Acquire(_ context.Context, n int) (weir.Permit, error) {
	if d.refuse != nil {
		d.note("refuse")
		return weir.Permit{}, d.refuse
	}
	d.note("admit %d", n)
	var owner weir.Owner = d
	return weir.OwnedPermit(&owner, weir.Grant{N: n}), nil
}

func (d diary) Use(g weir.Grant, n int) int {
	d.note("%d becomes %d", g.N, n)
	return n
}

func (d diary) Release(g weir.Grant, o weir.Outcome) { d.note("%d back, %v", g.N, o) }

func diaries(names ...string) (ls []weir.Limiter, notes *[]string) {
	notes = new([]string)
	for _, name := range names {
		ls = append(ls, diary{name: name, notes: notes})
	}
	return ls, notes
}

func expect(t *testing.T, notes *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*notes, want) {
		t.Errorf("%q: want %q", *notes, want)
	}
}

func TestPermit(t *testing.T) {
	ls, notes := diaries("a")
	p, err := ls[0].Acquire(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	p.Use(3) // as acquired
	p.Use(2)
	p.Use(5)
	p.Release(weir.Success)
	p.Release(weir.Dropped) // only the first counts
	p.Use(1)                // nothing is held any more
	expect(t, notes, "a admit 3", "a 3 becomes 2", "a 2 becomes 5", "a 5 back, success")
}

func TestZeroPermit(t *testing.T) {
	var p weir.Permit
	p.Use(1)
	p.Release(weir.Success)
}

// A negative cost is a bug of the caller. It is told, and still holds what it
// held.
func TestUseOfANegativeCost(t *testing.T) {
	ls, notes := diaries("a")
	p, err := ls[0].Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*weir.Permit{"held": &p, "zero": new(weir.Permit)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			p.Use(-1)
		}()
	}
	p.Release(weir.Success)
	expect(t, notes, "a admit 2", "a 2 back, success")
}

func TestChain(t *testing.T) {
	ls, notes := diaries("a", "b")
	p, err := weir.Chain(ls...).Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	p.Use(0)
	p.Use(1)
	p.Release(weir.Dropped)
	p.Release(weir.Success)
	expect(t, notes, "a admit 2", "b admit 2", "a 2 becomes 0", "b 2 becomes 0", "a 0 becomes 1", "b 0 becomes 1",
		"b 1 back, dropped", "a 1 back, dropped")
}

func TestChainGivesBackWhatALaterOneRefuses(t *testing.T) {
	ls, notes := diaries("a", "b", "c")
	no := &weir.Rejection{Reason: weir.QueueFull}
	ls[2] = diary{name: "c", refuse: no, notes: notes}
	if _, err := weir.Chain(ls...).Acquire(t.Context(), 1); err != no {
		t.Errorf("%v: want the refusal itself", err)
	}
	expect(t, notes, "a admit 1", "b admit 1", "c refuse", "a 1 becomes 0", "b 1 becomes 0", "b 0 back, ignored", "a 0 back, ignored")
}

func TestChainRefusedByTheFirst(t *testing.T) {
	ls, notes := diaries("a", "b")
	ls[0] = diary{name: "a", refuse: context.Canceled, notes: notes}
	p, err := weir.Chain(ls...).Acquire(t.Context(), 1)
	if err != context.Canceled {
		t.Errorf("%v: want the context's own error, bare", err)
	}
	if p != (weir.Permit{}) {
		t.Error("want the zero Permit")
	}
	expect(t, notes, "a refuse")
}

// One chain serves many callers: each permit knows only its own.
func TestChainHasManyCallers(t *testing.T) {
	ls, notes := diaries("a", "b")
	c := weir.Chain(weir.Chain(ls[0]), ls[1]) // a link may be a chain itself
	p, err1 := c.Acquire(t.Context(), 1)
	q, err2 := c.Acquire(t.Context(), 2)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	p.Release(weir.Success)
	q.Release(weir.Dropped)
	expect(t, notes, "a admit 1", "b admit 1", "a admit 2", "b admit 2",
		"b 1 back, success", "a 1 back, success", "b 2 back, dropped", "a 2 back, dropped")
}

func TestEmptyChain(t *testing.T) {
	p, err := weir.Chain().Acquire(t.Context(), 1)
	if err != nil {
		t.Error(err)
	}
	p.Use(2)
	p.Release(weir.Success)
}

func TestDo(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "the caller's")
	for _, tt := range []struct {
		err  error
		note string
	}{
		{nil, "a 1 back, success"},
		{context.DeadlineExceeded, "a 1 back, late"},
		{&weir.Rejection{Reason: weir.Overdue}, "a 1 back, dropped"},
		{errors.New("no such user"), "a 1 back, ignored"},
	} {
		ls, notes := diaries("a")
		err := weir.Do(ctx, ls[0], func(ctx context.Context) error {
			expect(t, notes, "a admit 1")
			if ctx.Value(key{}) == nil {
				t.Error("the work has another context")
			}
			return tt.err
		})
		if err != tt.err {
			t.Errorf("%v: want the work's own error, %v", err, tt.err)
		}
		expect(t, notes, "a admit 1", tt.note)
	}
}

func TestDoValue(t *testing.T) {
	ls, notes := diaries("a")
	work := func(context.Context) (string, error) { return "partial", context.DeadlineExceeded }
	if v, err := weir.DoValue(t.Context(), ls[0], work); v != "partial" || err != context.DeadlineExceeded {
		t.Errorf("%q, %v: want what the work returned", v, err)
	}
	expect(t, notes, "a admit 1", "a 1 back, late")

	ls, notes = diaries("a")
	no := &weir.Rejection{Reason: weir.OverLimit}
	ls[0] = diary{name: "a", refuse: no, notes: notes}
	if v, err := weir.DoValue(t.Context(), ls[0], work); v != "" || err != no {
		t.Errorf("%q, %v: want the zero value and the rejection", v, err)
	}
	expect(t, notes, "a refuse")

	ls, notes = diaries("a")
	defer func() {
		if recover() == nil {
			t.Error("want the panic")
		}
		expect(t, notes, "a admit 1", "a 1 back, ignored")
	}()
	_, _ = weir.DoValue(t.Context(), ls[0], func(context.Context) (int, error) { panic("a bug") })
}

func TestDoRefused(t *testing.T) {
	ls, notes := diaries("a")
	no := &weir.Rejection{Reason: weir.OverLimit}
	ls[0] = diary{name: "a", refuse: no, notes: notes}
	err := weir.Do(t.Context(), ls[0], func(context.Context) error {
		t.Error("it ran all the same")
		return nil
	})
	if err != no {
		t.Errorf("%v: want the refusal itself", err)
	}
	expect(t, notes, "a refuse")
}

func TestDoPanics(t *testing.T) {
	ls, notes := diaries("a")
	defer func() {
		if v := recover(); v != "a bug" {
			t.Errorf("recovered %v: want the panic itself", v)
		}
		expect(t, notes, "a admit 1", "a 1 back, ignored")
	}()
	_ = weir.Do(t.Context(), ls[0], func(context.Context) error { panic("a bug") })
}

func TestRejectIsExact(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 244_140, 244_141, time.Second, 13 * time.Second, time.Hour, weir.Never - 1, weir.Never} {
		for _, why := range []weir.Reason{weir.OverRate, weir.TooLate, 200} {
			if r := weir.Reject(why, d); *r != (weir.Rejection{Reason: why, RetryAfter: d}) {
				t.Errorf("%v, %v: %+v", why, d, r)
			}
		}
	}
	if r := weir.Reject(weir.OverRate, -1); r.RetryAfter != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRejectOfSharedWaits(t *testing.T) {
	d := time.Duration(1)
	if n := testing.AllocsPerRun(1000, func() {
		d += d / 8
		if weir.Reject(weir.OverRate, retrystep.Up(d)).Reason != weir.OverRate {
			t.Error("another reason")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if r := weir.Reject(99, time.Second); r.Reason != 99 || r.RetryAfter != time.Second {
		t.Errorf("%+v: want the unknown reason kept", r)
	}
}

type panicking struct{}

func (panicking) Acquire(context.Context, int) (weir.Permit, error) { panic("a bug") }

// A limiter that panics leaves nothing behind in those before it.
func TestChainPanic(t *testing.T) {
	var notes []string
	defer func() {
		want := []string{"a admit 1", "a 1 becomes 0", "a 0 back, ignored"}
		if recover() == nil || !slices.Equal(notes, want) {
			t.Errorf("%q: want %q, and the panic", notes, want)
		}
	}()
	_, _ = weir.Chain(diary{name: "a", notes: &notes}, panicking{}).Acquire(t.Context(), 1)
}

// The table of shared Rejections, beside an allocation for each.
func BenchmarkReject(b *testing.B) {
	var err error
	for name, reject := range map[string]func(why weir.Reason, d time.Duration) *weir.Rejection{
		"table": weir.Reject,
		"allocation": func(why weir.Reason, d time.Duration) *weir.Rejection {
			return &weir.Rejection{Reason: why, RetryAfter: d}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for d := time.Duration(1); b.Loop(); d = d*3 + 1 {
				err = reject(weir.OverRate, d)
			}
		})
	}
	_ = err
}

// The release of a Permit is called once, with the first outcome.
func TestNewPermit(t *testing.T) {
	var told []weir.Outcome
	p := weir.NewPermit(func(o weir.Outcome) { told = append(told, o) })
	p.Use(3)
	p.Report(weir.Success)
	if len(told) != 0 {
		t.Errorf("%v before the release", told)
	}
	p.Release(weir.Dropped)
	p.Release(weir.Success)
	if !slices.Equal(told, []weir.Outcome{weir.Dropped}) {
		t.Errorf("%v: want dropped", told)
	}
}
