package tally

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/internal/siphash"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(page{}); n != pageBytes {
		t.Errorf("a page has %d bytes: want %d", n, pageBytes)
	}
	if n := unsafe.Sizeof(shard{}); n != shardBytes {
		t.Errorf("a shard has %d bytes: want %d", n, shardBytes)
	}
	for _, memory := range []int{MinMemory, 100_000, 1 << 20, 10 << 20, 64 << 20, 100 << 20, 1 << 30} {
		tt := newTable(memory, siphash.Key{}, newRule(Quota{}, 0))
		if most := len(tt.shards) * shardMost(tt.maxDepth); most > memory || most < memory*9/10 {
			t.Errorf("%d bytes: %d shards of %d pages are %d", memory, len(tt.shards), 1<<tt.maxDepth, most)
		}
	}
}

// A life is a small table in which keys live close together, and what is known
// of each from without.
type life struct {
	t      *testing.T
	r      *rule
	table  *table
	chance *rand.Rand
	now    time.Duration
	keys   map[uint64]*biography
}

// A biography is what a key was allowed.
type biography struct {
	count  count // when it was last asked for
	alone  count // what it would be without neighbours
	exact  bool  // and is, because the key was never without its place
	grants []grant
}

type grant struct {
	at time.Duration
	n  int
}

func newLife(t *testing.T, seed uint64, q Quota, maxDepth uint8) *life {
	f := &life{t: t, r: newRule(q, -1), chance: rand.New(rand.NewPCG(seed, 4)), now: 1000 * time.Hour, keys: map[uint64]*biography{}}
	f.table = newTable(MinMemory, siphash.Key{}, f.r)
	f.table.shards, f.table.maxDepth = f.table.shards[:1], maxDepth
	return f
}

// ask lets a key ask for n, and fails if it is not judged as it should be.
func (f *life) ask(print uint64, n int) {
	f.t.Helper()
	k := f.keys[print]
	if k == nil {
		k = &biography{}
		f.keys[print] = k
	}
	s := &f.table.shards[0]
	p := s.find(f.table, print)
	used, _ := f.r.used(p.count, f.now)
	was, _ := f.r.used(k.count, f.now)
	switch {
	case p.slot != nil && used != was:
		f.t.Fatalf("%x has used %d: want %d", print, used, was)
	case used < was:
		f.t.Fatalf("%x was forgotten when it had used %d, and starts from %d", print, was, used)
	case used == 0:
		k.alone, k.exact = count{}, true
	case p.slot == nil:
		k.exact = false
	}
	d := s.take(f.table, print, "", f.now, n, 0)
	if k.exact {
		alone, want := f.r.take(k.alone, f.now, n, f.r.limit)
		if d != want {
			f.t.Fatalf("%x is told %+v: alone it would be %+v", print, d, want)
		}
		k.alone = alone
	}
	if d.OK && n > 0 {
		k.grants = append(k.grants, grant{f.now, n})
		k.count = s.find(f.table, print).count
	}
}

// check fails if a key was allowed more than windows promise.
func (f *life) check() {
	f.t.Helper()
	for print, k := range f.keys {
		for i, first := range k.grants {
			seen := 0
			for _, g := range k.grants[i:] {
				d := g.at - first.at
				if d >= f.r.period {
					break
				}
				seen += g.n
				most := 2 * float64(f.r.limit)
				if f.r.sliding {
					most = float64(f.r.limit) * (1 + d.Seconds()/f.r.period.Seconds())
				}
				if float64(seen) > most+1e-6 {
					f.t.Fatalf("%x: %d events in %v: want at most %v", print, seen, d, most)
				}
			}
		}
	}
}

// However keys crowd each other out, nobody finds more than was left; nobody who
// has a place notices; and windows keep their promise.
func FuzzNeighbours(f *testing.F) {
	for n := range uint64(60) {
		f.Add(n, uint16(n*60), uint8(n%7), n%2 == 0, uint8(n/2%4))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, limit uint8, sliding bool, maxDepth uint8) {
		f := newLife(t, seed, Quota{Limit: 1 + int(limit%8), Period: time.Second, Sliding: sliding}, maxDepth%4)
		crowd := 1 + f.chance.IntN(1000)
		prints := make([]uint64, crowd)
		for i := range prints {
			prints[i] = max(f.chance.Uint64(), 1)
		}
		for range n % 5000 {
			f.now += time.Duration(f.chance.IntN(int(5 * time.Second / time.Duration(crowd))))
			f.ask(prints[f.chance.IntN(crowd)], f.chance.IntN(3))
		}
		f.check()
		for i, p := range f.table.shards[0].dir.pages {
			for _, s := range p.slots {
				d := f.table.shards[0].dir.depth
				if s.print > 0 && prefix(s.print, 1, d)>>(d-p.depth) != i>>(d-p.depth) {
					t.Fatalf("%x is on the wrong page", s.print)
				}
			}
		}
	})
}

// The crowd is large enough: there are keys without a place, floors that deny,
// and keys that come back to one.
func TestNeighboursAreForgotten(t *testing.T) {
	for sliding, crowd := range map[bool]uint64{false: 1000, true: 350} {
		f := newLife(t, 1, Quota{Limit: 3, Period: time.Second, Sliding: sliding}, 1)
		for range 20_000 {
			f.now += time.Millisecond
			f.ask(1+f.chance.Uint64N(crowd)*0x9e3779b97f4a7c15, 1)
		}
		f.check()
		s := &f.table.shards[0]
		exact := 0
		for _, k := range f.keys {
			if k.exact {
				exact++
			}
		}
		if s.forgotten < 100 || s.denied < 100 || exact < 10 || exact > int(crowd)-10 {
			t.Errorf("sliding %v: %d forgotten, %d denied, %d of %d have had their place all along", sliding, s.forgotten, s.denied, exact, crowd)
		}
	}
}

