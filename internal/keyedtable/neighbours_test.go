package keyedtable

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/window"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(shard[string]{}); n != shardBytes {
		t.Errorf("a shard has %d bytes: want %d", n, shardBytes)
	}
	for _, memory := range []int{MinMemory, 100_000, 1 << 20, 10 << 20, 64 << 20, 100 << 20, 1 << 30} {
		tt := newTable[int](memory, siphash.Key{}, nil, nil)
		if most := len(tt.shards) * shardMost(uint8(tt.maxDepth.Load())); most > memory || most < memory*9/10 {
			t.Errorf("%d bytes: %d shards of %d pages are %d", memory, len(tt.shards), 1<<tt.maxDepth.Load(), most)
		}
	}
}

func newWindowTable(r *pagetable.Rule) *table[string] {
	return newTable[string](MinMemory, siphash.Key{}, nil, r)
}

func eachFloor(p *pagetable.Page, f func(i int) pagetable.Value) {
	for i := range 5 {
		pagetable.Windows.Set(p, 1+2*i, f(i))
	}
}

// A life is a small table in which keys live close together, and what is known
// of each from without.
type life struct {
	t      *testing.T
	r      *pagetable.Rule
	table  *table[string]
	chance *rand.Rand
	now    time.Duration
	keys   map[uint64]*biography
}

// A biography notes the events that a key was allowed.
type biography struct {
	count  pagetable.Value // when it was last asked for
	alone  pagetable.Value // what it would be without neighbours
	exact  bool            // and is, because the key was never without its place
	grants []grant
}

type grant struct {
	at time.Duration
	n  int
}

func newLife(t *testing.T, seed uint64, q Window, maxDepth uint8) *life {
	f := &life{t: t, r: pagetable.NewRule(q, -1), chance: rand.New(rand.NewPCG(seed, 4)), now: 1000 * time.Hour, keys: map[uint64]*biography{}}
	f.table = newWindowTable(f.r)
	f.table.shards = f.table.shards[:1]
	f.table.maxDepth.Store(uint32(maxDepth))
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
	var p place
	s.find(f.table, &p, print)
	used, _ := f.r.Used(p.value, f.now)
	was, _ := f.r.Used(k.count, f.now)
	switch {
	case p.at != 0 && used != was:
		f.t.Fatalf("%x has used %d: want %d", print, used, was)
	case used < was:
		f.t.Fatalf("%x was forgotten when it had used %d, and starts from %d", print, was, used)
	case used == 0:
		k.alone, k.exact = pagetable.Value{}, true
	case p.at == 0:
		k.exact = false
	}
	d := s.take(f.table, print, nil, f.now, n, 0)
	if k.exact {
		alone, want := f.r.Take(k.alone, f.now, n, f.r.Limit)
		if d != want {
			f.t.Fatalf("%x is told %+v: alone it would be %+v", print, d, want)
		}
		k.alone = alone
	}
	if d.OK && n > 0 {
		k.grants = append(k.grants, grant{f.now, n})
		var p place
		s.find(f.table, &p, print)
		k.count = p.value
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
				if d >= f.r.Period {
					break
				}
				seen += g.n
				most := 2 * float64(f.r.Limit)
				if f.r.Sliding {
					most = float64(f.r.Limit) * (1 + d.Seconds()/f.r.Period.Seconds())
				}
				if float64(seen) > most+1e-6 {
					f.t.Fatalf("%x: %d events in %v: want at most %v", print, seen, d, most)
				}
			}
		}
	}
}

// However keys crowd each other out, no key finds more than was left; a key with a
// place does not notice; and windows keep their promise.
func FuzzNeighbours(f *testing.F) {
	for n := range uint64(60) {
		f.Add(n, uint16(n*60), uint8(n%7), n%2 == 0, uint8(n/2%4))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, limit uint8, sliding bool, maxDepth uint8) {
		f := newLife(t, seed, Window{Limit: 1 + int(limit%8), Period: time.Second, Sliding: sliding}, maxDepth%4)
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
		checkPrefixes(t, &f.table.shards[0].dir)
	})
}

// checkPrefixes fails if a key is not on the page of its fingerprint.
func checkPrefixes(t *testing.T, d *pagetable.Directory) {
	t.Helper()
	for i, p := range d.Pages {
		for at := pagetable.Windows.First; at < pagetable.Words; at += pagetable.Windows.Words {
			if p[at] != 0 && pagetable.Prefix(p[at], 1, d.Depth)>>(d.Depth-p.Depth()) != i>>(d.Depth-p.Depth()) {
				t.Fatalf("%x is on the wrong page", p[at])
			}
		}
	}
}

