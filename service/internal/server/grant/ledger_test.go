package grant

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A book is a Ledger at an instant.
type book struct {
	*Ledger
	t   *testing.T
	now time.Duration
}

func newBook(t *testing.T, pages int) *book {
	b := &book{NewLedger(), t, time.Hour}
	b.maxPages = pages
	return b
}

func (b *book) grant() string {
	return string(b.AppendGrantID(nil, decider.Grant{N: 1, At: b.now, Rules: 5}, "a"))
}

// grants seals n grants, and settles the last.
func (b *book) grants(n int) (last string) {
	b.sealed.Add(uint64(n - 1))
	last = b.grant()
	b.settles("last", last, true)
	return last
}

func (b *book) settles(what, id string, want bool) {
	b.t.Helper()
	if _, _, err := b.Redeem(id, "a", []uint64{5}, b.now); (err == nil) != want {
		b.t.Errorf("%s: %v: want it to be settled: %t", what, err, want)
	}
}

// A page is dropped when its grants are too old, and not before.
func TestPagesExpire(t *testing.T) {
	b := newBook(t, MaxPages)
	for range 600 { // 5000 grants a second, for ten hours
		b.now += time.Minute
		old, settled := b.grant(), b.grants(300_000)
		b.settles("again", settled, false)
		b.now += decider.GrantLife
		b.settles("after its life", settled, false)
		b.settles("in its life", old, true)
		b.settles("and again", old, false)
		b.now -= decider.GrantLife
	}
	if n, most := len(b.pages), 600*300_000/10>>pageBits+600; n > most {
		t.Errorf("%d pages, at most %d", n, most)
	}
	if len(b.marks) > 130 {
		t.Errorf("%d marks", len(b.marks))
	}
}

// If the pages are used up, the oldest grants cannot be settled any more: Life tells how
// long grants can be.
func TestPagesAreBounded(t *testing.T) {
	b := newBook(t, 10)
	ids := map[time.Duration]string{}
	for range 20 {
		ids[b.now] = b.grant()
		b.grants(1 << pageBits)
		b.now += 2 * time.Minute
	}
	life := b.Life(b.now)
	if len(b.pages) != 10 || life < 14*time.Minute || life > 20*time.Minute {
		t.Errorf("%d pages, a life of %v", len(b.pages), life)
	}
	for at, id := range ids {
		if age := b.now - at; age < life {
			b.settles(age.String(), id, true)
		} else if age > life+4*time.Minute {
			b.settles(age.String(), id, false)
		}
		b.settles("twice", id, false)
	}
}

// An id is read long after the bits of its instant and of its number have come again.
func TestIDsDoNotRecur(t *testing.T) {
	b := newBook(t, MaxPages)
	id := b.grant()
	b.now += (1 << timeBits) * time.Millisecond
	b.settles("its instant has come again", id, false)
	b.now -= (1 << timeBits) * time.Millisecond
	b.sealed.Add(1 << numberBits)
	b.settles("its number has come again", id, false)
}

// A Ledger that continues from a State remembers what was settled. After a crash it gives
// no number twice.
func TestLedgerIsRestored(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		b := newBook(t, MaxPages)
		settled, open := b.grants(100_000), b.grant()
		pages, state := slices.Collect(b.Pages()), b.State()
		if !state.Valid() {
			t.Error("not valid")
		}
		lost := b.grant()
		next := newBook(t, MaxPages)
		next.Restore(state, crashed)
		for _, p := range pages {
			next.RestorePage(p)
		}
		next.settles("settled", settled, false)
		next.settles("open", open, true)
		fresh := next.grant()
		next.settles("since then", fresh, true)
		next.settles("lost", lost, crashed) // else there is none
	}
}

func BenchmarkAppendGrantID(b *testing.B) {
	l, buf := NewLedger(), make([]byte, 0, 64)
	for b.Loop() {
		l.AppendGrantID(buf, decider.Grant{N: 1, At: time.Hour, Rules: 5}, "user:123456")
	}
}

func BenchmarkRedeem(b *testing.B) {
	l := NewLedger()
	for b.Loop() {
		id := l.AppendGrantID(nil, decider.Grant{N: 1, At: time.Hour, Rules: 5}, "user:123456")
		if _, _, err := l.Redeem(string(id), "user:123456", []uint64{5}, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