// Two words hold a count as it is, up to the largest.
func TestCountsAreKept(t *testing.T) {
	for _, number := range []uint64{0, 1, 1<<22 - 1, 1 << 22, 1<<44 - 1} {
		for _, last := range []uint64{0, 1, MaxLimit} {
			for _, this := range []uint64{0, 1, MaxLimit} {
				c := slidingCount(number, last, this)
				if c.number() != number || c.last() != last || c.this() != this {
					t.Errorf("%d, %d, %d became %d, %d, %d", number, last, this, c.number(), c.last(), c.this())
				}
			}
		}
	}
	r := newRule(Quota{Period: 1, Sliding: true}, 0)
	if n := r.number(math.MaxInt64); n >= 1<<44 {
		t.Errorf("there are %d windows", n)
	}
	for _, tt := range []struct {
		q       Quota
		maxDebt int
		want    rule
	}{
		{Quota{5, time.Hour, true}, 0, rule{5, 5, time.Hour, true}},
		{Quota{5, time.Hour, true}, 2, rule{5, 2, time.Hour, true}},
		{Quota{5, 0, false}, -1, rule{5, 0, math.MaxInt64, false}},
		{Quota{-5, 1, false}, 7, rule{0, 7, MinPeriod, false}},
		{Quota{math.MaxInt, time.Hour, true}, math.MaxInt, rule{MaxLimit, 0, time.Hour, true}},
		{Quota{1, time.Hour, true}, math.MaxInt, rule{1, MaxLimit - 1, time.Hour, true}},
	} {
		if r := newRule(tt.q, tt.maxDebt); *r != tt.want {
			t.Errorf("%+v, debt %d: %+v: want %+v", tt.q, tt.maxDebt, *r, tt.want)
		}
	}
}

// What a snapshot says is taken for what it can be, whatever a clock did since.
func TestRestoredCounts(t *testing.T) {
	const s = time.Second
	fixed, slides := newRule(Quota{Limit: 10, Period: s}, 0), newRule(Quota{Limit: 10, Period: s, Sliding: true}, 0)
	for _, tt := range []struct {
		rule      string
		r         *rule
		c         count
		then, now time.Duration
		want      count
	}{
		{"a window goes on", fixed, count{uint64(105 * s), 4}, 104 * s, 104*s + 5, count{uint64(105 * s), 4}},
		{"a clock that was set back does not make it longer", fixed, count{uint64(105 * s), 4}, 104*s + 5, 50 * s, count{uint64(51*s - 5), 4}},
		{"nor does anything else", fixed, count{uint64(900 * s), 4}, 104 * s, 104 * s, count{uint64(105 * s), 4}},
		{"not even an end that cannot be", fixed, count{math.MaxUint64, 4}, 104 * s, 104 * s, count{uint64(105 * s), 4}},
		{"and no more is used of it than can be", fixed, count{uint64(105 * s), math.MaxUint64}, 104 * s, 104 * s, count{uint64(105 * s), MaxLimit}},
		{"a clock set back to before all windows", fixed, count{uint64(105 * s), 4}, 200 * s, 2 * s, count{0, 4}},
		{"a snapshot of an instant that cannot be", fixed, count{uint64(105 * s), 4}, -5, 104 * s, count{uint64(105 * s), 4}},
		{"a sliding window goes on", slides, slidingCount(104, 3, 4), 104 * s, 105 * s, slidingCount(104, 3, 4)},
		{"and is not of the future", slides, slidingCount(104, 3, 4), 104 * s, 50 * s, slidingCount(50, 3, 4)},
	} {
		if got := tt.r.restored(tt.c, tt.then, tt.now); got != tt.want {
			t.Errorf("%s: %+v: want %+v", tt.rule, got, tt.want)
		}
	}
}

// What joins two counts is at any later time as much as the larger of them; and
// no more than is needed, if one of them has ended. A count weighs nothing if
// and only if it counts nothing.
func FuzzJoin(f *testing.F) {
	for n := range uint64(200) {
		f.Add(n, n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, sliding bool) {
		chance := rand.New(rand.NewPCG(seed, 5))
		r := newRule(Quota{Limit: 100, Period: time.Second, Sliding: sliding}, 0)
		now := 1000*time.Hour + time.Duration(chance.IntN(int(time.Second)))
		made := func() (c count) {
			for at := now - 2500*time.Millisecond; at <= now; at += time.Duration(chance.IntN(int(2 * time.Second))) {
				c, _ = r.take(c, at, chance.IntN(60), r.limit)
			}
			return c
		}
		a, b := made(), made()
		joined := r.join(a, b, now)
		for at := now; at < now+3*time.Second; at += 100 * time.Millisecond {
			m := r.moment(at)
			ua, _ := r.used(a, at)
			ub, _ := r.used(b, at)
			uj, _ := r.used(joined, at)
			if uj < max(ua, ub) || (ua == 0 || ub == 0) && at == now && uj != max(ua, ub) {
				t.Fatalf("%d and %d are %d together, %v later", ua, ub, uj, at-now)
			}
			if w := r.weight(a, &m); (w > 0) != (ua > 0) || math.Abs(w-float64(ua)) > 1 {
				t.Fatalf("%d weigh %v", ua, w)
			}
		}
	})
}
