// Package grant issues the ids of grants, and remembers which were settled.
package grant

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/decider"
)

const (
	// pageBits is how many bits of a number tell the grants of a page apart.
	pageBits = 15
	// MaxPages bounds the pages. With them, 134 million grants an hour can be settled for
	// all of GrantLife. If there are more, the time is shorter: see Life.
	MaxPages = 1 << 12
	// markEvery is the time between two marks.
	markEvery = time.Minute
)

// A page has a bit for each grant with consecutive numbers, which is set if the grant was
// settled.
type page [PageWords]uint64

// PageWords is the number of words of a Page.
const PageWords = 1 << pageBits / 64

// A Mark is the number of grants that were sealed before an instant.
type Mark struct {
	At     time.Duration
	Number uint64
}

// A Ledger seals and reads the ids of grants without remembering each grant: an
// id states its instant, number and cost under a seal that also covers the key and
// the rules. For each page of grants of which one was settled, it remembers which were.
type Ledger struct {
	secret   siphash.Key
	sealed   atomic.Uint64 // grants so far, which are numbered from 1
	maxPages int

	mu    sync.Mutex // guards what follows
	pages map[uint64]*page
	marks []Mark // since the oldest grant that can be settled, in order
	floor uint64 // grants with lower numbers cannot be settled any more
}

// NewLedger returns a Ledger with a random secret.
func NewLedger() *Ledger {
	return &Ledger{secret: siphash.New(), maxPages: MaxPages, pages: map[uint64]*page{}}
}

// An id has the low bits of its instant in milliseconds, which recur after twice
// GrantLife, and of its number. The seal covers all bits.
const (
	timeBits   = 23
	numberBits = 60 - timeBits
)

// AppendGrantID appends a new id: see decider.Decider.
func (l *Ledger) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	ms, number := uint64(g.At/time.Millisecond), l.sealed.Add(1)
	stamp := ms&(1<<timeBits-1)<<numberBits | number&(1<<numberBits-1)
	return appendID(b, stamp, seal(l.secret, ms, number, g.N, g.Rules, key), g.N)
}

// latest returns the largest number up to most with the same low bits as part.
func latest(most, part uint64, bits int) uint64 { return most - (most-part)&(1<<bits-1) }

// appendID writes a UUID: 60 bits are the stamp, and 62 are the seal.
func appendID(b []byte, stamp, seal uint64, n int) []byte {
	first, second := stamp<<4&^0xffff|8<<12|stamp&0xfff, 1<<63|seal
	b = binary.BigEndian.AppendUint64(b, hexadecimal(first>>32))
	middle := hexadecimal(first)
	b = binary.BigEndian.AppendUint32(append(b, '-'), uint32(middle>>32))
	b = binary.BigEndian.AppendUint32(append(b, '-'), uint32(middle))
	middle = hexadecimal(second >> 32)
	b = binary.BigEndian.AppendUint32(append(b, '-'), uint32(middle>>32))
	b = binary.BigEndian.AppendUint32(append(b, '-'), uint32(middle))
	b = binary.BigEndian.AppendUint64(b, hexadecimal(second))
	if n != 1 {
		b = strconv.AppendInt(append(b, '-'), int64(n), 10)
	}
	return b
}

// hexadecimal returns the eight digits of the lower half of a number, as big-endian bytes.
func hexadecimal(n uint64) uint64 {
	n &= 1<<32 - 1
	n = (n<<16 | n) & 0x0000ffff0000ffff
	n = (n<<8 | n) & 0x00ff00ff00ff00ff
	n = (n<<4 | n) & 0x0f0f0f0f0f0f0f0f
	letters := (n + 0x0606060606060606) >> 4 & 0x0101010101010101 // 1 for each digit from a on
	return n + 0x3030303030303030 + letters*('a'-'0'-10)
}