// The crowd is large enough: there are keys without a place, floors that deny,
// and keys that come back to one.
func TestNeighboursAreForgotten(t *testing.T) {
	for sliding, crowd := range map[bool]uint64{false: 1000, true: 350} {
		f := newLife(t, 1, Window{Limit: 3, Period: time.Second, Sliding: sliding}, 1)
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

// A key that starts from a floor lacks the events of the floor until that ends, but
// begins a new window. Otherwise a key that had used all of its last window could
// have, in a period, that, the rest of the floor's window, and the next.
func TestFromAFloor(t *testing.T) {
	r := pagetable.NewRule(window.Quota{Limit: 5, Period: time.Second}, 0)
	const now, ends = 100 * time.Second, time.Second / 10
	tt := newWindowTable(r)
	tt.shards = tt.shards[:1]
	s := &tt.shards[0]
	p := new(pagetable.Page)
	eachFloor(p, func(int) pagetable.Value { return pagetable.Value{A: uint64(now + ends), B: 2} })
	s.dir.Pages = []*pagetable.Page{p}
	for _, ask := range []struct {
		at, n int
		want  weir.Decision
	}{
		{0, 4, weir.Decision{Remaining: 3, RetryAfter: ends, ResetAfter: ends}},
		{0, 0, weir.Decision{OK: true, Remaining: 3, ResetAfter: ends}},
		{0, 3, weir.Decision{OK: true, ResetAfter: time.Second}},
		{int(ends), 1, weir.Decision{RetryAfter: time.Second - ends, ResetAfter: time.Second - ends}},
		{int(time.Second), 5, weir.Decision{OK: true, ResetAfter: time.Second}},
	} {
		if d := s.take(tt, 1, nil, now+time.Duration(ask.at), ask.n, 0); d != ask.want {
			t.Errorf("%d after %v: %+v: want %+v", ask.n, time.Duration(ask.at), d, ask.want)
		}
	}
	if charged := s.settleAt(tt, 2, now, now, 0, 9); charged != 8 {
		t.Errorf("%d are charged: want what the floor and the debt leave", charged)
	}
	if d := s.take(tt, 2, nil, now+ends, 1, 0); d.RetryAfter != time.Second-ends {
		t.Errorf("%+v", d)
	}
	for used, want := range map[uint64]time.Duration{2: time.Second, 5: time.Second / 10} {
		if got := r.Ahead(pagetable.Value{A: uint64(now + time.Second/10), B: used}, now, 4, true); got != want {
			t.Errorf("of a floor of %d: %v: want %v", used, got, want)
		}
	}
}

// Another Quota does not make pages forget what they forgot.
func TestFloorsAreMoved(t *testing.T) {
	const s = time.Second
	fixed, slides := pagetable.NewRule(window.Quota{Limit: 5, Period: s}, 0), pagetable.NewRule(window.Quota{Limit: 5, Period: 2 * s, Sliding: true}, 0)
	tt := newWindowTable(fixed)
	p := new(pagetable.Page)
	pagetable.Windows.Set(p, 1, pagetable.Value{A: uint64(tt.now() + s), B: 2})
	tt.shards[0].dir.Pages = []*pagetable.Page{p}
	tt.shards[0].setRule(tt, slides)
	if used, _ := slides.Used(pagetable.Windows.Get(p, 1), tt.now()); used != 2 {
		t.Errorf("the floor is at %d: want 2", used)
	}
}

// Both halves of a page remember what was forgotten there.
func TestSplitKeepsFloors(t *testing.T) {
	r := pagetable.NewRule(window.Quota{Limit: 5, Period: time.Second}, 0)
	p := new(pagetable.Page)
	eachFloor(p, func(i int) pagetable.Value { return pagetable.Value{A: uint64(101 * time.Second), B: uint64(i + 1)} })
	floors := [10]uint64(p[1:])
	d := pagetable.Directory{Pages: []*pagetable.Page{p}}
	pagetable.Split(&d, pagetable.Windows, p, 1, 7, r.At(100*time.Second))
	if len(d.Pages) != 2 || d.Pages[0] == d.Pages[1] || [10]uint64(d.Pages[0][1:]) != floors || [10]uint64(d.Pages[1][1:]) != floors {
		t.Errorf("%d pages, of floors %v and %v", len(d.Pages), d.Pages[0][1:11], d.Pages[1][1:11])
	}
}