// parseID reads what appendID writes, in either case.
func parseID(id string) (stamp, seal uint64, n int, ok bool) {
	uuid, cost := id[:min(len(id), 36)], id[min(len(id), 37):]
	if n = 1; cost != "" {
		n, _ = strconv.Atoi(cost)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != 16 || n < 1 {
		return 0, 0, 0, false
	}
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	stamp, seal = first>>16<<12|first&0xfff, second&(1<<sealBits-1)
	return stamp, seal, n, strings.EqualFold(string(appendID(nil, stamp, seal, n)), id)
}

const sealBits = 62

// seal is the SipHash, under the secret, of all that an id states.
func seal(secret siphash.Key, ms, number uint64, n int, rules uint64, key string) uint64 {
	return secret.Words([]uint64{ms, number, uint64(n), rules}, key) >> (64 - sealBits)
}

// sealed reports whether an id has the seal of all that it states. An id of the release f6d7ae14 states
// twelve bits more, and its seal is as much shorter.
func sealed(got uint64, secret siphash.Key, ms, number uint64, n int, rules uint64, key string) bool {
	const moreBits = 12
	more, old := got>>(sealBits-moreBits), got&(1<<(sealBits-moreBits)-1)
	return got == seal(secret, ms, number, n, rules, key) || old == seal(secret, ms<<moreBits|more, number, n, rules, key)>>moreBits
}

// Redeem reads an id of a grant of a key and remembers it as settled. Rules holds the
// possible values of its Grant.Rules; which is the index of the actual one. The instant of the
// Grant is rounded down to whole milliseconds. The error is decider.ErrNoGrant if the id is not
// valid, or was settled before.
func (l *Ledger) Redeem(id, key string, rules []uint64, now time.Duration) (g decider.Grant, which int, err error) {
	stamp, got, n, ok := parseID(id)
	ms := latest(uint64(now/time.Millisecond), stamp>>numberBits, timeBits)
	number := latest(l.sealed.Load(), stamp, numberBits)
	which = slices.IndexFunc(rules, func(sum uint64) bool { return sealed(got, l.secret, ms, number, n, sum, key) })
	at := time.Duration(ms) * time.Millisecond
	if !ok || which < 0 || now-at > decider.GrantLife || !l.settle(number, now) {
		return decider.Grant{}, 0, decider.ErrNoGrant
	}
	return decider.Grant{N: n, At: at, Rules: rules[which]}, which, nil
}

// Instant returns the instant that an id of AppendID states, rounded down to whole milliseconds. It must be within GrantLife before now.
func Instant(id string, now time.Duration) (at time.Duration, ok bool) {
	stamp, _, _, ok := parseID(id)
	return time.Duration(latest(uint64(now/time.Millisecond), stamp>>numberBits, timeBits)) * time.Millisecond, ok
}

// settle remembers a grant, and reports whether it was not settled before.
func (l *Ledger) settle(number uint64, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(now)
	if number < l.floor {
		return false
	}
	at := number >> pageBits
	p := l.pages[at]
	if p == nil {
		for len(l.pages) >= l.maxPages {
			l.dropOldestLocked()
		}
		if number < l.floor {
			return false
		}
		p = new(page)
		l.pages[at] = p
	}
	return p.settle(number)
}

// settle remembers a grant, and reports whether it was not settled before.
func (p *page) settle(number uint64) bool {
	word, bit := &p[number%(1<<pageBits)/64], uint64(1)<<(number%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// forgetLocked sets marks, and drops the pages of grants that are too old.
func (l *Ledger) forgetLocked(now time.Duration) {
	if n := len(l.marks); n > 0 && now-l.marks[n-1].At < markEvery {
		return
	}
	old := 0
	for old < len(l.marks) && now-l.marks[old].At > decider.GrantLife {
		old++
	}
	if old > 0 {
		// Grants up to this mark were sealed before it, and decided before that.
		end := l.marks[old-1].Number >> pageBits
		maps.DeleteFunc(l.pages, func(at uint64, _ *page) bool { return at < end })
	}
	l.marks = append(slices.Delete(l.marks, 0, old), Mark{now, l.sealed.Load()})
}

func (l *Ledger) dropOldestLocked() {
	oldest := slices.Min(slices.Collect(maps.Keys(l.pages)))
	delete(l.pages, oldest)
	l.floor = max(l.floor, (oldest+1)<<pageBits)
}

// Life returns how long grants can be settled: decider.GrantLife, or less if there were
// more grants than MaxPages have room for.
func (l *Ledger) Life(now time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.floor == 0 {
		return decider.GrantLife
	}
	for _, m := range l.marks {
		if m.Number >= l.floor { // grants after the mark are above the floor
			return min(now-m.At, decider.GrantLife)
		}
	}
	return 0
}

// A State is the content of a Ledger without its pages, for snapshots.
type State struct {
	Secret        siphash.Key
	Sealed, Floor uint64
	Marks         []Mark
	Fleet         bool // a Fleet has written it
}

// A Page says which grants with consecutive numbers were settled, for snapshots.
type Page struct {
	At      uint64 // the first number, divided by that of all grants of a page
	Settled []uint64
}

// Valid reports whether a Ledger can have the state.
func (s *State) Valid() bool {
	return !slices.ContainsFunc(s.Marks, func(m Mark) bool { return m.At < 0 })
}

// Valid reports whether a Ledger can have the page.
func (p *Page) Valid() bool { return len(p.Settled) == len(page{}) }

// State returns the state. It is taken after Pages: then it names no grant as one that can be
// settled without its page.
func (l *Ledger) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Secret: l.secret, Sealed: l.sealed.Load(), Floor: l.floor, Marks: slices.Clone(l.marks)}
}

// Pages returns the pages. Each is copied when it is asked for.
func (l *Ledger) Pages() iter.Seq[Page] { return copies(&l.mu, l.pages) }

// copies returns the pages of a ledger that mu guards.
func copies(mu *sync.Mutex, pages map[uint64]*page) iter.Seq[Page] {
	return func(yield func(Page) bool) {
		mu.Lock()
		all := slices.Collect(maps.Keys(pages))
		mu.Unlock()
		for _, at := range all {
			mu.Lock()
			var settled page
			p := pages[at]
			if p != nil {
				settled = *p
			}
			mu.Unlock()
			if p != nil && !yield(Page{at, settled[:]}) { // nil if it was dropped
				return
			}
		}
	}
}

// numberLeap exceeds the number of grants between two saves.
const numberLeap = 1 << 30

// Restore sets the state, without pages. After a crash, numbers leap, so that no grant gets
// the number of one that the state does not have. Restore and RestorePage must not be
// called concurrently with AppendGrantID and Redeem.
func (l *Ledger) Restore(s State, crashed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secret, l.floor, l.marks = s.Secret, s.Floor, s.Marks
	if crashed {
		s.Sealed += numberLeap
	}
	l.sealed.Store(s.Sealed)
}

// RestorePage adds a page.
func (l *Ledger) RestorePage(p Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pages) >= l.maxPages {
		l.dropOldestLocked()
	}
	l.pages[p.At] = (*page)(slices.Clone(p.Settled))
}
